"""
The machines that this user's runs have ordered, on disk from before the request until they have ended.

So a killed run leaves a record of what may still cost money. It never contains secrets.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote, urlsplit

from platformdirs import user_state_path
from pydantic import AwareDatetime, Field, ValidationError

from sandboxes.base import Model
from sandboxes.cache import of_user, private_dir
from sandboxes.errors import SandboxUnavailableError

VARIABLE = "EVALCELL_STATE_DIR"

MOST = 10_000
"""Most machines read from the list, the latest."""

FORGET_AFTER = timedelta(days=30)
"""Age at which a machine whose end nobody saw is no longer looked for: no provider lets one live so long."""

_PRINTED = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_WAIT = 10.0
"""Seconds to wait for other processes, and for whatever is in the file."""
_STEPS = {
    sqlite3.SQLITE_BUSY: "end the process that holds it, or ",
    sqlite3.SQLITE_FULL: "make room, or ",
    sqlite3.SQLITE_IOERR: "",
    sqlite3.SQLITE_READONLY: "",
}

Printable = Annotated[str, Field(pattern=r"^[!-~]*$", max_length=300)]


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
        """Return this process as the owner, for a run."""
        pid = os.getpid()
        return cls(run=run, host=this_host(), pid=pid, started=start_number(pid) or 0)

    @classmethod
    def from_tags(cls, tags: Mapping[str, str]) -> Self | None:
        """Return the owner in a machine's tags, or None."""
        try:
            return cls.model_validate({name: tags[name] for name in ("run", "host", "pid", "started")})
        except (KeyError, ValidationError):
            return None

    def tags(self) -> dict[str, str]:
        """Return the tags of a machine, without the run."""
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
    Return a number that differs between processes with the same process number; 0 if the system does not provide it.

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
    Return a name for what shares process numbers: the machine or the container.

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


class LedgerEntry(Owner):
    """The last event of an ordered machine, and its owner."""

    at: AwareDatetime
    event: Literal["creating", "created", "left", "ended", "failed"]
    """The last two: it no longer runs, or was never created. Such an entry is not kept."""
    provider: Printable
    address: Printable
    """The deployment, if a provider has several."""
    key: Printable
    id: Printable = ""
    """The provider's name for it; empty until it is known."""


_COLUMNS = ", ".join(LedgerEntry.model_fields)
_TABLE = f"CREATE TABLE IF NOT EXISTS machines ({_COLUMNS}, UNIQUE (key))"
_WRITE = f"INSERT OR REPLACE INTO machines ({_COLUMNS}) VALUES (:{_COLUMNS.replace(', ', ', :')})"


class Ledger:
    """The list in the user's state folder, an SQLite database. Any number of processes may write it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or state_dir()) / "machines.sqlite3"
        """The file; it may not exist yet."""
        self.broken = 0
        """Number of invalid rows in the last reading."""
        self._own: dict[str, LedgerEntry] = {}

    def record_order(self, provider: str, address: str, key: str, run: str) -> None:
        """
        Record a machine before it is requested; the caller's process owns it.

        Raises:
            SandboxUnavailableError: If it cannot be written: then no machine may be requested.
        """
        own = Owner.this_process(run).model_dump()
        self._write(LedgerEntry(at=_now(), event="creating", provider=provider, address=plain(address), key=key, **own))

    def record_creation(self, key: str, id: str) -> None:
        """Record that the machine exists, and its id. Raises SandboxUnavailableError."""
        self._follow(key, event="created", id=id)

    def record_abandonment(self, key: str) -> None:
        """Record that its run has given it up, though its process may live on. Raises SandboxUnavailableError."""
        self._follow(key, event="left")

    def record_end(self, key: str) -> None:
        """Record that it certainly no longer runs, or was never created. Raises SandboxUnavailableError."""
        if self._known(key):
            with self._open() as db, db:
                db.execute("DELETE FROM machines WHERE key = ?", (key,))
            self._own.pop(key, None)

    def is_ended(self, key: str) -> bool:
        """Say whether the machine that was ordered here is recorded as ended, or as never created."""
        return key not in self._own

    def open_entries(self) -> list[LedgerEntry]:
        """
        Return the entries of all machines that may still run, the latest last.

        Invalid rows are skipped, and counted in `broken`.

        Raises:
            SandboxUnavailableError: For an unreadable file.
        """
        rows = []
        if self._check_file(self.path):
            with self._open() as db:
                rows = db.execute(f"SELECT {_COLUMNS} FROM machines ORDER BY rowid DESC LIMIT {MOST}").fetchall()
        found = [entry for row in reversed(rows) if (entry := _entry(row)) is not None]
        self.broken = len(rows) - len(found)
        return found

    def _known(self, key: str) -> LedgerEntry | None:
        return self._own.get(key) or next((e for e in self.open_entries() if e.key == key), None)

    def _follow(self, key: str, **now: str) -> None:
        about = self._known(key)
        if about is None:
            return  # a machine that this ledger was never told of, or that has ended
        try:  # unlike model_copy: an id is the provider's word
            entry = LedgerEntry.model_validate(about.model_dump() | now | {"at": _now()})
        except ValidationError:
            raise SandboxUnavailableError(
                f"{about.provider} gave a machine an invalid id; look for {key} at the provider"
            ) from None
        self._write(entry)

    def _write(self, entry: LedgerEntry) -> None:
        with self._open() as db, db:
            db.execute("DELETE FROM machines WHERE at < ?", ((_now() - FORGET_AFTER).isoformat(),))
            db.execute(_WRITE, entry.model_dump(mode="json"))
        self._own[entry.key] = entry

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """
        Open the database for a single use, so that no fork has it open. Its journal is one for rollback, not WAL: then
        it can be read where nothing can be written, and needs no shared memory.
        """
        private_dir(self.path.parent, VARIABLE)
        self._check_file(self.path)  # or nothing is; but no link or folder
        until = time.monotonic() + _WAIT
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT, isolation_level="IMMEDIATE")) as db:
                if not self.path.stat().st_size:  # new; to open it before would drop this process's locks at its close
                    self.path.chmod(0o600)
                # Whatever is in the file: it takes no more memory or time than this.
                db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
                db.set_progress_handler(lambda: time.monotonic() > until, 10_000)
                db.text_factory = lambda text: text.decode(errors="replace")
                db.execute("PRAGMA trusted_schema = OFF")
                db.execute("PRAGMA synchronous = EXTRA")
                db.execute(_TABLE)
                yield db
        except (sqlite3.Error, OSError) as e:
            raise self._unusable_error(e) from e

    def _check_file(self, path: Path) -> bool:
        try:
            found = path.lstat()
        except FileNotFoundError:
            return False
        except OSError as e:
            raise self._unusable_error(e) from e
        if not stat.S_ISREG(found.st_mode):
            raise SandboxUnavailableError(
                f"{path} is not a regular file; move it away, or set {VARIABLE} to another folder"
            )
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise SandboxUnavailableError(f"{path} belongs to another user; set {VARIABLE} to a folder of yours")
        return True

    def _unusable_error(self, error: sqlite3.Error | OSError) -> SandboxUnavailableError:
        if isinstance(error, OSError):
            path, reason, step = error.filename or self.path, error.strerror, ""
        else:
            path, reason = self.path, str(error)
            step = _STEPS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "move it away, or ")
        return SandboxUnavailableError(f"cannot use {path} ({reason}); {step}set {VARIABLE} to another folder")


def state_dir() -> Path:
    """Return the state folder's path: `EVALCELL_STATE_DIR`, else the platform's default. It may not exist yet."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else of_user(user_state_path, VARIABLE)


def own_tags() -> dict[str, str]:
    """Return the tags that distinguish this process from all others: host, pid, started."""
    return Owner.this_process("").tags()


def plain(address: str) -> str:
    """Return the address without a user name, password or query, and in characters that an entry may have."""
    parts = urlsplit(address)
    found = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else address
    return quote(found, safe=_PRINTED)[:300]


def _entry(row: tuple[object, ...]) -> LedgerEntry | None:
    try:
        return LedgerEntry.model_validate(dict(zip(LedgerEntry.model_fields, row, strict=True)))
    except ValidationError:
        return None


def _now() -> datetime:
    return datetime.now(UTC)
