"""The sandbox on a local container engine."""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

from sandboxes.base import Capabilities, Limits, Program, SandboxConfig, Script
from sandboxes.errors import SandboxUnavailableError
from sandboxes.host.cores import cores
from sandboxes.remote.credentials import Variables
from sandboxes.remote.docker.provider import DockerProvider
from sandboxes.remote.program import RemoteProgram
from sandboxes.remote.provider import Machine, Provider, ProviderError
from sandboxes.remote.sandbox import RemoteSandbox
from sandboxes.remote.stream import Greeting

_CHECK = 10.0
_BATCH = 512


class DockerSandbox(RemoteSandbox):
    """Scripts in containers of this machine's engine; see docs/backends.md."""

    name = "docker"
    provider: ClassVar[type[Provider]] = DockerProvider
    capabilities: ClassVar[Capabilities] = RemoteSandbox.capabilities.model_copy(
        update={
            "isolation": ("batch", "call"),  # as in the sandboxes whose place it takes
            "elsewhere": False,
            "images": True,
            "enforced": (
                "timeout, memory, output, result size: by the harness, as at a provider",
                "no network, a read-only root, no capabilities, no new privileges, another user: by the engine, and "
                "looked at from inside before a script runs",
                "memory, processes, open files and processors of a container: by the engine",
            ),
        }
    )

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._jobs = config.jobs or cores()
        self._second: asyncio.Task[None] | None = None
        """The start of the second container, and the load in it, while the first one loads and runs."""
        self._first_program: asyncio.Future[tuple[RemoteProgram, Limits]] | None = None
        self._seen: dict[str, Any] = {}
        """What is told of the engine and the image, also once it is closed."""

    @property
    def queue(self) -> int:
        return 1

    @property
    def batch(self) -> int:
        return _BATCH  # rows share the same state as in process

    @property
    def run_seconds(self) -> float:
        return 1.0

    @property
    def identity(self) -> str:
        image = self._seen.get("image_digest", "").rpartition(":")[2][:12]
        return super().identity + (f"/image-{image}" if image else "")

    @property
    def manifest(self) -> dict[str, Any]:
        return super().manifest | self._seen

    @classmethod
    def check(cls) -> str:
        """Say which engine answers; no image is looked for."""
        made = DockerProvider(os.environ)

        async def ask() -> str:
            try:
                async with asyncio.timeout(_CHECK):
                    await made.open()
                    await made.describe()
                return f"{made.engine.facts.words} at {made.address}; runtime {made.runtime or 'unknown'}"
            finally:
                await made.close()

        try:
            return _apart(ask)
        except ProviderError as e:
            raise SandboxUnavailableError(str(e).removeprefix("docker: ")) from None
        except TimeoutError:
            raise SandboxUnavailableError(f"the engine did not answer within {_CHECK:.0f} s; start it again") from None

    def _make_provider(self, values: Variables) -> Provider:
        config = self.config
        made = DockerProvider(values, engine=config.engine, image=config.image, runtime=config.runtime)
        made.say = self._say
        return made

    async def _ready_provider(self, provider: Provider) -> None:
        assert isinstance(provider, DockerProvider)
        provider.deadline = asyncio.get_running_loop().time() + self.config.install_timeout
        wants = bool(self._packages or self._lock)
        image = await provider.choose_image(for_packages=wants)
        self._seen = {"image": provider.image_name, "image_digest": image.digest}

    async def open(self) -> None:
        await super().open()
        made = self._provider
        assert isinstance(made, DockerProvider)
        self._first_program = asyncio.get_running_loop().create_future()
        self._start_second()
        self._seen |= {"engine": made.engine.facts.words, "runtime": made.runtime, "container": list(made.walls)}

    def _start_second(self) -> None:
        assert self._pool is not None
        self._second = asyncio.create_task(self._pool.prepare(self._load_ahead))

    async def _stop_second(self) -> None:
        if (second := self._second) is not None:
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)  # whoever takes a machine meets what it met

    async def close(self) -> None:
        await self._stop_second()
        await super().close()

    async def _load_ahead(self, machine: Machine) -> None:
        assert self._first_program is not None
        program, limits = await self._first_program
        if program.loaded.status == "ok":
            await program.load_ahead(machine, limits)

    async def _greet(self, provider: Provider, machine: Machine) -> Greeting:
        """
        Believe the container's first process, which has looked around: to start another Python only to ask takes as
        long as to load the script. What protects scripts is told once one is loaded.
        """
        assert isinstance(provider, DockerProvider)
        return Greeting(**{name: provider.facts[name] for name in ("python", "machine", "system")}, protects=())

    async def load(self, script: Script, limits: Limits) -> Program:
        if limits.memory > self.remote.machine_memory and self._pool is not None:
            # The containers that are there are too small; those that are made from now on are not.
            await self._stop_second()
            self.remote = self.remote.model_copy(update={"machine_memory": limits.memory})
            self._pool.drop_idle()
            self._start_second()
        program = await super().load(script, limits)
        if self._first_program is not None and not self._first_program.done():
            assert isinstance(program, RemoteProgram)
            self._first_program.set_result((program, limits))
        return program


def _apart(ask: Any) -> str:
    """The result of a coroutine, in a thread of its own if an event loop runs here."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return str(pool.submit(lambda: asyncio.run(ask())).result())
