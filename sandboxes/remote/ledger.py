"""
Which machines this user's runs have ordered, on disk: written before a machine is asked for and after it has ended.

So a run that was killed leaves word of what may still cost money. No secret is ever written there.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

from platformdirs import user_state_path
from pydantic import AwareDatetime, Field, ValidationError

from sandboxes.cache import private_dir
from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.owner import Owner

VARIABLE = "EVALCELL_STATE_DIR"

LARGE = 256 << 10
"""Bytes of the file after which what has ended is taken out of it."""

READ = 8 << 20
"""Bytes that are read of a file at most, its end."""

FORGOTTEN = timedelta(days=30)
"""After which a machine that nobody saw ending is no longer asked about: no provider lets one live so long."""

_OPEN = ("creating", "created", "left")
_PRINTED = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_LINE = 4096
_UNFINISHED = ".machines-"
_WAIT = 10.0

Printable = Annotated[str, Field(pattern=r"^[!-~]*$", max_length=300)]


class Entry(Owner):
    """One line: what happened to the machine of a key, and who owns it."""

    at: AwareDatetime
    event: Literal["creating", "created", "left", "ended", "failed"]
    provider: Printable
    address: Printable
    """The deployment, where one provider has several."""
    key: Printable
    id: Printable = ""
    """The provider's name for it; empty as long as it is not known."""


class Ledger:
    """The list in the user's state folder. Any number of processes may write it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or state_dir()
        self._own: dict[str, Entry] = {}
        self.broken = 0
        """Lines that were no entries, as of the last reading."""

    @property
    def path(self) -> Path:
        """The file; it may not exist yet."""
        return self._folder / "machines.jsonl"

    def creating(self, provider: str, address: str, key: str, run: str) -> None:
        """
        Before a machine is asked for; the caller's process owns it.

        Raises SandboxUnavailableError when it cannot be written: then nothing may be asked for.
        """
        own = Owner.here(run).model_dump()
        entry = Entry(at=_now(), event="creating", provider=provider, address=plain(address), key=key, **own)
        self._append(entry)
        self._own[key] = entry

    def created(self, key: str, id: str) -> None:
        """It is there, and this is its id. Raises SandboxUnavailableError."""
        self._follow(key, "created", id)

    def left(self, key: str) -> None:
        """Its run does nothing more about it, though its process may live on. Raises SandboxUnavailableError."""
        self._follow(key, "left")

    def ended(self, key: str) -> None:
        """It certainly runs no more. Raises SandboxUnavailableError."""
        self._follow(key, "ended")

    def failed(self, key: str) -> None:
        """It was certainly never made. Raises SandboxUnavailableError."""
        self._follow(key, "failed")

    def is_settled(self, key: str) -> bool:
        """Whether the machine that was ordered here is noted as ended, or as never made."""
        return key not in self._own

    def open_entries(self) -> list[Entry]:
        """
        The latest entry of each key whose machine may still run, the oldest first.

        What is no entry is skipped, and counted in `broken`. Raises SandboxUnavailableError for an unreadable file.
        """
        return list(_open(self._read()).values())

    def compact(self) -> None:
        """Takes out what has ended. Nobody writes meanwhile, and a crash leaves the old file."""
        with self._alone():
            self._compact()

    def _follow(self, key: str, event: Literal["created", "left", "ended", "failed"], id: str | None = None) -> None:
        about = self._own.get(key) or _open(self._read()).get(key)
        if about is None:
            return  # a machine that this ledger was never told of, or that has ended
        # Validated, unlike model_copy: an id is the provider's word.
        now = {"at": _now(), "event": event, "id": about.id if id is None else id}
        try:
            entry = Entry.model_validate(about.model_dump() | now)
        except ValidationError:
            raise SandboxUnavailableError(
                f"{about.provider} gave a machine an id that is none; look for {key} at the provider"
            ) from None
        self._append(entry)
        if event in _OPEN:
            self._own[key] = entry
        else:
            self._own.pop(key, None)

    def _append(self, entry: Entry) -> None:
        with self._alone():
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NO_LINKS, 0o600)
            try:
                size = _size(fd, self.path)
                line = entry.model_dump_json().encode() + b"\n"
                if size and (os.lseek(fd, size - 1, os.SEEK_SET), os.read(fd, 1))[1] != b"\n":
                    line = b"\n" + line  # a write before was torn: it shall not spoil this line too
                if os.write(fd, line) != len(line):
                    raise SandboxUnavailableError(f"cannot write to {self.path} (no room); make some")
                os.fsync(fd)
            finally:
                os.close(fd)
            if size > LARGE:
                with suppress(OSError):  # the entry is written; a large file can wait
                    self._compact()

    def _compact(self) -> None:
        for left in self._folder.glob(f"{_UNFINISHED}*"):  # of a process that was killed; nobody else is here now
            left.unlink(missing_ok=True)
        still = [e for e in _open(self._read()).values() if _now() - e.at < FORGOTTEN]
        fd, unfinished = tempfile.mkstemp(dir=self._folder, prefix=_UNFINISHED)
        try:
            with os.fdopen(fd, "wb") as file:
                file.writelines(e.model_dump_json().encode() + b"\n" for e in still)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self.path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise

    def _read(self) -> list[Entry]:
        try:
            fd = os.open(self.path, os.O_RDONLY | _NO_LINKS)
        except FileNotFoundError:
            self.broken = 0
            return []
        except OSError as e:
            raise _unusable(self.path, e) from e
        try:
            size = _size(fd, self.path)
        except BaseException:
            os.close(fd)
            raise
        with os.fdopen(fd, "rb") as file:
            if size > READ:
                file.seek(size - READ)
                file.readline(_LINE)  # what is left of a line whose beginning is not read
            lines = file.read(READ).splitlines()
        found = [entry for line in lines if (entry := _entry(line)) is not None]
        self.broken = sum(1 for line in lines if line) - len(found)
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        folder = private_dir(self._folder, VARIABLE)
        try:
            with FileLock(folder / "machines.lock", timeout=_WAIT, mode=0o600):
                yield
        except Timeout:
            raise SandboxUnavailableError(
                f"{self.path} is held by another process for more than {_WAIT:.0f} s; end it, or set {VARIABLE}"
            ) from None
        except OSError as e:
            raise _unusable(Path(e.filename or self.path), e) from e


def state_dir() -> Path:
    """The state folder's path: `EVALCELL_STATE_DIR`, else the platform's own place. It may not exist yet."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else user_state_path("evalcell", appauthor=False)


def own_tags() -> dict[str, str]:
    """The tags that tell this process from all others: host, pid, started."""
    return Owner.here("").tags()


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def _open(entries: list[Entry]) -> dict[str, Entry]:
    latest = {entry.key: entry for entry in entries}  # in the order of the first ones
    return {key: entry for key, entry in latest.items() if entry.event in _OPEN}


def _entry(line: bytes) -> Entry | None:
    if len(line) > _LINE:
        return None
    try:
        return Entry.model_validate_json(line)
    except ValidationError:
        return None


def _size(fd: int, path: Path) -> int:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise SandboxUnavailableError(
            f"{path} is not a regular file; move it away, or set {VARIABLE} to another folder"
        )
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise SandboxUnavailableError(f"{path} belongs to another user; set {VARIABLE} to a folder of yours")
    return found.st_size


def plain(address: str) -> str:
    """Without a name, password or query that somebody wrote into a URL, and in letters that an entry may have."""
    parts = urlsplit(address)
    found = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else address
    return quote(found, safe=_PRINTED)[:300]


def _unusable(path: Path, error: OSError) -> SandboxUnavailableError:
    first = "move it away, or " if isinstance(error, IsADirectoryError) else ""
    reason = error.strerror or str(error)
    return SandboxUnavailableError(f"cannot use {path} ({reason}); {first}set {VARIABLE} to another folder")


def _now() -> datetime:
    return datetime.now(UTC)
