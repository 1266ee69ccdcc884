"""The owner of a machine: a process of a host, stored in the machine's tags and in the ledger."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError

from sandboxes.base import Model

_PROC = Path("/proc")

Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,63}$")]
"""A tag value that every provider accepts."""


class Owner(Model):
    """A process that owns machines, distinguished from later processes with the same number."""

    run: Word
    host: Word
    pid: int = Field(ge=0, le=1 << 31)
    started: float = Field(ge=0, le=1 << 53, allow_inf_nan=False)
    """Differs between processes of a host that have the same number. 0: the system does not provide it."""

    @classmethod
    def this_process(cls, run: str) -> Self:
        """This process as the owner, for a run."""
        pid = os.getpid()
        return cls(run=run, host=this_host(), pid=pid, started=start_number(pid) or 0)

    @classmethod
    def from_tags(cls, tags: Mapping[str, str]) -> Self | None:
        """The owner in a machine's tags, or None."""
        try:
            return cls.model_validate({name: tags[name] for name in ("run", "host", "pid", "started")})
        except (KeyError, ValidationError):
            return None

    def tags(self) -> dict[str, str]:
        """The tags of a machine, without the run."""
        return {"host": self.host, "pid": str(self.pid), "started": str(int(self.started))}

    @property
    def since_boot(self) -> bool:
        """Whether it certainly started on this host since the last boot, not on another host with the same name."""
        return self.started > 0 and int(self.started) >> 33 == _boot()

    @property
    def alive(self) -> bool | None:
        """Whether it still runs. None: it is on another host, or the system does not provide it."""
        if self.host != this_host() or os.name != "posix":  # on other systems os.kill(pid, 0) can end a process
            return None
        if self.pid < 1:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            pass
        now = start_number(self.pid)
        return now is not None and (0 in (now, self.started) or now == self.started)


def start_number(pid: int) -> float | None:
    """
    A number that differs between processes with the same process number; 0 if the system does not provide it.

    None: the process has ended. The number consists of its start time in ticks and the system's boot id.
    """
    try:
        words = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        state, ticks = words[0], int(words[19])
    except (OSError, IndexError, ValueError):
        return 0.0
    if state in "ZX":
        return None
    return float((_boot() << 33) | (ticks & ((1 << 33) - 1)))


@cache
def this_host() -> str:
    """
    A name for what shares process numbers: the machine or the container.

    Containers may share a host name, so the name includes a digest of the machine id and the process namespace.
    """
    parts = f"{_read(Path('/etc/machine-id'))} {_namespace()}"
    digest = hashlib.sha256(parts.encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40].strip("-") or "host"
    return f"{name}-{digest}"


@cache
def _boot() -> int:
    """20 bits that change with each boot."""
    return int(hashlib.sha256(_read(_PROC / "sys/kernel/random/boot_id").encode()).hexdigest()[:5], 16)


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(200).strip()
    except OSError:
        return ""
