"""What the parts of the store share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, func, select

from runner.core.errors import InputError
from runner.results.store.database import Database
from runner.results.store.errors import InUseError, StoreFullError
from runner.results.store.files import SEGMENT, BlobFiles
from runner.results.store.limits import STORE
from runner.results.store.schema import datasets, runs, segments
from runner.results.store.types import ACTIVE, MOST_COUNT, Page
from sandboxes.words.wording import Setting

T = TypeVar("T")
_CURSOR = 128  # characters
NAMED_IDS = 100
"""Ids that a message or an error names."""


class StorePart:
    """A part of the store, over its database and files."""

    def __init__(self, database: Database, files: BlobFiles) -> None:
        self._database = database
        self._files = files

    def _free(self, blobs: Iterable[str]) -> int:
        """Delete those of the files that nothing names any more; the bytes that the disk gets back."""
        some = set(blobs)
        with self._database.write() as connection:  # nobody adds one of them meanwhile
            return sum(self._files.delete(blob) for blob in some - named_blobs(connection, some))


def named_blobs(connection: Connection, blobs: Iterable[str]) -> set[str]:
    """Return those of the files that the database names."""
    found = set()
    for blob in blobs:
        digest, dot, suffix = blob.partition(".")
        if dot + suffix == SEGMENT:
            query = select(segments.c.run).where(segments.c.digest == digest)
        else:
            query = select(datasets.c.name).where(datasets.c.digest == digest, datasets.c.suffix == dot + suffix)
        if connection.execute(query.limit(1)).first() is not None:
            found.add(blob)
    return found


def occupied_bytes(connection: Connection) -> int:
    """Return the bytes of all files; what two runs share counts twice."""
    of_datasets = select(func.max(datasets.c.bytes).label("bytes")).group_by(datasets.c.digest).subquery()
    found = connection.execute(
        select(
            select(func.coalesce(func.sum(runs.c.bytes), 0)).scalar_subquery(),
            select(func.coalesce(func.sum(of_datasets.c.bytes), 0)).scalar_subquery(),
        )
    ).one()
    return int(found[0]) + int(found[1])


def refuse_full(connection: Connection, more: int) -> None:
    """Raise StoreFullError if the files may not take so many bytes more."""
    if occupied_bytes(connection) + more > STORE.bytes():
        raise StoreFullError(
            f"the store's files take {STORE}, the most; delete runs (`evalcell runs prune`), or raise {STORE.variable}"
        )


def fetch_page(
    connection: Connection,
    query: Select[Any],
    key: Any,
    after: str | None,
    count: int,
    make: Callable[[Any], T],
    *,
    down: bool = False,
) -> Page[T]:
    """Return one page of the query's rows by `key`. Raises InputError for a cursor or a count that is none."""
    if not 1 <= count <= MOST_COUNT:
        raise InputError(f"count {count}: a page has 1 to {MOST_COUNT} items")
    if after is not None:
        after = cursor(after)
        query = query.where(key < after if down else key > after)
    found = connection.execute(query.order_by(key.desc() if down else key).limit(count + 1)).all()
    items = tuple(make(row) for row in found[:count])
    last = getattr(found[count - 1], key.name) if len(found) > count else None
    return Page(items=items, next=None if last is None else str(last))


def cursor(after: str) -> str:
    """Return the cursor, if it can be one. Raises InputError."""
    if not isinstance(after, str) or len(after) > _CURSOR or not after.isprintable():
        raise InputError("after: it is no cursor of this list; take `next` of the page before")
    return after


def refuse_used(connection: Connection, name: str, *conditions: Any, force: bool) -> None:
    """Raise InUseError if there are runs of which this holds; with `force` only if one of them is not over."""
    if active := _ids(connection, *conditions, runs.c.state.in_(ACTIVE)):
        raise InUseError(f"{name} is used by {_told(active)}; cancel or delete them first", active)
    if not force and (some := _ids(connection, *conditions)):
        raise InUseError(
            f"{name} is used by {_told(some)}; delete them first, or use {Setting('force')}: their results stay, but "
            "they cannot be run again",
            some,
        )


def _ids(connection: Connection, *conditions: Any) -> tuple[str, ...]:
    """Those of the runs of which this holds, the newest first."""
    query = select(runs.c.id).where(*conditions).order_by(runs.c.id.desc()).limit(NAMED_IDS)
    return tuple(connection.execute(query).scalars())


def _told(ids: Sequence[str]) -> str:
    """These runs, in words."""
    many = f"{len(ids)}{' or more' if len(ids) == NAMED_IDS else ''} run{'' if len(ids) == 1 else 's'}"
    return f"{many} ({', '.join(ids[:3])}{', …' if len(ids) > 3 else ''})"


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
