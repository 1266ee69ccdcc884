"""CPython in a hardened process, with pinned packages; it forks for every batch or every call."""

from __future__ import annotations

import asyncio
import os
import platform
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sandboxes.base import Capabilities, Execution, Limits, SandboxConfig
from sandboxes.boxes.holder import Holder
from sandboxes.boxes.host_files import View, view
from sandboxes.boxes.launch import PROTECTS, TMP_SIZE, BoxSetup, Inner, plan
from sandboxes.boxes.sandbox import BoxedSandbox, TierConfig
from sandboxes.boxes.seats import MOST_THREADS
from sandboxes.boxes.tiers import Make
from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.env import choose_variables
from sandboxes.host.tree import lacking
from sandboxes.process.python_box import PythonBox
from sandboxes.process.python_holder import PythonHolder
from sandboxes.protocol import Raw
from sandboxes.words.redaction import Masks, maskable
from sandboxes.words.wording import Message, Setting

if TYPE_CHECKING:
    from sandboxes.packages import Lock

_INNER = Inner("process", "python.zygote", processes=48, descriptors=64)  # a numeric library needs a handful

_THREADS = 4
"""More threads of a box for each run that others run beside."""


class ProcessConfig(TierConfig):
    """Settings of the process sandbox only."""

    backend: str = "process"


class ProcessSandbox(BoxedSandbox[PythonBox]):
    """CPython in a hardened process; see docs/threat-model.md for what each tier protects."""

    name: ClassVar[str] = "process"
    has_seats: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = Capabilities(
        languages=("python",),
        isolation=("batch", "call"),
        packages=True,
        files=True,
        network=True,
        env=True,
        judges=True,
        judge_rounds=True,
        disk=True,
        cpu=True,
        enforced=(
            *("timeout", "processor time", "memory of the process tree", "processes", "output", "result size"),
            *("what files hold", "no network"),
        ),
        tiers=tuple(f"{tier}: {protects}" for tier, protects in PROTECTS.items()),
    )

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._packages: tuple[str, ...] = ()
        self._lock: Lock | None = None
        if config.packages or config.lock is not None:
            from sandboxes.packages import (  # imported here because most scripts need none
                normalize_requirements,
                read_lock,
            )

            self._packages = normalize_requirements(config.packages)
            self._lock = read_lock(config.lock, "the lock") if config.lock is not None else None
        self._masks = Masks(())

    @property
    def python(self) -> str:
        return platform.python_version()

    @property
    def lock(self) -> str | None:
        return self._lock.text if self._lock else None

    @property
    def identity(self) -> str:
        parts = [f"process/python-{self.python}"]
        parts += [f"tier-{self._active.tier}"] if self._active else []
        parts += [f"packages-{self._lock.digest[:12]}"] if self._lock else []
        return "/".join(parts)

    @property
    def manifest(self) -> dict[str, Any]:
        packages = dict(self._lock.packages) if self._lock else {}
        config = self.config
        asked = {"network": config.network, "env": list(config.env), "files": list(config.files)}
        return super().manifest | {"python": self.python, "packages": packages} | asked

    @classmethod
    def _bare(cls) -> Make[PythonBox]:
        return _maker(BoxSetup(_INNER, view()))

    async def _make(self) -> Make[PythonBox]:
        config = self.config
        variables = choose_variables(config.env, config.env_file)
        self._masks = Masks(variables.values())
        for name in (name for name, value in variables.items() if not maskable(value)):
            self.warn(f"the value of the variable {name} is too short to be masked in results and output")
        files = {name: _file(name, path) for name, path in config.files.items()}
        host = await asyncio.to_thread(view)
        packages = await self._install(host) if self._packages or self._lock else None
        disk = TMP_SIZE if config.disk is None else config.disk
        # Beside a run that has as many threads as one may, there is room for those of the others.
        more = MOST_THREADS + _THREADS * self.seats if self.seats else 0
        inner = replace(_INNER, processes=_INNER.processes + more)
        setup = BoxSetup(inner, host, packages, files, variables, config.network, disk, beside=self.seats)
        return _maker(await self.with_ports(setup))

    async def holder(self) -> Holder:
        return PythonHolder(await self.box(), self.box, self.isolation)

    async def _install(self, host: View) -> Path:
        from sandboxes.packages import fetch_wheels, install, resolve

        python = Path(host.python)
        deadline = asyncio.get_running_loop().time() + self.config.install_timeout
        if self._lock is None:
            self._lock = await resolve(self._packages, python, say=self.progress, deadline=deadline)
        else:
            await fetch_wheels(self._packages, say=self.progress, deadline=deadline)
        return await install(self._lock, python, say=self.progress, deadline=deadline)

    def execution(self, raw: Raw, limits: Limits, entrypoint: str, loading: bool = False) -> Execution:
        """Return the execution, with the values of the caller's variables masked."""
        return self._masks.execution(super().execution(raw, limits, entrypoint, loading))


def _maker(setup: BoxSetup) -> Make[PythonBox]:
    return lambda tier, bwrap: PythonBox(plan(tier, setup, bwrap))


def _file(name: str, path: str) -> str:
    """The real path of a file, or of a folder, that scripts may read. Raises UnsupportedConfigError."""
    found, file = Path(path).resolve(), Setting("sandbox.files", f"{name}={path}")
    others = hasattr(os, "geteuid") and os.geteuid() == 0
    try:
        mode = found.stat().st_mode
        closed = lacking(str(found), others=others) if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else ""
    except OSError as e:
        raise UnsupportedConfigError(Message(file, f" cannot be read ({e.strerror}); check the path")) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UnsupportedConfigError(Message(file, " is not a regular file or a folder; choose one"))
    if closed and others:
        way = f"chmod -R o+rX {path}" if stat.S_ISDIR(mode) else f"chmod o+r {path}"
        raise UnsupportedConfigError(
            Message(file, f": as root, scripts run as another user, who may not read it; run: {way}")
        )
    if closed:
        raise UnsupportedConfigError(Message(file, " is not readable for you; check its permissions"))
    return str(found)
