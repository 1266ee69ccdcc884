"""Run cases through a program in batches, with workers and one retry; results come in the dataset's order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias, cast

from runner.core.types import Case, Evaluator, InputMapping, JudgeExchange, Result
from runner.engine.batch_program import is_batched, least_rows
from runner.engine.batches import BATCH_ROWS, shared_batch
from runner.engine.compatibility import refuse_unfit
from runner.engine.loading import Loading, load_evaluator
from runner.engine.ordered_results import most_waiting, take_results
from runner.engine.prefetch import Prefetcher
from runner.engine.rows import Keep, ResultSource, Row, RowFactory
from runner.engine.scoring.outcome import ResultFactory
from runner.inputs.evaluators.call_inputs import Fill, Hash, fill_and_hash
from runner.inputs.evaluators.judges import replies_name
from sandboxes.base import Call, Execution, Limits, Sandbox
from sandboxes.errors import SandboxLostError
from sandboxes.groups import one_by_one
from sandboxes.host.shield import finish
from sandboxes.refusals import refuse_limits

if TYPE_CHECKING:
    from runner.engine.asks import AskingProgram
    from sandboxes.judges.broker import Broker

Watch: TypeAlias = Callable[[Result, Call], int]
"""Gets each result with its call, in any order; returns the characters that it holds until the result is handed out."""

_AHEAD = 64  # rows read before they are needed; those of two batches where these have a size that is set
_FAR = 0.2  # seconds of a run from which on as many are read, since to send few at once costs too much
_DEAR = 5.0  # seconds of a run from which on even the first one has several rows

_HALTING = 16  # rows of a batch that may be the last one: those that run when it is are for nothing


async def score_grouped(
    evaluator: Evaluator,
    cases: Iterable[Case],
    sandbox: Sandbox,
    *,
    limits: Limits | None = None,
    mapping: InputMapping | Fill | None = None,
    seed: int | None = None,
    keep: Keep | None = None,
    watch: Watch | None = None,
    repeat: int = 1,
    source: ResultSource | None = None,
    open: Callable[[], Awaitable[None]] | None = None,
    broker: Broker | None = None,
    halt: Callable[[], bool] | None = None,
) -> AsyncGenerator[Sequence[Result], None]:
    """
    Yield one result a case, in the cases' order, each as soon as those before it are there.

    Those that are there at the same time come in groups. Memory does not grow with the cases.

    Args:
        evaluator: The script.
        cases: Read in a thread of their own, a little ahead of need. Their iterator is the caller's to close.
        sandbox: Opened by `open` for the first row that needs it, or open.
        limits: Those of a call.
        mapping: The source of each parameter's value, or a function that gives it.
        seed: Gives each case the same random numbers.
        keep: The columns that each result carries.
        watch: Gets each result with its call.
        repeat: The number of results of each case.
        source: Has results that need no run.
        open: As above.
        broker: Asks judges for a script that does; the caller closes it.
        halt: Once it is true no further row is begun, and results come of those that were.

    Raises:
        MappingError, UnsupportedConfigError: First.
        SandboxError: After what comes before. What `cases` raise as well.
    """
    limits = load_as_long(limits or Limits())
    fill, hash_given = fill_and_hash(evaluator, mapping, limits.timeout)
    refuse_unfit(evaluator, sandbox)
    refuse_limits(sandbox.name, sandbox.capabilities, limits)

    asks = broker is not None and (broker.judges.rounds or replies_name(evaluator) is not None)
    door, broker = broker, broker if asks and not is_batched(evaluator) else None
    loading = Loading(partial(load_evaluator, evaluator, sandbox, limits, broker), open)
    try:
        if source is None:
            await loading.load()
        scoring = _Scoring(
            *(evaluator, cases, sandbox, loading, fill, hash_given, limits, seed, keep, watch, repeat, source, broker),
            door,
            halt,
        )
        try:
            while results := await scoring.next():
                yield results
        finally:
            await finish(scoring.close)
    finally:
        await loading.close()


score = one_by_one(score_grouped)


def load_as_long(limits: Limits) -> Limits:
    """Return the limits, by which loading has at least the time of a call, unless its own is other than the default."""
    longer = limits.timeout > limits.load_timeout == Limits().load_timeout
    return limits.model_copy(update={"load_timeout": limits.timeout}) if longer else limits


class _Scoring:
    """The state of one `score`: a window of rows in order, and as many workers as the sandbox has use for."""

    def __init__(
        self,
        evaluator: Evaluator,
        cases: Iterable[Case],
        sandbox: Sandbox,
        loading: Loading,
        fill: Fill,
        hash_given: Hash,
        limits: Limits,
        seed: int | None,
        keep: Keep | None,
        watch: Watch | None,
        repeat: int,
        known: ResultSource | None,
        broker: Broker | None,
        door: Broker | None,
        halt: Callable[[], bool] | None,
    ) -> None:
        self._halt = halt
        self._watch = watch
        self._repeat = repeat
        self._known = known
        self._loading = loading
        self._limits = limits
        self._results = ResultFactory(
            evaluator, (known and known.identity) or sandbox.identity, sandbox.config.packages
        )
        self._fixed = sandbox.isolation == "batch" or is_batched(evaluator)
        self._most = sandbox.batch if halt is None or self._fixed else min(sandbox.batch, _HALTING)
        self._batches = 0
        self._seconds = sandbox.run_seconds
        self._least = least_rows(evaluator)
        self._size = 1 if self._seconds < _DEAR else min(2, sandbox.batch)
        self._window: deque[Row] = deque()
        self._chars = 0
        self._room = asyncio.Event()
        self._progress = asyncio.Event()
        self._taking = asyncio.Lock()
        self._retrying = asyncio.Lock()
        rows = RowFactory(
            loading, self._results, fill, hash_given, seed=seed, keep=keep, repeat=repeat, known=known
        ).rows(cases)
        ahead = max(_AHEAD, 2 * self._most) if self._fixed or self._seconds >= _FAR else _AHEAD
        self._reader = Prefetcher(rows, ahead)
        count = max(1, sandbox.concurrency)
        self._most_rows, self._most_chars = most_waiting(count)
        self._working = count + (sandbox.queue if self._fixed else 0)  # a run's time, which sizes others, has no wait
        self._broker, self._door = broker, door
        if broker is not None:  # a row that waits for a judge is no work
            from runner.engine.asks import most_runs, working_rows  # here: few scripts ask

            self._working, self._most = working_rows(broker, sandbox), self._most if self._fixed else 1
            self._most_rows, self._most_chars = most_waiting(most_runs(broker))
        if halt is not None:
            self._most_rows = min(self._most_rows, max(_AHEAD, self._working))
        self._failure: BaseException | None = None
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._working)]
        for worker in self._workers:
            worker.add_done_callback(self._worked)

    async def next(self) -> list[Result]:
        """The next results in order, as far as they are there; none after the last."""
        while True:
            results, chars = take_results(self._window)
            if results:
                self._chars -= chars
                self._room.set()
                return results
            if self._failure is not None:
                raise self._failure
            if self._loading.wanted and self._loading.program is None:
                await self._loading.load()
            if not self._window and not self._working:
                if self._reader.failure is not None:
                    raise self._reader.failure
                return []
            self._progress.clear()
            await self._progress.wait()

    async def close(self) -> None:
        """Stop and await everything that still goes on."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await self._reader.close()

    def _worked(self, worker: asyncio.Task[None]) -> None:
        self._working -= 1
        if self._failure is None and not worker.cancelled():
            self._failure = worker.exception()
        self._progress.set()

    async def _work(self) -> None:
        while (batch := await self._batch()) is not None:
            if not batch:
                continue
            program = await self._loading.wait(self._progress.set)
            if program.loaded.status != "ok":
                for row in batch:
                    self._settle(row, self._results.unloaded(row, program.loaded))
                continue
            for part in self._parts(batch):
                began = perf_counter()
                unanswered, why = await self._attempt(part)
                self._resize(len(part), perf_counter() - began)
                if unanswered:
                    await self._retry(unanswered, why)
                if self._known is not None and not (unanswered and self._fixed):
                    for row in part:
                        self._known.learn(row)

    async def _batch(self) -> list[Row] | None:
        """
        The next rows that want a run, maybe none; None at the end.

        Where state is shared in a batch, which rows are in it depends on the dataset alone, not on timing.
        """
        async with self._taking:
            if self._halt is not None and self._halt():
                return None
            while len(self._window) >= self._most_rows or self._chars >= self._most_chars:
                self._room.clear()
                await self._room.wait()
            batch: list[Row] = []
            size, seen, most = self._size, 0, BATCH_ROWS * self._repeat
            if self._fixed:
                size = shared_batch(self._batches, self._most, self._least) * self._repeat
                self._batches += 1
            while len(batch) < size and seen < most:
                rows = await self._reader.take(min(size - len(batch), most - seen))
                if not rows:
                    return self._unknown(batch) if batch else None
                seen += len(rows)
                self._window.extend(rows)
                self._chars += sum([row.kept_size for row in rows])
                wanted = [row for row in rows if row.result is None]
                batch += wanted if self._fixed or self._known is None else self._unknown(wanted)
                if len(batch) < seen:
                    self._progress.set()
                if batch and not self._fixed:
                    break
            return self._unknown(batch)

    def _parts(self, batch: list[Row]) -> list[list[Row]]:
        """The runs of a batch: where rows share their state, each repeat is a run of its own, as if it were alone."""
        if not self._fixed or self._repeat == 1:
            return [batch]
        return [part for n in range(1, self._repeat + 1) if (part := [row for row in batch if row.repeat == n])]

    def _unknown(self, rows: list[Row]) -> list[Row]:
        """Settle the rows whose results are known; return the others. If rows share state, all or none."""
        if self._known is None:
            return rows
        repeats = {row.repeat for row in rows if row.known is None}
        run = [row for row in rows if (row.repeat in repeats if self._fixed else row.known is None)]
        waiting = set(map(id, run))
        for row in rows:
            if id(row) not in waiting and row.known is not None:
                self._settle(row, row.known)
                row.call = None
        return run

    def _resize(self, calls: int, seconds: float) -> None:
        if not self._fixed:
            fitting = int(self._seconds * calls / max(seconds, 1e-9))
            self._size = max(1, min(fitting, self._size * 8, self._most))

    async def _retry(self, rows: list[Row], why: str) -> None:
        # One at a time, over all workers: a call that kills the sandbox must not meet another's last attempt.
        async with self._retrying:
            for row in rows:
                if self._door is not None and self._broker is None:  # else the program has its replies
                    self._door.begin_again(row.id, row.repeat)
                unanswered, again = await self._attempt([row])
                if unanswered:
                    self._settle(row, self._results.lost(row, again or why))
                    row.call = None

    async def _attempt(self, rows: list[Row]) -> tuple[list[Row], str]:
        """Run the rows' calls; the rows that got no execution, and the sandbox's reason."""
        asked = {row.call.id: row for row in rows if row.call}
        waiting = dict(asked)
        why = "it ended the run without an execution for the call"
        program = self._loading.program
        assert program is not None
        asking = None if self._broker is None else cast("AskingProgram", program)
        if asking is not None:
            asking.origins |= {number: (row.id, row.repeat) for number, row in asked.items()}
        if self._door is not None:
            self._door.rows |= {number: (row.id, row.repeat) for number, row in asked.items()}
        groups = program.run_grouped([row.call for row in rows if row.call], self._limits)
        try:
            async with aclosing(groups):
                async for group in groups:
                    if wrong := self._executed(group, asked, waiting):
                        why = wrong
                        break
        except SandboxLostError as e:
            why = str(e)
        if asking is not None:
            for number in asked:
                if (reason := asking.forget(number)) is not None and (lost := waiting.pop(number, None)):
                    self._settle(lost, self._results.unjudged(lost, reason))
        if self._door is not None:
            self._executed_not(asked, waiting)
        for row in rows:
            if row.result is not None:
                row.call = None
        return list(waiting.values()), why

    def _executed_not(self, asked: Mapping[int, Row], waiting: dict[int, Row]) -> None:
        """Settle rows without an execution for which a judge is to blame; forget what the broker knows of all."""
        assert self._door is not None
        for number in asked:
            self._door.rows.pop(number, None)
            reason = self._door.lost.pop(number, None)
            if reason is not None and (row := waiting.pop(number, None)) is not None:
                self._settle(row, self._results.unjudged(row, reason))

    def _executed(self, group: Iterable[Execution], asked: Mapping[int, Row], waiting: dict[int, Row]) -> str:
        """Settle the rows of these executions, up to one that is wrong; why it is."""
        for execution in group:
            row = waiting.pop(execution.call, None)
            if row is None:
                self._take_back(asked.get(execution.call), waiting)
                return f"it gave an execution for call {execution.call} that nobody waited for"
            if self._door is not None and (reason := self._door.lost.pop(execution.call, None)) is not None:
                self._settle(row, self._results.unjudged(row, reason))
            else:
                self._settle(row, self._results.executed(row, execution, row.call))
        return ""

    def _take_back(self, row: Row | None, waiting: dict[int, Row]) -> None:
        """Undo a result that was contradicted, unless it has been passed on."""
        if row is not None and row.call is not None and not row.taken:
            self._chars -= row.chars
            row.result, row.chars = None, 0
            waiting[row.call.id] = row

    def _settle(self, row: Row, result: Result) -> None:
        if self._door is not None:
            self._door.end_row(row.id, row.repeat)
        if self._door is not None and (told := self._door.exchanges.take(row.id, row.repeat)):
            exchanges = tuple(JudgeExchange(**one._asdict()) for one in told)
            waiting = round(self._door.waits.pop((row.id, row.repeat), 0.0) * 1000, 3)
            result = Result.trusted({**dict(result), "exchanges": exchanges, "waiting_ms": waiting})
        row.result = result = row.known if row.stored and row.known is not None else result
        chars = sum([len(one.asked) + len(one.answered) for one in result.exchanges])
        chars += len(result.stdout) + len(result.label or "") + len(result.explanation or "")
        if result.outputs:
            chars += sum(len(s.label or "") + len(s.explanation or "") for s in result.outputs.values())
        if self._watch is not None and row.call is not None:
            chars += self._watch(result, row.call)
        row.chars, self._chars = chars, self._chars + chars
        if self._window[0] is row:
            self._progress.set()
