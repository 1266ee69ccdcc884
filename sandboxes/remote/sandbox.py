"""A sandbox on a provider's machines: what all providers share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from sandboxes.base import Capabilities, Execution, Limits, Program, Sandbox, SandboxConfig, Script
from sandboxes.errors import SandboxError, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.host.env import choose_variables
from sandboxes.host.shield import finish
from sandboxes.packages.script_packages import ScriptPackages
from sandboxes.refusals import refuse_language
from sandboxes.remote.config import RemoteConfig
from sandboxes.remote.credentials import Variables
from sandboxes.remote.program import RemoteProgram
from sandboxes.remote.provider import RETRY_ERRORS, Machine, Provider, ProviderError
from sandboxes.remote.runtime import RUNTIMES
from sandboxes.remote.upload import Files
from sandboxes.words.redaction import Masks, maskable

if TYPE_CHECKING:
    from sandboxes.packages import Lock
    from sandboxes.remote.agent_protocol import Greeting
    from sandboxes.remote.lifecycle import Lifecycle
    from sandboxes.remote.pool import MachinePool

_JOBS = 4
"""Machines of a run that does not say how many."""


class RemoteSandbox(Sandbox):
    """The base of all remote sandboxes, which add their name and their provider; see docs/backends.md."""

    provider: ClassVar[type[Provider]]
    capabilities: ClassVar[Capabilities] = Capabilities(
        languages=("python", "typescript"),
        isolation=("call", "batch"),
        packages=True,
        files=True,
        network=True,
        env=True,
        judge_rounds=True,
        elsewhere=True,
        enforced=("timeout", "memory", "output", "result size", "no network", "the machine's life"),
    )

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self.remote = config if isinstance(config, RemoteConfig) else RemoteConfig(**dict(config))
        self._runtime = RUNTIMES[self.language]
        self._runtime.refuse(self.name, config)
        self._packages: tuple[str, ...] = ()
        """For the script and its runtime."""
        self._lock: Lock | None = None
        self._npm = ScriptPackages(config if self.language == "typescript" else SandboxConfig())
        if self.language == "python" and (config.packages or config.lock is not None):
            from sandboxes.packages import direct_wheel, normalize_requirements, read_lock

            self._packages = normalize_requirements(config.packages)
            if wheel := next(filter(None, map(direct_wheel, self._packages)), None):
                raise UnsupportedConfigError(
                    f"the wheel {wheel.file} is named by its place, which a provider's machine does not have; put it "
                    "into an index of yours, or run the script in the process sandbox"
                )
            self._lock = read_lock(config.lock, "the lock") if config.lock is not None else None
        self._files = Files({})
        self._jobs = config.jobs or min(_JOBS, self.provider.cap)
        self._greeting: Greeting | None = None
        self._folder: str | None = None
        """The folder of the packages in every machine."""
        self.why_online = ""
        """Why machines have a network though scripts may not use it; then the agent keeps scripts off it."""
        self.step: Callable[[str], AbstractContextManager[list[str]]] = lambda name: nullcontext([])
        """Entered with the name of each step of preparing a machine, and left after it; the list takes details."""
        self.variables: dict[str, str] = {}
        """For scripts."""
        self.masks = Masks(())
        """For the credentials and the script's variables."""
        self._provider: Provider | None = None
        self._lifecycle: Lifecycle | None = None
        self._pool: MachinePool | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def concurrency(self) -> int:
        return self._jobs

    @property
    def batch(self) -> int:
        return self.remote.batch

    @property
    def run_seconds(self) -> float:
        return 10.0  # many round trips; rows arrive as they are done, whatever the batch

    @property
    def python(self) -> str | None:
        return self._greeting.python if self._greeting and self.language == "python" else None

    @property
    def lock(self) -> str | None:
        return self._script_lock.text if self._script_lock else None

    @property
    def _script_lock(self) -> Lock | None:
        """The lock of the packages of scripts; that of Deno itself is none."""
        return self._lock if self.language == "python" else self._npm.lock

    @property
    def identity(self) -> str:
        parts = [self.name] + ([f"python-{self.python}"] if self.python else [])
        parts += [f"deno-{self._greeting.deno}"] if self._greeting and self._greeting.deno else []
        parts += [f"packages-{lock.digest[:12]}"] if (lock := self._script_lock) else []
        return "/".join(parts)

    @property
    def files(self) -> dict[str, str]:
        """The paths of the user's files in every machine, by the name of the variable."""
        return self._files.places

    @property
    def manifest(self) -> dict[str, Any]:
        config = self.config
        found: dict[str, Any] = {"sandbox": self.identity, "isolation": self.isolation}
        if self._provider:
            found["address"] = self._provider.address
        if self._greeting:
            found |= self._greeting.model_dump(mode="json", exclude_none=True)
        packages = dict(lock.packages) if (lock := self._script_lock) else {}
        found |= {"network_at_provider": f"open: {self.why_online}"} if self.why_online else {}
        asked = {"network": config.network, "env": list(config.env), "files": list(config.files)}
        return found | {"packages": packages} | asked | {"sent": self._files.digests}

    @classmethod
    def check(cls) -> str:
        """Say whether there are credentials; the provider is not contacted."""
        made = cls.provider(os.environ)
        return f"credentials found, not tested; to test them run evalcell sandboxes --try {cls.name}; {made.address}"

    async def open(self) -> None:
        from sandboxes.remote.lifecycle import Lifecycle
        from sandboxes.remote.pool import MachinePool

        self._packages = self._packages or self._runtime.requirements()
        await self._npm.open(self._say)
        every = Variables(self.provider, self.config.env_file)
        self.variables = choose_variables(self.config.env, self.config.env_file)
        self.masks = Masks([*self.variables.values(), *every.masks(self.provider)])
        for name in (name for name, value in self.variables.items() if not maskable(value)):
            self.warn(f"the value of the variable {name} is too short to be masked in results and output")
        if self.config.files:
            self._files = await asyncio.to_thread(Files.read, self.config.files)
        remote = self.remote
        with self.masks.errors():
            self._provider = self._make_provider(every)
            try:
                await self._provider.open()
                await self._ready_provider(self._provider)
            except ProviderError as e:
                raise SandboxUnavailableError(str(e)) from e
            self._lifecycle = Lifecycle(
                self._provider,
                remote.pauses,
                self._warn,
                start_timeout=remote.start_timeout,
                bake_timeout=self.config.install_timeout,
                lifetime=remote.lifetime,
            )
            self._pool = MachinePool(
                self._provider,
                self._bring_up,
                self._lifecycle.end,
                self._warn,
                size=self._jobs,
                lifetime=remote.lifetime,
                wait=remote.wait,
            )
            self._keeping = asyncio.create_task(self._pool.keep_alive())
            try:
                self._pool.give_back(await self._pool.take())
            except ProviderError as e:
                raise SandboxUnavailableError(str(e)) from e

    def _make_provider(self, values: Variables) -> Provider:
        return self.provider(values)

    async def _ready_provider(self, provider: Provider) -> None:
        """Do what must be done once before the first machine is ordered. Raises a ProviderError."""

    def _say(self, line: str) -> None:
        with suppress(Exception):  # for example a closed terminal, which must not leave a machine behind
            self.progress(self.masks.text(line))

    def _warn(self, line: str) -> None:
        with suppress(Exception):
            self.warn(self.masks.text(line))

    async def _bring_up(self) -> Machine:
        """Create a machine with the packages, with its network cut if it was open only for them."""
        from sandboxes.remote.provision import lock_for

        provider, lifecycle, config = self._provider, self._lifecycle, self.config
        assert provider is not None
        assert lifecycle is not None
        wants = bool(self._packages or self._lock)
        deadline = asyncio.get_running_loop().time() + config.install_timeout
        if provider.bakes and wants and self._lock is None:
            with self.step("resolve"):
                self._lock = await lock_for(
                    self._packages, provider.python or "", provider.machine, self._say, deadline
                )
        baked = self._lock.text if self._lock and provider.bakes else None
        online = config.network or (wants and not provider.bakes)
        for last in (False, False, True):
            with self.step("order") as words:
                machine = await lifecycle.create(network=online, memory=self.remote.machine_memory, lock=baked)
                words.append(f"machine {machine.id}")
            try:
                await self._prepare(provider, machine, wants, deadline)
                return machine
            except RETRY_ERRORS:  # the state of this machine is unknown, so take a new one
                lifecycle.end(machine)
                if last:
                    raise
            except BaseException:
                lifecycle.end(machine)
                raise
        raise AssertionError("the last one returns or raises")

    async def _prepare(self, provider: Provider, machine: Machine, wants: bool, deadline: float) -> None:
        from sandboxes.remote.provision import cut_network, greet, install_lock, lock_for, offline_warning

        why = machine.why_online
        if self._greeting is None:
            with self.step("greet") as words:
                self._greeting = await self._greet(provider, machine)
                words.append(f"Python {self._greeting.python}, {self._greeting.system}")
        if wants and not provider.bakes:
            if self._lock is None:
                python, kind = self._greeting.python, self._greeting.machine
                with self.step("resolve"):
                    self._lock = await lock_for(self._packages, python, kind, self._say, deadline)
            with self.step("install"):
                self._folder = await install_lock(provider, machine, self._lock, self._say, deadline)
            if not self.config.network:
                with self.step("cut") as words:
                    why = await cut_network(provider, machine, self.remote.pauses)
                    words.append("the service leaves it open" if why else "the machine's network is cut")
        elif wants:
            self._folder = provider.baked
        if self.config.files:
            with self.step("files"):
                await self._files.send(provider, machine, self.remote.pauses, self._say, deadline)
        if not self._runtime.is_ready(self._greeting):
            with self.step("deno"):
                found = await greet(provider, machine, self.remote.pauses, self.language, self._folder)
                self.hear(found)
                self._greeting = found
        if why and not (self.config.network or self.why_online):
            self._warn(offline_warning(provider.name, why, self._greeting))
            self.why_online = self.masks.text(why)

    async def _greet(self, provider: Provider, machine: Machine) -> Greeting:
        from sandboxes.remote.provision import greet

        found = await greet(provider, machine, self.remote.pauses)
        self._runtime.refuse_unsettled(provider.name, found)
        self.hear(found)
        return found

    def hear(self, greeting: Greeting) -> None:
        """Take note of what a machine's agent says of itself."""
        from sandboxes.remote.provision import STRAYS

        known = self._greeting
        if known is None or not known.protects:
            self._greeting = greeting
            if not {"pids", "orphans"} & set(greeting.protects):
                self._warn(f"{self.name}: {STRAYS}")

    @property
    def place(self) -> tuple[Provider, MachinePool, Greeting, str | None]:
        """What a program needs to run. Raises SandboxError unless the sandbox is open."""
        if self._provider is None or self._pool is None or self._greeting is None:
            raise SandboxError(f"the {self.name} sandbox is not open; use it as `async with sandbox:`")
        return self._provider, self._pool, self._greeting, self._folder

    def for_user(self, execution: Execution) -> Execution:
        """Return the execution with values masked, and a next step added if there is one."""
        return self.masks.execution(self._runtime.explain(execution))

    async def load(self, script: Script, limits: Limits) -> Program:
        refuse_language(self.name, self.language, script)
        program = RemoteProgram(self, await self._npm.give(script, self._say))
        with self.masks.errors():
            await program.load(limits)
        return program

    async def close(self) -> None:
        """End all machines, within some seconds, also if cancelled."""
        if self._lifecycle:
            self._lifecycle.end_all()  # first, before this can be interrupted
        if self._provider is not None:
            await finish(self._close)

    async def _close(self) -> None:
        if self._keeping:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        if self._lifecycle:
            await self._lifecycle.close(self.remote.close_timeout)
        provider, self._provider = self._provider, None
        self._pool = self._lifecycle = self._keeping = None
        if provider:
            with suppress(SandboxError):  # nothing runs there any more, so a failure has no consequence
                await provider.close()
