"""Runs: what each is of, pinned, and how far it is."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import isfinite
from typing import Any, TypedDict, Unpack

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from runner.core.text import printable
from runner.engine.scoring.summary import Summary
from runner.results.store.base import StorePart, fetch_page, now
from runner.results.store.datasets import exact_dataset, find_dataset, find_preset
from runner.results.store.errors import ClaimLostError, InUseError, NotStoredError
from runner.results.store.evaluators import exact, find
from runner.results.store.files import SEGMENT
from runner.results.store.names import split
from runner.results.store.schema import runs, segments
from runner.results.store.segments import OUTCOMES
from runner.results.store.types import (
    GOING,
    OVER,
    DatasetInfo,
    EvaluatorVersion,
    Owner,
    Page,
    RunInfo,
    RunSpec,
    RunState,
    StoredSpec,
)
from sandboxes.base import SandboxConfig

LEASE = timedelta(seconds=30)
"""The time for which a server claims a run; it renews the claim long before."""
_ERROR = 4000  # characters that are kept of what a run failed with
_FIGURES = (*OUTCOMES, "scores", "score_sum")
_CLAIM = ("server", "lease", "stop")
_INFO = [column for column in runs.c if column.name not in ("spec", "direction", *_FIGURES, *_CLAIM)]
_COUNTS = [runs.c[name] for name in _FIGURES]


class Changes(TypedDict, total=False):
    """What may change in a run."""

    state: RunState
    summary: Summary | None
    error: str | None
    total: int | None
    sandbox: str
    why: str
    command: str
    digest: str | None
    lock: str | None


class Runs(StorePart):
    """The runs of the store. All raises StoreError."""

    def create_run(
        self,
        spec: RunSpec,
        *,
        dataset: DatasetInfo | None = None,
        state: RunState = "queued",
        owner: Owner = "server",
        server: str | None = None,
        command: str = "",
    ) -> RunInfo:
        """
        Keep a run before it begins, pinned to the exact version, dataset and sandbox config that it names.

        `dataset` is one that the store does not have; `server` is the one that claims the run.

        Raises:
            NotStoredError, InputError: For what is no name.
        """
        name, wanted = split(spec.evaluator)
        with self._database.write() as connection:
            version = find(connection, name, wanted)
            info = dataset or find_dataset(connection, spec.dataset)
            config = spec.sandbox
            if isinstance(config, str):
                config = find_preset(connection, config).config
            pinned = spec.model_copy(
                update={"evaluator": version.reference, "dataset": info.name, "sandbox": config or SandboxConfig()}
            )
            configs = version.evaluator().configs
            direction = next((config.direction for config in configs.values()), "none")
            made = now()
            values = {
                "id": _id(connection, made),
                "title": spec.title,
                "evaluator": name,
                "number": version.number,
                "version": version.version,
                "dataset": info.name,
                "digest": info.digest or None,
                "direction": direction,
                "sandbox": "",
                "why": "",
                "state": state,
                "total": None if info.rows is None else min(info.rows, spec.limit or info.rows) * spec.repeat,
                "owner": owner,
                "created": made,
                "started": made if state == "running" else None,
                "spec": pinned.model_dump_json(),
                "command": command,
                **claim_columns(connection, server),
                **dict.fromkeys(("rows", "bytes", *OUTCOMES), 0),
            }
            connection.execute(insert(runs).values(values))
            return _run(connection, str(values["id"]))

    def runs(
        self,
        after: str | None = None,
        count: int = 50,
        *,
        evaluator: str | None = None,
        dataset: str | None = None,
        states: tuple[RunState, ...] = (),
    ) -> Page[RunInfo]:
        """Return the runs, the newest first; of one evaluator, dataset or state alone if that is given."""
        query = select(*_INFO, *_COUNTS)
        if evaluator is not None:
            query = query.where(runs.c.evaluator == evaluator)
        if dataset is not None:
            query = query.where(runs.c.dataset == dataset)
        if states:
            query = query.where(runs.c.state.in_(states))
        with self._database.read() as connection:
            return fetch_page(connection, query, runs.c.id, after, count, _info, down=True)

    def run(self, id: str) -> RunInfo:
        """Return one run. Raises NotStoredError."""
        with self._database.read() as connection:
            return _run(connection, id)

    def spec(self, id: str) -> StoredSpec:
        """Return what the run was asked to do, pinned. Raises NotStoredError."""
        with self._database.read() as connection:
            return _spec(connection, id)

    def script(self, id: str) -> EvaluatorVersion:
        """Return the script that the run began with. Raises NotStoredError, also if it is gone."""
        with self._database.read() as connection:
            info = _run(connection, id)
            return exact(connection, f"{info.evaluator}@{info.number}", info.version)

    def dataset_of(self, id: str) -> DatasetInfo:
        """Return the dataset that the run began with. Raises NotStoredError, also if it is gone."""
        with self._database.read() as connection:
            info = _run(connection, id)
            return exact_dataset(connection, info.dataset, info.digest)

    def set_run(self, id: str, server: str | None = None, **changes: Unpack[Changes]) -> RunInfo:
        """
        Change what is known of a run. The times of its beginning and end follow from its state.

        `lock` is that of the packages it has; the run has the same when it goes on. None: it has none, or its own.

        Raises:
            NotStoredError, ClaimLostError: If another server than `server` claims it.
        """
        values: dict[str, Any] = dict(changes)
        lock = values.pop("lock", None)
        if (summary := changes.get("summary")) is not None:
            values["summary"] = summary.model_dump_json()
        if (error := changes.get("error")) is not None:
            values["error"] = error[:_ERROR]
        with self._database.write() as connection:
            before = _run(connection, id)
            refuse_others(connection, id, server)
            if lock is not None:
                values["spec"] = _locked(_spec(connection, id), lock).model_dump_json()
            state = changes.get("state")
            if state == "running":
                values |= {"started": before.started or now(), "ended": None}
            elif state in OVER:
                values["ended"] = now()
            if state in (*OVER, "parked"):
                values["lease"] = None
            if values:
                connection.execute(update(runs).where(runs.c.id == id).values(values))
            return _run(connection, id)

    def set_summary(self, id: str, rows: int, summary: Summary) -> RunInfo:
        """Keep the summary of a run that is over and has so many results; one that goes on stays without."""
        with self._database.write() as connection:
            over = (runs.c.id == id, runs.c.state.in_(OVER), runs.c.rows == rows)
            connection.execute(update(runs).where(*over).values(summary=summary.model_dump_json()))
            return _run(connection, id)

    def delete_run(self, id: str, *, force: bool = False) -> int:
        """
        Delete a run with its results; the bytes that the disk gets back.

        Raises:
            NotStoredError, InUseError: For one that is not over, unless `force` says that nobody runs it.
        """
        with self._database.write() as connection:
            info = _run(connection, id)
            if info.state in GOING and not force:
                raise InUseError(f"the run {id} is {info.state}; cancel it first", (id,))
            blobs = drop(connection, id)
        return self._free(blobs)


def drop(connection: Connection, id: str) -> set[str]:
    """Delete the rows of a run; the files that it named."""
    found = connection.execute(select(segments.c.digest).where(segments.c.run == id)).scalars()
    blobs = {f"{digest}{SEGMENT}" for digest in found}
    connection.execute(delete(segments).where(segments.c.run == id))
    connection.execute(delete(runs).where(runs.c.id == id))
    return blobs


def claim_columns(connection: Connection, server: str | None) -> dict[str, Any]:
    """Return the columns of a run that this server claims from now on."""
    if server is None:
        return {}
    return {"server": server, "lease": time_of(connection) + LEASE, "stop": 0}


def refuse_others(connection: Connection, id: str, server: str | None) -> None:
    """Raise ClaimLostError if another server has claimed the run since this one did."""
    if server is None:
        return
    holder = connection.execute(select(runs.c.server).where(runs.c.id == id)).scalar()
    if holder != server:
        raise ClaimLostError(f"the run {printable(id, 64)} was taken over by another server")


def time_of(connection: Connection) -> datetime:
    """Return the time by the database: clocks of machines differ."""
    if connection.dialect.name == "sqlite":
        return now()
    found: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return found


def unknown(id: str) -> str:
    """Return the message for a run that there is not."""
    return f"the store has no run {printable(id, 64)!r}; `evalcell runs` lists them"


def _run(connection: Connection, id: str) -> RunInfo:
    row = connection.execute(select(*_INFO, *_COUNTS).where(runs.c.id == id)).first()
    if row is None:
        raise NotStoredError(unknown(id))
    return _info(row)


def _spec(connection: Connection, id: str) -> StoredSpec:
    text = connection.execute(select(runs.c.spec).where(runs.c.id == id)).scalar()
    if text is None:
        raise NotStoredError(unknown(id))
    return StoredSpec.model_validate_json(text)


def _locked(spec: RunSpec, lock: str) -> RunSpec:
    config = spec.sandbox if isinstance(spec.sandbox, SandboxConfig) else SandboxConfig()
    return spec.model_copy(update={"sandbox": config.model_copy(update={"lock": lock})})


def _info(row: Row[Any]) -> RunInfo:
    values = dict(row._mapping)
    counts = {name: count for name in OUTCOMES if (count := values.pop(name))}
    scores, total = values.pop("scores"), values.pop("score_sum")
    if values["summary"] is not None:
        values["summary"] = Summary.model_validate_json(values["summary"])
    return RunInfo(**values, counts=counts, mean=total / scores if scores and isfinite(total) else None)


def _id(connection: Connection, moment: datetime) -> str:
    """The time in milliseconds, later than that of every other run: only one transaction writes at a time."""
    last = connection.execute(select(func.max(runs.c.id))).scalar()
    while last is not None and _text(moment) <= last:
        try:
            moment = datetime.strptime(last[:15], "%Y%m%d-%H%M%S").replace(
                microsecond=int(last[16:19]) * 1000, tzinfo=moment.tzinfo
            ) + timedelta(milliseconds=1)
        except ValueError:
            return f"{last}-1"  # somebody else's id
    return _text(moment)


def _text(moment: datetime) -> str:
    return f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03}"
