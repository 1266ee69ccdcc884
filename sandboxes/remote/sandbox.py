"""A sandbox on a provider's machines: what all providers share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from sandboxes.base import MB, Capabilities, Execution, Limits, Program, Sandbox, SandboxConfig, Script
from sandboxes.env import chosen, values
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.redaction import Masks, maskable
from sandboxes.refusals import refuse_language
from sandboxes.remote.program import RemoteProgram
from sandboxes.remote.provider import LOST, Machine, Provider, ProviderError
from sandboxes.remote.retry import Pauses
from sandboxes.remote.runtime import RUNTIMES
from sandboxes.remote.upload import Files
from sandboxes.shield import finish

if TYPE_CHECKING:
    from sandboxes.packages import Lock
    from sandboxes.remote.agent_protocol import Greeting
    from sandboxes.remote.lifecycle import Lifecycle
    from sandboxes.remote.pool import Pool

_JOBS = 4
"""Machines of a run that does not say how many."""


class RemoteConfig(SandboxConfig):
    """What only a remote sandbox can be told. Times are seconds."""

    lifetime: int = Field(default=300, ge=60, le=3600)
    """After which the provider ends a machine by itself; it is prolonged while in use, where the provider can."""
    start_timeout: float = Field(default=120.0, gt=0)
    """For one attempt at making a machine."""
    wait: float = Field(default=600.0, ge=0)
    """How long to wait for a first machine while the account has as many as it may."""
    slack: float = Field(default=15.0, gt=0)
    """How long the machine may say nothing beyond what the limits of a call explain."""
    close_timeout: float = Field(default=20.0, gt=0)
    """For ending all machines."""
    batch: int = Field(default=256, ge=1, le=1024)
    """Rows that are sent at once, at most."""
    machine_memory: int = Field(default=1024 * MB, gt=0)
    """Bytes that a machine is ordered with, where the provider lets one choose."""
    pauses: Pauses = Pauses()


class RemoteSandbox(Sandbox):
    """See docs/backends.md; a subclass names itself and its provider."""

    provider: ClassVar[type[Provider]]
    capabilities: ClassVar[Capabilities] = Capabilities(
        languages=("python", "typescript"),
        isolation=("call", "batch"),
        packages=True,
        files=True,
        network=True,
        env=True,
        elsewhere=True,
        enforced=("timeout", "memory", "output", "result size", "no network", "the machine's life"),
    )

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self.remote = config if isinstance(config, RemoteConfig) else RemoteConfig(**dict(config))
        self._runtime = RUNTIMES[self.language]
        self._runtime.refuse(self.name, config)
        self._packages: tuple[str, ...] = ()
        """For the script; and what its runtime needs."""
        self._lock: Lock | None = None
        if config.packages or config.lock is not None:
            from sandboxes.packages import checked, read_lock

            self._packages = checked(config.packages)
            self._lock = read_lock(config.lock, "the lock") if config.lock is not None else None
        self._files = Files({})
        self._jobs = config.jobs or min(_JOBS, self.provider.cap)
        self._greeting: Greeting | None = None
        self._folder: str | None = None
        """Where the packages are in every machine."""
        self.uncut = ""
        """Why the provider leaves machines a network that scripts may not use, which the agent has to see to."""
        self.step: Callable[[str], AbstractContextManager[list[str]]] = lambda name: nullcontext([])
        """Entered before each thing that a machine needs, by its name, and left after; the list takes words of it."""
        self.variables: dict[str, str] = {}
        """For scripts."""
        self.masks = Masks(())
        """Of the credentials and the script's variables."""
        self._provider: Provider | None = None
        self._lifecycle: Lifecycle | None = None
        self._pool: Pool | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def concurrency(self) -> int:
        return self._jobs

    @property
    def batch(self) -> int:
        return self.remote.batch

    @property
    def run_seconds(self) -> float:
        return 10.0  # many round trips; rows come as they are done, whatever the batch

    @property
    def python(self) -> str | None:
        return self._greeting.python if self._greeting and self.language == "python" else None

    @property
    def lock(self) -> str | None:
        return self._lock.text if self._lock and self.language == "python" else None

    @property
    def identity(self) -> str:
        parts = [self.name] + ([f"python-{self.python}"] if self.python else [])
        parts += [f"deno-{self._greeting.deno}"] if self._greeting and self._greeting.deno else []
        parts += [f"packages-{self._lock.digest[:12]}"] if self._lock and self.lock else []
        return "/".join(parts)

    @property
    def files(self) -> dict[str, str]:
        """Where the user's files lie in every machine, by the name of the variable."""
        return self._files.places

    @property
    def manifest(self) -> dict[str, Any]:
        config = self.config
        found: dict[str, Any] = {"sandbox": self.identity, "isolation": self.isolation}
        if self._provider:
            found["address"] = self._provider.address
        if self._greeting:
            found |= self._greeting.model_dump(mode="json", exclude_none=True)
        packages = dict(self._lock.packages) if self._lock and self.lock else {}
        found |= {"network_at_provider": f"open: {self.uncut}"} if self.uncut else {}
        asked = {"network": config.network, "env": list(config.env), "files": list(config.files)}
        return found | {"packages": packages} | asked | {"sent": self._files.digests}

    @classmethod
    def check(cls) -> str:
        """Whether there are credentials; nothing is asked of the provider."""
        made = cls.provider(values(None))
        return f"credentials found, not tried: evalcell sandboxes --try {cls.name} does; {made.address}"

    async def open(self) -> None:
        from sandboxes.remote.lifecycle import Lifecycle
        from sandboxes.remote.pool import Pool

        self._packages = self._packages or self._runtime.requirements()
        every = values(self.config.env_file)
        self.variables = chosen(self.config.env, self.config.env_file)
        self.masks = Masks([*self.variables.values(), *(every.get(name, "") for name in self.provider.variables)])
        for name in (name for name, value in self.variables.items() if not maskable(value)):
            self.warn(f"the value of the variable {name} is too short to be masked in results and output")
        if self.config.files:
            self._files = await asyncio.to_thread(Files.read, self.config.files)
        remote = self.remote
        with self.masks.errors():
            self._provider = self.provider(every)
            await self._provider.open()
            self._lifecycle = Lifecycle(
                self._provider,
                remote.pauses,
                self._warn,
                start_timeout=remote.start_timeout,
                bake_timeout=self.config.install_timeout,
                lifetime=remote.lifetime,
            )
            self._pool = Pool(
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

    def _say(self, line: str) -> None:
        with suppress(Exception):  # a terminal that is gone, say: no machine is left for that
            self.progress(self.masks.text(line))

    def _warn(self, line: str) -> None:
        with suppress(Exception):
            self.warn(self.masks.text(line))

    async def _bring_up(self) -> Machine:
        """A machine with the packages, its network cut where it was open for them only."""
        from sandboxes.remote.provision import locked

        provider, lifecycle, config = self._provider, self._lifecycle, self.config
        assert provider is not None
        assert lifecycle is not None
        wants = bool(self._packages or self._lock)
        deadline = asyncio.get_running_loop().time() + config.install_timeout
        if provider.bakes and wants and self._lock is None:
            with self.step("resolve"):
                self._lock = await locked(self._packages, provider.python or "", "x86_64", self._say, deadline)
        baked = self._lock.text if self._lock and provider.bakes else None
        online = config.network or (wants and not provider.bakes)
        for last in (False, False, True):
            with self.step("order") as words:
                machine = await lifecycle.create(network=online, memory=self.remote.machine_memory, lock=baked)
                words.append(f"machine {machine.id}")
            try:
                await self._prepare(provider, machine, wants, deadline)
                return machine
            except LOST:  # a new machine: who knows what happens in this one
                lifecycle.end(machine)
                if last:
                    raise
            except BaseException:
                lifecycle.end(machine)
                raise
        raise AssertionError("the last one returns or raises")

    async def _prepare(self, provider: Provider, machine: Machine, wants: bool, deadline: float) -> None:
        from sandboxes.remote.provision import STRAYS, greeted, installed, locked, offline, uncut

        why = machine.uncut
        if self._greeting is None:
            with self.step("greet") as words:
                self._greeting = await greeted(provider, machine, self.remote.pauses)
                words.append(f"Python {self._greeting.python}, {self._greeting.system}")
                self._runtime.refuse_unsettled(provider.name, self._greeting)
            if not {"pids", "orphans"} & set(self._greeting.protects):
                self._warn(f"{provider.name}: {STRAYS}")
        if wants and not provider.bakes:
            if self._lock is None:
                python, kind = self._greeting.python, self._greeting.machine
                with self.step("resolve"):
                    self._lock = await locked(self._packages, python, kind, self._say, deadline)
            with self.step("install"):
                self._folder = await installed(provider, machine, self._lock, self._say, deadline)
            if not self.config.network:
                with self.step("cut") as words:
                    why = await uncut(provider, machine, self.remote.pauses)
                    words.append("the service leaves it open" if why else "the machine has no network any more")
        elif wants:
            self._folder = "site"
        if self.config.files:
            with self.step("files"):
                await self._files.send(provider, machine, self.remote.pauses, self._say, deadline)
        if not self._runtime.is_ready(self._greeting):
            with self.step("deno"):
                self._greeting = await greeted(provider, machine, self.remote.pauses, self.language, self._folder)
        if why and not (self.config.network or self.uncut):
            self._warn(offline(provider.name, why, self._greeting))
            self.uncut = self.masks.text(why)

    @property
    def place(self) -> tuple[Provider, Pool, Greeting, str | None]:
        """What a program needs to run. Raises SandboxError unless the sandbox is open."""
        if self._provider is None or self._pool is None or self._greeting is None:
            raise SandboxError(f"the {self.name} sandbox is not open; use it as `async with sandbox:`")
        return self._provider, self._pool, self._greeting, self._folder

    def shown(self, execution: Execution) -> Execution:
        """As it may be shown, with a next step where there is one."""
        return self.masks.execution(self._runtime.explained(execution))

    async def load(self, script: Script, limits: Limits) -> Program:
        refuse_language(self.name, self.language, script)
        program = RemoteProgram(self, script)
        with self.masks.errors():
            await program.load(limits)
        return program

    async def close(self) -> None:
        """Takes some seconds at most, and is not hurried by being cancelled."""
        if self._lifecycle:
            self._lifecycle.end_all()  # before anything else can be stopped
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
            with suppress(SandboxError):  # nothing runs there any more, and nobody can do anything about it
                await provider.close()
