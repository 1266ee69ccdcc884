"""Row ids, made unique in flat memory."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from runner.core.errors import DatasetError

if TYPE_CHECKING:
    import sqlite3

KEY = 16
"""Bytes of a key."""

IN_MEMORY = 50_000
"""Ids held as a set; beyond, they move to a temporary database, which keeps memory flat."""

_SHORT = 32  # bytes of an id that is held as it is; a character has at most four


class Ids:
    """The ids given so far. Exact, whatever their number."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self.repeated = 0
        """Rows whose own id stood at an earlier row."""
        self._few: set[bytes] = set()
        self._in_memory = in_memory
        self._hashed = False
        """All are kept as keys, to be compared with those of others."""
        self._many: sqlite3.Connection | None = None

    def add_taken(self, keys: Iterable[bytes]) -> None:
        """Add ids that rows before these have, as keys. To be called before the first `take`."""
        self._hashed = True
        for key in keys:
            self._add(key)

    def take(self, name: str, number: int) -> str:
        """Return `name` if no earlier row has it, else `wanted#number`, else that with more of the same."""
        if self._many is None and len(self._few) < self._in_memory and not self._hashed and len(name) <= _SHORT // 4:
            key = name.encode("utf-8", "surrogatepass")  # as of most rows
            if key not in self._few:
                self._few.add(key)
                return name
        if self._new(name):
            return name
        self.repeated += 1
        while not self._new(name := f"{name}#{number}"):
            pass
        return name

    def close(self) -> None:
        if self._many:
            self._many.close()

    def _new(self, text: str) -> bool:
        if self._hashed:
            return self._add(key_of(text))
        key = text.encode("utf-8", "surrogatepass")
        if len(key) > _SHORT:
            # No UTF-8 text begins with this byte, so a digest is never taken for an id.
            key = b"\xff" + blake2b(key, digest_size=16).digest()
        return self._add(key)

    def _add(self, key: bytes) -> bool:
        """False if it is there already."""
        if self._many is None:
            if key in self._few:
                return False
            self._few.add(key)
            if len(self._few) > self._in_memory:
                self._spill()
            return True
        try:
            return self._many.execute("INSERT OR IGNORE INTO ids VALUES (?)", (key,)).rowcount == 1
        except self._many.Error as error:
            raise _no_room(error) from None

    def _spill(self) -> None:
        import sqlite3  # here: most datasets need no database

        try:
            # An empty name is a private database in a temporary file that goes away by itself.
            # Rows may be read by one thread after another.
            self._many = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._many.execute("PRAGMA journal_mode = OFF")
            self._many.execute("PRAGMA synchronous = OFF")
            self._many.execute("CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID")
            self._many.execute("BEGIN")
            self._many.executemany("INSERT INTO ids VALUES (?)", ((key,) for key in sorted(self._few)))
        except sqlite3.Error as error:
            raise _no_room(error) from None
        self._few = set()


def key_of(id: str) -> bytes:
    """Return what stands for an id where ids of several parts of a dataset are compared."""
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=KEY).digest()


def _no_room(error: sqlite3.Error) -> DatasetError:
    return DatasetError(
        f"the ids of the rows do not fit the folder for temporary files ({error}); set TMPDIR to another"
    )
