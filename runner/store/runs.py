"""Runs: what each is of, pinned, and how far it is."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, TypedDict, Unpack

from filelock import BaseFileLock, FileLock, Timeout
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from runner.results.summary import Summary
from runner.store.datasets import exact_dataset, find_dataset, find_preset
from runner.store.errors import InUseError, NotStoredError
from runner.store.evaluators import exact, find
from runner.store.files import SEGMENT
from runner.store.names import is_run, split
from runner.store.part import Part, now, paged
from runner.store.schema import runs, segments
from runner.store.segments import OUTCOMES
from runner.store.types import DatasetInfo, EvaluatorVersion, Owner, Page, RunInfo, RunSpec, RunState
from runner.text import printable
from sandboxes.base import SandboxConfig

_KILLED = "the command that ran it was ended from outside; run it again"
_SHOWS_ITSELF = timedelta(minutes=1)
_ERROR = 4000  # characters that are kept of what a run failed with
_FIGURES = (*OUTCOMES, "scores", "score_sum")
_INFO = [column for column in runs.c if column.name not in ("spec", "direction", *_FIGURES)]
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


class Runs(Part):
    """The runs of the store. All raises StoreError."""

    def create_run(
        self,
        spec: RunSpec,
        *,
        dataset: DatasetInfo | None = None,
        state: RunState = "queued",
        owner: Owner = "server",
        command: str = "",
    ) -> RunInfo:
        """
        Keep a run before it begins, pinned to the exact version, dataset and sandbox config that it names.

        `dataset` is one that the store does not have. Raises NotStoredError, and InputError for what is no name.
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
            outputs = version.evaluator().outputs
            direction = next((output.direction for output in outputs.values()), "none")
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
                "owner": owner,
                "created": made,
                "started": made if state == "running" else None,
                "spec": pinned.model_dump_json(),
                "command": command,
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
        """The runs, the newest first; of one evaluator, dataset or state alone if that is given."""
        query = select(*_INFO, *_COUNTS)
        if evaluator is not None:
            query = query.where(runs.c.evaluator == evaluator)
        if dataset is not None:
            query = query.where(runs.c.dataset == dataset)
        if states:
            query = query.where(runs.c.state.in_(states))
        with self._database.read() as connection:
            return paged(connection, query, runs.c.id, after, count, _info, down=True)

    def run(self, id: str) -> RunInfo:
        """One run. Raises NotStoredError."""
        with self._database.read() as connection:
            return _run(connection, id)

    def spec(self, id: str) -> RunSpec:
        """What the run was asked to do, pinned. Raises NotStoredError."""
        with self._database.read() as connection:
            return _spec(connection, id)

    def script(self, id: str) -> EvaluatorVersion:
        """The script that the run began with. Raises NotStoredError, also if it is gone."""
        with self._database.read() as connection:
            info = _run(connection, id)
            return exact(connection, f"{info.evaluator}@{info.number}", info.version)

    def dataset_of(self, id: str) -> DatasetInfo:
        """The dataset that the run began with. Raises NotStoredError, also if it is gone."""
        with self._database.read() as connection:
            info = _run(connection, id)
            return exact_dataset(connection, info.dataset, info.digest)

    def set_run(self, id: str, **changes: Unpack[Changes]) -> RunInfo:
        """
        Change what is known of a run. The times of its beginning and end follow from its state.

        `lock` is that of the packages it has; the run has the same when it goes on. None: it has none, or its own.
        Raises NotStoredError.
        """
        values: dict[str, Any] = dict(changes)
        lock = values.pop("lock", None)
        if (summary := changes.get("summary")) is not None:
            values["summary"] = summary.model_dump_json()
        if (error := changes.get("error")) is not None:
            values["error"] = error[:_ERROR]
        with self._database.write() as connection:
            before = _run(connection, id)
            if lock is not None:
                values["spec"] = _locked(_spec(connection, id), lock).model_dump_json()
            state = changes.get("state")
            if state == "running":
                values |= {"started": before.started or now(), "ended": None}
            elif state in ("finished", "failed", "cancelled"):
                values["ended"] = now()
            if values:
                connection.execute(update(runs).where(runs.c.id == id).values(values))
            return _run(connection, id)

    def delete_run(self, id: str, *, force: bool = False) -> int:
        """
        Delete a run with its results; the bytes that the disk gets back.

        Raises NotStoredError, and InUseError for one that is not over, unless `force` says that nobody runs it.
        """
        with self._database.write() as connection:
            info = _run(connection, id)
            if info.state in ("queued", "running") and not force:
                raise InUseError(f"the run {id} is {info.state}; cancel it first", (id,))
            blobs = drop(connection, id)
        return self._free(blobs)

    def hold(self, id: str) -> BaseFileLock:
        """Show that this process runs it, until `release`, or until the process is gone."""
        held = FileLock(self._files.locks / f"{_checked(id)}.lock", mode=0o600)
        held.acquire()
        return held

    def release(self, id: str, held: BaseFileLock) -> None:
        """Show that nobody runs it any more."""
        with suppress(OSError):
            (self._files.locks / f"{_checked(id)}.lock").unlink(missing_ok=True)
        held.release()

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


def drop(connection: Connection, id: str) -> set[str]:
    """Delete the rows of a run; the files that it named."""
    found = connection.execute(select(segments.c.digest).where(segments.c.run == id)).scalars()
    blobs = {f"{digest}{SEGMENT}" for digest in found}
    connection.execute(delete(segments).where(segments.c.run == id))
    connection.execute(delete(runs).where(runs.c.id == id))
    return blobs


def _checked(id: str) -> str:
    if not is_run(id):
        raise NotStoredError(unknown(id))
    return id


def unknown(id: str) -> str:
    """The message for a run that there is not."""
    return f"the store has no run {printable(id, 64)!r}; `evalcell runs` lists them"


def _run(connection: Connection, id: str) -> RunInfo:
    row = connection.execute(select(*_INFO, *_COUNTS).where(runs.c.id == id)).first()
    if row is None:
        raise NotStoredError(unknown(id))
    return _info(row)


def _spec(connection: Connection, id: str) -> RunSpec:
    text = connection.execute(select(runs.c.spec).where(runs.c.id == id)).scalar()
    if text is None:
        raise NotStoredError(unknown(id))
    return RunSpec.model_validate_json(text)


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
