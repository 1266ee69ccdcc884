"""Operations on runs: start, follow, look at, compare."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Unpack

from pydantic import ValidationError

from runner.core.errors import InputError, ServerError
from runner.core.settings import ServerOptions
from runner.core.signature import with_settings
from runner.core.text import describe
from runner.core.types import ErrorKind, Outcome, Result
from runner.engine.arguments import config_or_preset
from runner.inputs.call import as_mapping
from runner.results.compare.types import Comparison, Flip, Flips
from runner.results.output.row_cells import DIRECTION
from runner.results.store.types import OVER, Order, Page, ResultSelection, RunInfo, RunSpec
from runner.runs.verify import VERIFIED_ROWS, Verification
from runner.server.client.events import Event, EventReader
from runner.server.client.requests import Ask, as_model
from runner.server.client.resources import key, list_all, part
from runner.server.client.server import Server
from runner.server.service.types import Progress, RunEvent, StateChange

Watch = Callable[[RunEvent], object]

_NO_MORE = 204
_RESULTS = 200
_RESULTS_BYTES = 64 << 20
_SILENT = 20
"""Times that a stream of events may end without one, before nobody waits for it any longer."""


@with_settings("Client.run", ServerOptions)
async def run(
    server: Server, evaluator: str, dataset: str, *, title: str = "", **settings: Unpack[ServerOptions]
) -> RunInfo:
    """
    Start a run of an evaluator and a dataset that the server keeps, and return at once; `wait` waits for its end.

    Args:
        evaluator: The name of one that the server keeps, such as `polite@3`.
        dataset: The name of one that the server keeps.
        title: The run's.
        **settings: As in `evaluate`. `sandbox` may also be the name of a preset; `baseline` is a run of the server.

    Raises:
        InputError: There is no such evaluator or dataset, or a setting cannot be used.
    """
    return await start_run(server, evaluator, dataset, title, settings)


async def start_run(server: Server, evaluator: str, dataset: str, title: str, settings: ServerOptions) -> RunInfo:
    """Start a run with the arguments of `run`."""
    wanted: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    wanted |= {"mapping": as_mapping(settings.get("mapping")), "title": title}
    if isinstance(sandbox := settings.get("sandbox"), str):
        wanted["sandbox"] = config_or_preset(sandbox)
    try:
        spec = RunSpec(evaluator=evaluator, dataset=dataset, **wanted)
    except ValidationError as e:
        first = e.errors()[0]
        raise InputError(f"`{first['loc'][0]}`: {first['msg']}, not {describe(first['input'], 60)}") from None
    body = spec.model_dump(mode="json", exclude_defaults=True)
    return await server.ask_for(RunInfo, Ask("POST", "/v1/runs", body=body, headers=key()))


def runs(server: Server) -> AsyncGenerator[RunInfo, None]:
    """List all runs, the newest first, as RunInfo."""
    return list_all(server, "/v1/runs", Page[RunInfo])


async def status(server: Server, run: str) -> RunInfo:
    """Return how far a run is; a finished one has its `summary`."""
    return await server.ask_for(RunInfo, Ask("GET", _of(run)))


async def cancel(server: Server, run: str) -> RunInfo:
    """Stop a run. Its results so far stay."""
    return await server.ask_for(RunInfo, cancelling(run))


def cancelling(run: str) -> Ask:
    """Return the request that stops a run."""
    return Ask("POST", f"{_of(run)}/cancel")


async def resume(server: Server, run: str) -> RunInfo:
    """Let a run go on that was cancelled or failed, after its last stored row."""
    return await server.ask_for(RunInfo, Ask("POST", f"{_of(run)}/resume"))


async def delete_run(server: Server, run: str) -> None:
    """Delete a run with its results, which frees the server's disk."""
    await server.ask(Ask("DELETE", _of(run)))


async def progress(server: Server, run: str) -> AsyncGenerator[RunEvent, None]:
    """
    Yield the events of a run as they come, as RunEvent, until it has ended.

    A connection that breaks off is made again, and goes on after the last event: no row is missed or counted twice.

    Raises:
        ServerError: No server answers any longer.
    """
    last, silent, over = "", 0, False
    while silent < _SILENT:
        silent += 1
        try:
            async with server.listen(f"{_of(run)}/events", {"last-event-id": last} if last else {}) as (code, more):
                if code == _NO_MORE:
                    return
                reader = EventReader()
                while piece := await more():
                    for event in reader.feed(piece):
                        found = _event(event)
                        last, silent = event.id or last, 0
                        if isinstance(found.data, StateChange):
                            over = found.data.state in OVER
                        yield found
            if over:  # the rows before its end may come after it
                return
        except ServerError as error:
            if not error.retryable or error.status is not None:
                raise
        await server.sleep(min(2.0, 0.1 * 2**silent))
    raise ServerError(f"the server ends the events of {run} again and again; see its `status`", retryable=True)


async def wait(server: Server, run: str, *, watch: Watch | None = None) -> RunInfo:
    """
    Wait until a run has ended, and return it.

    Args:
        run: Its id.
        watch: Called with each event on the way.

    Raises:
        ServerError: No server answers any longer.
    """
    async with aclosing(progress(server, run)) as events:
        async for event in events:
            if watch is not None:
                watch(event)
    return await status(server, run)


async def results(
    server: Server,
    run: str,
    *,
    order: Order = "row",
    outcome: Outcome | None = None,
    label: str | None = None,
    error: ErrorKind | None = None,
    low: float | None = None,
    high: float | None = None,
    search: str = "",
    by: str = "",
    group: str | None = None,
) -> AsyncGenerator[Result, None]:
    """
    Yield the results of a run that match; each in its `row` has the columns that the evaluator was given.

    Args:
        run: Its id.
        order: That of the dataset, or `worst` or `best` first.
        outcome: Only results with this outcome.
        label: Only results with this label.
        error: Only results with an error of this kind.
        low: The lowest score.
        high: The highest score.
        search: A text in them.
        by: A column that they carry; only those whose value is `group`.
        group: The value, as the figures by that column name it.
    """
    query = {name: value for name, value in locals().items() if name not in ("server", "run")}
    first, repeat = 0, await _repeat(server, run)
    while True:
        found = await page(server, run, {**query, "search": search or None, "by": by or None}, first, _RESULTS, repeat)
        for result in found:
            yield result
        first += len(found)
        if not found:
            return


async def worst(server: Server, run: str, count: int = 5) -> list[Result]:
    """
    Return the results to look at first: the worst scores, then rows that failed, then those that abstained.

    Args:
        run: Its id.
        count: The most results.
    """
    return await page(server, run, {"order": "worst"}, 0, count, await _repeat(server, run))


async def _repeat(server: Server, run: str) -> int:
    """How many results each row has; of a run that goes on it is not known, and their numbers are those in the run."""
    info = await status(server, run)
    return info.summary.repeat if info.summary is not None else 1


async def page(server: Server, run: str, query: Mapping[str, Any], first: int, count: int, repeat: int) -> list[Result]:
    """Return some results of a run, each with the number of its row, of which each has `repeat` results."""
    ask = Ask("GET", f"{_of(run)}/results", {**query, "first": first, "count": count}, most=_RESULTS_BYTES)
    found = await server.ask_for(ResultSelection, ask)
    try:
        # Which scores are better is the run's, and no result's.
        rows = ({name: value for name, value in row.items() if name != DIRECTION} for row in found.rows)
        results = [Result.model_validate(row) for row in rows]
    except ValidationError as e:
        raise ServerError(f"the server's reply has a row that is no result: {e.errors()[0]['msg'][:200]}") from None
    if repeat == 1:
        return results
    return [one.model_copy(update={"number": (one.number - 1) // repeat + 1}) for one in results]


async def verify(server: Server, run: str, *, sample: int | str = VERIFIED_ROWS) -> Verification:
    """
    Run rows of a finished run again, and tell whether they give the same; who stops waiting stops it.

    The script has what the server grants. `statement()` of what is returned is an in-toto statement.

    Args:
        run: Its id.
        sample: How many rows, or what share of them: `1%`. The digest of the results chooses them.

    Raises:
        NotComparableError: The script, the dataset or the results are not what the run had.
    """
    ask = Ask("POST", f"{_of(run)}/verify", body={"sample": str(sample)}, within=900)
    return await server.ask_for(Verification, ask)


async def compare(
    server: Server, base: str, new: str, *, by: str | None = None, cluster: str | None = None
) -> Comparison:
    """
    Compare two runs of one dataset: is `new` better than `base`?

    Args:
        base: A run's id.
        new: Another.
        by, cluster: A column, as in `compare_runs`.

    Raises:
        NotComparableError: As in `compare_runs`.
    """
    query = {"base": base, "new": new, "by": by, "cluster": cluster}
    return await server.ask_for(Comparison, Ask("GET", "/v1/compare", query, within=600))


async def flips(
    server: Server, base: str, new: str, *, flip: Flip | None = None, first: int = 0, count: int = 20
) -> Flips:
    """
    Return rows whose outcome, score or label is another in `new`.

    Args:
        base: A run's id.
        new: Another.
        flip: Only changes of this kind.
        first: Skip this many.
        count: The most rows.

    Raises:
        NotComparableError: As in `compare_runs`.
    """
    query = {"base": base, "new": new, "flip": flip, "first": first, "count": count}
    return await server.ask_for(Flips, Ask("GET", "/v1/compare/rows", query, within=600))


def _event(event: Event) -> RunEvent:
    kind: type[Progress] | type[StateChange] | None = _EVENTS.get(event.name)
    if kind is None or not event.id.isdecimal():
        raise ServerError(
            f"the server sent an event {describe(event.name, 40)}; install the same version on both sides"
        )
    data: Progress | StateChange = as_model(kind, event.data)
    return RunEvent.model_construct(id=int(event.id), event=event.name, data=data)


_EVENTS: dict[str, type[Progress] | type[StateChange]] = {"progress": Progress, "state": StateChange}


def _of(run: str) -> str:
    return f"/v1/runs/{part(run)}"
