"""Operations on runs: start, follow, look at, compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from pydantic import ValidationError

from runner.core.errors import InputError, ServerError
from runner.core.settings import ServerOptions
from runner.core.signature import with_settings
from runner.core.text import shown
from runner.core.types import ErrorKind, Outcome, Result
from runner.engine.arguments import config_or_preset
from runner.inputs.call import as_mapping
from runner.results.compare.types import Comparison, Flip, Flips
from runner.results.output.row_cells import DIRECTION
from runner.results.store.types import OVER, Order, Page, RunInfo, RunSpec, Selected
from runner.server.client.events import Event, EventReader
from runner.server.client.kept import key, listed, part
from runner.server.client.steps import Ask, Item, Listen, Operation, Pause, as_model, asked, asked_for, more
from runner.server.service.types import Progress, RunEvent, StateChange

Watch = Callable[[RunEvent], object]

_NO_MORE = 204
_RESULTS = 200
_RESULTS_BYTES = 64 << 20
_SILENT = 20
"""Times that a stream of events may end without one, before nobody waits for it any longer."""


@with_settings("Client.run", ServerOptions)
def run(evaluator: str, dataset: str, *, title: str = "", **settings: Unpack[ServerOptions]) -> Operation[RunInfo]:
    """
    Start a run of an evaluator and a dataset that the server keeps, and return at once; `wait` waits for its end.

    `sandbox` is a backend's name, a config, or the name of a preset of the server; `baseline` is a run of the server.
    The other parameters are those of `evaluate`. Raises InputError for what there is not or cannot be used.
    """
    return (yield from started(evaluator, dataset, title, settings))


def started(evaluator: str, dataset: str, title: str, settings: ServerOptions) -> Operation[RunInfo]:
    """Start a run with the arguments of `run`."""
    wanted: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    wanted |= {"mapping": as_mapping(settings.get("mapping")), "title": title}
    if isinstance(sandbox := settings.get("sandbox"), str):
        wanted["sandbox"] = config_or_preset(sandbox)
    try:
        spec = RunSpec(evaluator=evaluator, dataset=dataset, **wanted)
    except ValidationError as e:
        first = e.errors()[0]
        raise InputError(f"`{first['loc'][0]}`: {first['msg']}, not {shown(first['input'], 60)}") from None
    body = spec.model_dump(mode="json", exclude_defaults=True)
    return (yield from asked_for(RunInfo, Ask("POST", "/v1/runs", body=body, headers=key())))


def runs() -> Operation[None]:
    """All runs, the newest first, as RunInfo."""
    yield from listed("/v1/runs", Page[RunInfo])


def status(run: str) -> Operation[RunInfo]:
    """How far a run is; a finished one has its `summary`."""
    return (yield from asked_for(RunInfo, Ask("GET", _of(run))))


def cancel(run: str) -> Operation[RunInfo]:
    """Stop a run. Its results so far stay."""
    return (yield from asked_for(RunInfo, cancelling(run)))


def cancelling(run: str) -> Ask:
    """The request that stops a run."""
    return Ask("POST", f"{_of(run)}/cancel")


def resume(run: str) -> Operation[RunInfo]:
    """Let a run go on that was cancelled or failed, after its last stored row."""
    return (yield from asked_for(RunInfo, Ask("POST", f"{_of(run)}/resume")))


def delete_run(run: str) -> Operation[None]:
    """Delete a run with its results, which frees the server's disk."""
    yield from asked(Ask("DELETE", _of(run)))


def progress(run: str) -> Operation[None]:
    """
    The events of a run as they come, as RunEvent, until it has ended.

    A connection that breaks off is made again, and goes on after the last event: no row is missed or counted twice.
    Raises ServerError where no server answers any longer.
    """
    yield from _followed(run, _handed)


def wait(run: str, *, watch: Watch | None = None) -> Operation[RunInfo]:
    """Wait until a run has ended, and return it. `watch` is called with each event on the way. Raises ServerError."""

    def tell(event: RunEvent) -> Operation[None]:
        if watch is not None:
            watch(event)
        yield from ()

    yield from _followed(run, tell)
    return (yield from status(run))


def _handed(event: RunEvent) -> Operation[None]:
    yield Item(event)


def _followed(run: str, tell: Callable[[RunEvent], Operation[None]]) -> Operation[None]:
    last, silent, over = "", 0, False
    while silent < _SILENT:
        silent += 1
        try:
            if (yield Listen(f"{_of(run)}/events", headers={"last-event-id": last} if last else {})) == _NO_MORE:
                return
            reader = EventReader()
            while piece := (yield from more()):
                for event in reader.feed(piece):
                    found = _event(event)
                    last, silent = event.id or last, 0
                    if isinstance(found.data, StateChange):
                        over = found.data.state in OVER
                    yield from tell(found)
            if over:  # the rows before its end may come after it
                return
        except ServerError as error:
            if not error.retryable or error.status is not None:
                raise
        yield Pause(min(2.0, 0.1 * 2**silent))
    raise ServerError(f"the server ends the events of {run} again and again; see its `status`", retryable=True)


def results(
    run: str,
    *,
    order: Order = "row",
    outcome: Outcome | None = None,
    label: str | None = None,
    error: ErrorKind | None = None,
    low: float | None = None,
    high: float | None = None,
    search: str = "",
) -> Operation[None]:
    """
    The results of a run that match, as Result; each in its `row` has the columns that the evaluator was given.

    `order` is that of the dataset, or `worst` or `best` first. `low` and `high` bound the score, `search` is a text in
    them.
    """
    query = dict(locals())
    del query["run"]
    first, repeat = 0, (yield from _repeat(run))
    while True:
        found = yield from page(run, {**query, "search": search or None}, first, _RESULTS, repeat)
        for result in found:
            yield Item(result)
        first += len(found)
        if not found:
            return


def worst(run: str, count: int = 5) -> Operation[list[Result]]:
    """The results to look at first: the worst scores, then rows that failed, then those that abstained."""
    return (yield from page(run, {"order": "worst"}, 0, count, (yield from _repeat(run))))


def _repeat(run: str) -> Operation[int]:
    """How many results each row has; of a run that goes on it is not known, and their numbers are those in the run."""
    info = yield from status(run)
    return info.summary.repeat if info.summary is not None else 1


def page(run: str, query: Mapping[str, Any], first: int, count: int, repeat: int) -> Operation[list[Result]]:
    """Some results of a run, each with the number of its row, of which each has `repeat` results."""
    ask = Ask("GET", f"{_of(run)}/results", {**query, "first": first, "count": count}, most=_RESULTS_BYTES)
    found = yield from asked_for(Selected, ask)
    try:
        # Which scores are better is the run's, and no result's.
        rows = ({name: value for name, value in row.items() if name != DIRECTION} for row in found.rows)
        results = [Result.model_validate(row) for row in rows]
    except ValidationError as e:
        raise ServerError(f"the server's reply has a row that is no result: {e.errors()[0]['msg'][:200]}") from None
    if repeat == 1:
        return results
    return [one.model_copy(update={"number": (one.number - 1) // repeat + 1}) for one in results]


def compare(base: str, new: str, *, by: str | None = None, cluster: str | None = None) -> Operation[Comparison]:
    """
    Compare two runs of one dataset: is `new` better than `base`?

    `by` and `cluster` are columns, as in `compare_runs`. Raises NotComparableError.
    """
    query = {"base": base, "new": new, "by": by, "cluster": cluster}
    return (yield from asked_for(Comparison, Ask("GET", "/v1/compare", query, within=600)))


def flips(base: str, new: str, *, flip: Flip | None = None, first: int = 0, count: int = 20) -> Operation[Flips]:
    """
    Rows whose outcome, score or label is another in `new`: of one kind, or all; `first` counts from 0.

    Raises NotComparableError.
    """
    query = {"base": base, "new": new, "flip": flip, "first": first, "count": count}
    return (yield from asked_for(Flips, Ask("GET", "/v1/compare/rows", query, within=600)))


def _event(event: Event) -> RunEvent:
    kind: type[Progress] | type[StateChange] | None = _EVENTS.get(event.name)
    if kind is None or not event.id.isdecimal():
        raise ServerError(f"the server sent an event {shown(event.name, 40)}; install the same version on both sides")
    data: Progress | StateChange = as_model(kind, event.data)
    return RunEvent.model_construct(id=int(event.id), event=event.name, data=data)


_EVENTS: dict[str, type[Progress] | type[StateChange]] = {"progress": Progress, "state": StateChange}


def _of(run: str) -> str:
    return f"/v1/runs/{part(run)}"
