"""Who owns a machine: a process of some host. Told to the provider as tags, and to the ledger."""

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
"""What every provider takes as a tag's value."""


class Owner(Model):
    """A process that owns machines, told apart from all others, later ones with its number too."""

    run: Word
    host: Word
    pid: int = Field(ge=0, le=1 << 31)
    started: float = Field(ge=0, le=1 << 53, allow_inf_nan=False)
    """No two processes of a host with one number share it. 0: this system does not tell."""

    @classmethod
    def here(cls, run: str) -> Self:
        """This process, for a run."""
        pid = os.getpid()
        return cls(run=run, host=this_host(), pid=pid, started=started(pid) or 0)

    @classmethod
    def tagged(cls, tags: Mapping[str, str]) -> Self | None:
        """From a machine's tags; None where they do not tell."""
        try:
            return cls.model_validate({name: tags[name] for name in ("run", "host", "pid", "started")})
        except (KeyError, ValidationError):
            return None

    def tags(self) -> dict[str, str]:
        """As tags of a machine, without the run."""
        return {"host": self.host, "pid": str(self.pid), "started": str(int(self.started))}

    @property
    def since_boot(self) -> bool:
        """Whether it certainly started here since the system did: not on another host that has this one's name."""
        return self.started > 0 and int(self.started) >> 33 == _boot()

    @property
    def alive(self) -> bool | None:
        """Whether it still runs. None: it is of another host, or this system does not tell."""
        if self.host != this_host() or os.name != "posix":  # elsewhere, asking after a process can end it
            return None
        if self.pid < 1:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            pass
        now = started(self.pid)
        return now is not None and (0 in (now, self.started) or now == self.started)


def started(pid: int) -> float | None:
    """
    What tells a process from another one that had or gets its number; 0 where the system does not tell it.

    None: it has ended. Made of its start, in ticks since the system's, and of the system's own start.
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
    A name for what shares process numbers: the machine, or the container.

    Containers may have one host's name; so a digest of the machine's id and of the process namespace is in it.
    """
    parts = f"{_read(Path('/etc/machine-id'))} {_namespace()}"
    digest = hashlib.sha256(parts.encode()).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40].strip("-") or "host"
    return f"{name}-{digest}"


@cache
def _boot() -> int:
    """20 bits that change with each start of the system."""
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
