"""CPython in a hardened process, with pinned packages; a fork for every batch, or for every call."""

from __future__ import annotations

import asyncio
import os
import platform
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sandboxes import replies
from sandboxes.base import Capabilities, Execution, Limits, Program, Sandbox, SandboxConfig
from sandboxes.cores import cores
from sandboxes.errors import SandboxError, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.masks import Masks, maskable
from sandboxes.process import words
from sandboxes.process.box import Box
from sandboxes.process.plan import PROTECTS, Shown, Tier
from sandboxes.process.program import ProcessProgram
from sandboxes.process.tiers import Started, start
from sandboxes.process.view import View, view
from sandboxes.replies import Raw

if TYPE_CHECKING:
    from sandboxes.packages import Lock


class ProcessConfig(SandboxConfig):
    """What only the process sandbox can be told."""

    backend: str = "process"
    tier: Tier | None = None
    """None: the strongest that works here."""


class ProcessSandbox(Sandbox):
    """See docs/threat-model.md for what each tier protects."""

    name: ClassVar[str] = "process"
    capabilities: ClassVar[Capabilities] = Capabilities(
        languages=("python",),
        isolation=("batch", "call"),
        packages=True,
        files=True,
        network=True,
        env=True,
        enforced=("timeout", "memory of the process tree", "processes", "output", "result size", "no network"),
        tiers=tuple(f"{tier}: {protects}" for tier, protects in PROTECTS.items()),
    )

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._packages: tuple[str, ...] = ()
        self._lock: Lock | None = None
        if config.packages or config.lock is not None:
            from sandboxes.packages import checked, read_lock  # here: most scripts ask for none

            self._packages = checked(config.packages)
            self._lock = read_lock(config.lock, "the lock") if config.lock is not None else None
        self._tier = config.tier if isinstance(config, ProcessConfig) else None
        self._jobs = config.jobs or cores()
        self._masks = Masks(())
        self._started: Started | None = None
        self._spare: list[Box] = []
        self._boxes: set[Box] = set()
        self._programs: list[ProcessProgram] = []

    @property
    def concurrency(self) -> int:
        return self._jobs

    @property
    def batch(self) -> int:
        return 256  # with scikit-learn a fork costs as much as some twenty calls

    @property
    def python(self) -> str:
        return platform.python_version()

    @property
    def lock(self) -> str | None:
        return self._lock.text if self._lock else None

    @property
    def identity(self) -> str:
        parts = [f"process/python-{self.python}"]
        parts += [f"tier-{self._started.tier}"] if self._started else []
        parts += [f"packages-{self._lock.digest[:12]}"] if self._lock else []
        return "/".join(parts)

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = {"sandbox": self.identity, "python": self.python, "platform": platform.platform()}
        if self._started:
            tier = self._started.tier
            found |= {"tier": tier, "protects": PROTECTS[tier], "not_available": self._started.refused}
        packages = dict(self._lock.packages) if self._lock else {}
        asked = {"network": self.config.network, "env": list(self.config.env), "files": list(self.config.files)}
        return found | {"isolation": self.isolation, "packages": packages} | asked

    @classmethod
    def check(cls) -> str:
        """Tries the tiers, strongest first."""

        async def body() -> Started:
            started = await start(Shown(view=view()), None, weak=True)
            await started.box.close()
            return started

        with ThreadPoolExecutor(1) as aside:  # an event loop may run in this thread already
            found = aside.submit(lambda: asyncio.run(body())).result()
        if found.tier == "C":
            raise SandboxUnavailableError(words.none_works(found.refused, None))
        refused = [f"tier {tier}: {why}" for tier, why in found.refused.items()]
        return "; not available: ".join([f"tier {found.tier} is active", *refused])

    async def open(self) -> None:
        config = self.config
        variables = words.variables(config.env)
        self._masks = Masks(variables.values())
        for name in (name for name, value in variables.items() if not maskable(value)):
            self.progress(f"--env {name}: its value is too short to be masked in results and output")
        files = {name: _file(name, path) for name, path in config.files.items()}
        host = await asyncio.to_thread(view)
        packages = await self._installed(host) if self._packages or self._lock else None
        shown = Shown(host, packages, files, variables, config.network)
        self._started = await start(shown, self._tier, weak=config.allow_weak_isolation)
        self._keep(self._started.box)
        self._spare.append(self._started.box)
        if self._started.refused and self._tier is None:
            self.progress(words.weaker(self._started.tier, self._started.refused))

    async def _installed(self, host: View) -> Path:
        from sandboxes.packages import install, resolve

        python = Path(host.python)
        deadline = asyncio.get_running_loop().time() + self.config.install_timeout
        if self._lock is None:
            self._lock = await resolve(self._packages, python, say=self.progress, deadline=deadline)
        return await install(self._lock, python, say=self.progress, deadline=deadline)

    async def box(self) -> Box:
        """A box without a script, ready for one."""
        if self._started is None:
            raise SandboxError("the process sandbox is not open; use it as `async with sandbox:`")
        while self._spare:
            if (box := self._spare.pop()).alive:
                return box
        box = await self._started.another()
        self._keep(box)
        return box

    def _keep(self, box: Box) -> None:
        self._boxes = {kept for kept in self._boxes if not kept.closed} | {box}

    async def load(self, source: str, limits: Limits) -> Program:
        program = ProcessProgram(self, source, limits)
        self._programs = [kept for kept in self._programs if not kept.closed] + [program]
        try:
            await program.load()
        except BaseException:
            await program.close()
            raise
        return program

    def told(self, raw: Raw, limits: Limits, loading: bool = False) -> Execution:
        """The execution, as it may be shown: without the values of the caller's variables."""
        return self._masks.execution(replies.execution(raw, limits, loading=loading, deaths=words.DEATHS_HERE))

    async def close(self) -> None:
        programs, self._programs = self._programs, []
        await asyncio.gather(*(program.close() for program in programs))
        boxes, self._boxes, self._spare, self._started = self._boxes, set(), [], None
        await asyncio.gather(*(box.close() for box in boxes))


def _file(name: str, path: str) -> str:
    """The real path of a file to be shown. Raises UnsupportedConfigError."""
    found = Path(path).resolve()
    try:
        about = found.stat()
    except OSError as e:
        raise UnsupportedConfigError(f"--file {name}={path} cannot be read ({e.strerror}); check the path") from None
    if not stat.S_ISREG(about.st_mode):
        raise UnsupportedConfigError(f"--file {name}={path} is not a regular file; name one")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and not about.st_mode & 0o004:
        raise UnsupportedConfigError(
            f"--file {name}={path}: root's scripts run as another user, who may not read it; run: chmod o+r {path}"
        )
    if not os.access(found, os.R_OK):
        raise UnsupportedConfigError(f"--file {name}={path} may not be read by you; check its permissions")
    return str(found)
