"""Who does a run: a command shows it by a lock of its own, a server by a claim in the database that ends by itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from filelock import BaseFileLock, FileLock, Timeout
from sqlalchemy import Connection, or_, select, true, update

from runner.results.store.base import now
from runner.results.store.errors import InUseError, NotStoredError
from runner.results.store.files import SEGMENT
from runner.results.store.names import is_run
from runner.results.store.runs import Runs, claim_columns, time_of, unknown
from runner.results.store.schema import datasets, runs, segments
from runner.results.store.types import ACTIVE, RunInfo

_KILLED = "the command that ran it was ended from outside; run it again"
_SHOWS_ITSELF = timedelta(minutes=1)
_ABLE = ("failed", "cancelled", "parked")
"""States of a run that somebody may let go on."""


class ClaimRenewal(NamedTuple):
    """What became of a server's claims."""

    lost: tuple[str, ...]
    """Runs that another server does by now, or that were deleted."""
    stop: tuple[str, ...]
    """Runs that somebody wants stopped for good, at whichever server."""


class Claims(Runs):
    """Which process does which run. All raises StoreError."""

    def claim(self, server: str, most: int | None = None, *, begins: bool = False) -> list[RunInfo]:
        """
        Claim runs that a server shall do and none does, the oldest first.

        `begins`: those of this server, too, which it had when it was killed; with SQLite, where there is but one server
        at a time, all. What this server's folder has no files for is left to the server that has them.
        """
        with self._database.write() as connection:
            moment, alone = time_of(connection), self._database.sqlite
            free = or_(runs.c.server.is_(None), runs.c.lease.is_(None), runs.c.lease < moment)
            if begins:
                free = true() if alone else or_(free, runs.c.server == server)
            query = select(runs.c.id, runs.c.server, runs.c.stop, runs.c.dataset, runs.c.digest)
            query = query.where(runs.c.owner == "server", runs.c.state.in_(ACTIVE), free).order_by(runs.c.id)
            found = []
            for row in connection.execute(query).all():
                if row.stop:
                    connection.execute(_cancel(row.id))
                elif row.server == server or alone or self._has_files(connection, row):
                    found.append(row.id)
                if len(found) == most:
                    break
            for id in found:
                connection.execute(update(runs).where(runs.c.id == id).values(**claim_columns(connection, server)))
        return [self.run(id) for id in found]

    def let_go(self, server: str) -> None:
        """Let any server go on with the runs of this one, which stops."""
        with self._database.write() as connection:
            mine = runs.c.server == server, runs.c.state.in_(ACTIVE)
            connection.execute(update(runs).where(*mine).values(lease=None))

    def _has_files(self, connection: Connection, run: Any) -> bool:
        known = select(datasets.c.suffix).where(datasets.c.name == run.dataset, datasets.c.digest == run.digest)
        suffix = connection.execute(known).scalar()
        if suffix is None:
            return True  # it is gone everywhere; who does the run says so
        last = select(segments.c.digest).where(segments.c.run == run.id).order_by(segments.c.first.desc()).limit(1)
        names = [f"{run.digest}{suffix}", *(f"{digest}{SEGMENT}" for digest in connection.execute(last).scalars())]
        return all(self._files.path(name).is_file() for name in names)

    def renew(self, server: str, ids: Sequence[str]) -> ClaimRenewal:
        """Go on to claim these runs, which the server does."""
        with self._database.write() as connection:
            query = select(runs.c.id, runs.c.stop).where(runs.c.server == server, runs.c.id.in_(ids))
            mine = {row.id: row.stop for row in connection.execute(query).all()}
            lease = claim_columns(connection, server)["lease"]
            connection.execute(update(runs).where(runs.c.id.in_(list(mine))).values(lease=lease))
        return ClaimRenewal(
            lost=tuple(id for id in ids if id not in mine), stop=tuple(id for id, stop in mine.items() if stop)
        )

    def requeue(self, id: str, server: str) -> RunInfo:
        """
        Let a run that is over, or parked, wait for this server.

        Raises:
            NotStoredError: There is none in the store.
            InUseError: For one in another state, or that another server does.
        """
        with self._database.write() as connection:
            row = connection.execute(select(runs.c.state, runs.c.server, runs.c.lease).where(runs.c.id == id)).first()
            if row is None:
                raise NotStoredError(unknown(id))
            if row.state not in _ABLE or (row.lease is not None and row.server != server):
                raise InUseError(f"the run is {row.state}; only one that failed or was cancelled goes on", (id,))
            values = {"state": "queued", "error": None, "ended": None, "summary": None}
            connection.execute(
                update(runs).where(runs.c.id == id).values(**values, **claim_columns(connection, server))
            )
        return self.run(id)

    def ask_to_stop(self, id: str) -> RunInfo:
        """Have the server that does a run cancel it; one that none does is cancelled now. Raises NotStoredError."""
        with self._database.write() as connection:
            row = connection.execute(select(runs.c.state, runs.c.lease).where(runs.c.id == id)).first()
            if row is None:
                raise NotStoredError(unknown(id))
            if row.state in ACTIVE and (row.lease is None or row.lease < time_of(connection)):
                connection.execute(_cancel(id))
            elif row.state in ACTIVE:
                connection.execute(update(runs).where(runs.c.id == id).values(stop=1))
        return self.run(id)

    def hold(self, id: str) -> BaseFileLock:
        """Show that this process runs it, until `release`, or until the process is gone."""
        held = FileLock(self._files.locks / f"{_checked(id)}.lock", mode=0o600)
        held.acquire()
        return held

    def release(self, id: str, lock: BaseFileLock) -> None:
        """Show that nobody runs it any more."""
        with suppress(OSError):
            (self._files.locks / f"{_checked(id)}.lock").unlink(missing_ok=True)
        lock.release()

    def end_abandoned(self, patience: timedelta = _SHOWS_ITSELF) -> list[str]:
        """
        Note of runs whose command was killed that they failed; their ids. Those of a server go on with it.

        A command may take so long between making a run and showing that it holds it.
        """
        ended = []
        for path in self._files.locks.glob("*.lock"):
            if not is_run(path.stem):
                continue
            held = FileLock(path, mode=0o600)
            try:
                held.acquire(timeout=0)
            except (Timeout, OSError):
                continue  # it goes on
            with suppress(NotStoredError):
                if self.run(path.stem).state == "running":
                    self.set_run(path.stem, state="failed", error=_KILLED)
                    ended.append(path.stem)
            self.release(path.stem, held)
        if self._database.sqlite:  # else the command may be on another machine
            query = select(runs.c.id).where(
                runs.c.owner == "cli", runs.c.state == "running", runs.c.created <= now() - patience
            )
            with self._database.read() as connection:
                going = list(connection.execute(query).scalars())
            for id in going:
                if is_run(id) and (self._files.locks / f"{id}.lock").exists():
                    continue
                if self.run(id).state == "running":  # one that ends says so before it lets go
                    self.set_run(id, state="failed", error=_KILLED)
                    ended.append(id)
        return ended


def _cancel(id: str) -> Any:
    values = {"state": "cancelled", "ended": now(), "lease": None, "stop": 0}
    return update(runs).where(runs.c.id == id).values(**values)


def _checked(id: str) -> str:
    if not is_run(id):
        raise NotStoredError(unknown(id))
    return id
