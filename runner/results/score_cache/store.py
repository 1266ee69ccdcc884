"""The file of scores: SQLite in the cache folder, for several processes at once. What it holds is checked when read."""

from __future__ import annotations

import os
import queue
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sandboxes.cache import SCORES, SCORES_IN_USE, cache_dir, delete, is_ours, private_dir
from sandboxes.errors import SandboxUnavailableError

MOST = 512 << 20
"""Bytes of the file; beyond, the quarter that was not used for longest is deleted."""
MOST_VALUE = 4 << 20
"""Bytes of one score."""
MOST_NEAR = 1 << 14
"""And of one that is read beside another."""
PLACE_DAYS = 7
"""Days for which it is known what a provider's machines are."""

if sys.platform != "win32":
    import fcntl

_FILE = "scores.sqlite"
_SCHEMA = (
    "CREATE TABLE scores (number INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, used INTEGER NOT NULL, "
    "value BLOB NOT NULL)",
    "CREATE INDEX by_use ON scores (used)",
    "CREATE TABLE places (key BLOB PRIMARY KEY, used INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID",
)
_NEAR = 128
"""Scores that are read at once: a dataset's rows have an order, in which they were put and are asked for."""
_BUSY = 10.0  # seconds to wait for another process's write
_ROWS = 500  # in a transaction
_CHECK = 16  # bytes of a value's digest
_LAST = 30.0  # seconds to write what is left


class ScoreCacheStore:
    """
    Scores by key. `get` belongs to one thread at a time; `put` never waits, for a thread writes.

    A file that is damaged, or somebody else's, is deleted, and counts as empty. Raises SandboxUnavailableError if the
    cache folder cannot be used, or sqlite3.Error if the file cannot be made.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._path = private_dir(private_dir(cache_dir()) / SCORES) / _FILE
        self._today = int(time.time() // 86_400)
        _refuse_strange(self._path)
        self._in_use = _in_use(self._path.parent / SCORES_IN_USE)
        try:
            self._reader = _opened(self._path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            self._discard()
            self._reader = _opened(self._path)
        self._broken = False
        self._near: dict[bytes, tuple[int, bytes]] = {}
        self._last = 0
        self._queue: queue.SimpleQueue[tuple[str, tuple[bytes | int, ...]] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="evalcell-scores", daemon=True)
        self._writer.start()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, as it was put."""
        found = _whole(key, self._near.pop(key, None) or self._look_up(key))
        if found is None:
            return None
        used, value = found
        if used != self._today:
            self._queue.put(("UPDATE scores SET used = ? WHERE key = ?", (self._today, key)))
        return value

    def _look_up(self, key: bytes) -> tuple[object, object] | None:
        """The row of a key; those that were put after it are read with it, if it is near the last one."""
        query = "SELECT number, used, value FROM scores WHERE key = ? AND length(value) <= ?"
        for number, used, value in self._read(query, (key, MOST_VALUE)):
            if 0 < number - self._last <= _NEAR:
                query = "SELECT key, used, value FROM scores WHERE number > ? AND number <= ? AND length(value) <= ?"
                some = self._read(query, (number, number + _NEAR, MOST_NEAR))
                self._near = {other: (day, text) for other, day, text in some}
            self._last = number
            return used, value
        return None

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value, soon."""
        if len(value) <= MOST_VALUE - _CHECK:
            self._queue.put(
                (
                    "INSERT OR REPLACE INTO scores (key, used, value) VALUES (?, ?, ?)",
                    (key, self._today, _signed(key, value)),
                )
            )

    def place(self, key: bytes) -> bytes | None:
        """Return what was kept of a place by `keep_place`, if that was not long ago."""
        rows = self._read("SELECT used, value FROM places WHERE key = ? AND length(value) <= ?", (key, MOST_VALUE))
        found = _whole(key, rows[0] if rows else None)
        return None if found is None or not 0 <= self._today - found[0] <= PLACE_DAYS else found[1]

    def keep_place(self, key: bytes, value: bytes) -> None:
        """Keep what a place is."""
        self._queue.put(("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", (key, self._today, _signed(key, value))))

    def close(self) -> None:
        """Write what is left. Safe twice."""
        self._queue.put(None)
        self._writer.join(_LAST)
        with suppress(sqlite3.Error):
            self._reader.close()
        descriptor, self._in_use = self._in_use, None
        if descriptor is not None:
            os.close(descriptor)

    def _read(self, query: str, values: tuple[bytes | int, ...]) -> list[Any]:
        if self._broken:
            return []
        try:
            return self._reader.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            return []  # another process holds it for long
        except sqlite3.Error as error:
            self._give_up(f"the score cache is damaged ({error}); it was deleted, and the rows are run")
            return []

    def _write(self) -> None:
        try:
            connection = _opened(self._path)
            try:
                while self._write_some(connection):
                    pass
                _trim(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            self._give_up(f"scores could not be kept in the cache ({error})", damaged=False)

    def _write_some(self, connection: sqlite3.Connection) -> bool:
        """Write what waits, at least one; False at the end."""
        some = [self._queue.get()]
        with suppress(queue.Empty):
            while some[-1] is not None and len(some) < _ROWS:
                some.append(self._queue.get_nowait())
        connection.execute("BEGIN IMMEDIATE")
        for one in some:
            if one is not None:
                connection.execute(*one)
        connection.execute("COMMIT")
        return some[-1] is not None

    def _give_up(self, why: str, *, damaged: bool = True) -> None:
        if not self._broken:
            self._broken = True
            self._say(why)
            if damaged:
                self._discard()

    def _discard(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            delete(Path(f"{self._path}{suffix}"))


def _in_use(marker: Path) -> int | None:
    """
    Lock the marker, so that nobody deletes the scores meanwhile; its descriptor.

    It is no lock of the file itself: to close a second descriptor of that would take SQLite's own locks away.
    """
    with suppress(OSError):
        descriptor = os.open(marker, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with suppress(OSError):
            os.utime(marker)
            if sys.platform != "win32":
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return descriptor
    return None


def _refuse_strange(path: Path) -> None:
    """Delete what nobody's SQLite made here: a link, another user's file."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        beside = Path(f"{path}{suffix}")
        with suppress(OSError):
            found = beside.lstat()
            if not (stat.S_ISREG(found.st_mode) and is_ours(found)):
                delete(beside)
                if os.path.lexists(beside):
                    raise SandboxUnavailableError(f"{beside} is no file of this user; delete it")


def _opened(path: Path) -> sqlite3.Connection:
    """A connection to a file with our tables. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        there = _schema(connection)
        if not there:
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
        if there and there != set(_SCHEMA):
            raise sqlite3.DatabaseError("its tables are others")
        with suppress(OSError):
            os.chmod(path, 0o600)
        return connection
    except BaseException:
        connection.close()
        raise


def _schema(connection: sqlite3.Connection) -> set[str]:
    return {str(row[0]) for row in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}


def _trim(connection: sqlite3.Connection) -> None:
    """Delete a quarter of the scores as long as they take too much; the file is used again, and does not grow."""
    while True:
        (pages,), (free,), (size,) = (
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count", "page_size")
        )
        (rows,) = connection.execute("SELECT count(*) FROM scores").fetchone() if (pages - free) * size > MOST else (0,)
        if not rows:
            return
        connection.execute(
            "DELETE FROM scores WHERE key IN (SELECT key FROM scores ORDER BY used LIMIT ?)", (max(1, rows // 4),)
        )


def _whole(key: bytes, found: tuple[object, object] | None) -> tuple[int, bytes] | None:
    """The day and the value of what was found; None if it is not what was put there."""
    used, value = found or (None, None)
    if isinstance(used, int) and isinstance(value, bytes) and value == _signed(key, value[_CHECK:]):
        return used, value[_CHECK:]
    return None


def _signed(key: bytes, value: bytes) -> bytes:
    """The value behind a digest, by which damage is noticed."""
    return blake2b(value, key=key, digest_size=_CHECK).digest() + value
