"""Scripts that ask judges: a row that waits is its data alone, and its call is made again once there are replies."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import Any, NamedTuple

from runner.core.types import Evaluator
from runner.engine.program_wrapper import OuterProgram
from runner.inputs.evaluators.judges import REPLIES, replies_name
from sandboxes.base import Call, Execution, Limits, Program, Sandbox, ScriptError
from sandboxes.errors import SandboxLostError
from sandboxes.judges.asks import MOST_ROUNDS, AskError, answer, asks_of, refusal, request_of
from sandboxes.judges.broker import Broker, JudgeRefused

_ENDLESS = f"evaluate asked judges in more than {MOST_ROUNDS} rounds in one row"
_UNANSWERED = "it ended the run without an execution for the call"
_LARGEST = 8 << 20
_TOO_MUCH = "the judges' answers to one row are longer than 8 million characters; ask for less"
_AHEAD = 32
"""Rows for each of the sandbox's runs that are ready while others wait for judges."""
_ENDING = 10.0
"""Seconds for a run that has given all its executions to end."""
_WINDOW = 16
"""Rows for each exchange at once whose results may wait for an earlier one: a slow judge must not hold up others."""


def working_rows(broker: Broker, sandbox: Sandbox) -> int:
    """Return how many rows go on at once: those that wait for judges, and those that are run meanwhile."""
    ahead = 1 if sandbox.isolation == "batch" else _AHEAD
    return broker.judges.in_flight + ahead * max(1, sandbox.concurrency)


def most_runs(broker: Broker) -> int:
    """Return for how many runs the window of results has room."""
    return _WINDOW * broker.judges.in_flight


def asking_program(evaluator: Evaluator, program: Program, broker: Broker, sandbox: Sandbox) -> Program:
    """Return the program of an evaluator that asks judges, with their answers."""
    name = REPLIES if broker.judges.rounds else replies_name(evaluator)
    return program if name is None else AskingProgram(program, broker, name, sandbox)


class AskingProgram(OuterProgram):
    """
    A program whose function may ask judges before it returns its result.

    It returns `{"ask": [ask, …]}`. The same call is then made again, with all replies so far as the argument `replies`.
    Where calls share a state, all of a run that ask are made again together, so that nothing depends on a judge's time.

    Args:
        program: What is called.
        broker: What asks.
        replies: The argument's name.
        sandbox: Where the program runs.
    """

    def __init__(self, program: Program, broker: Broker, replies: str, sandbox: Sandbox) -> None:
        super().__init__(program)
        self.origins: dict[int, tuple[str, int]] = {}
        """By call: its row's id, and which of the repeats it is."""
        self.lost: dict[int, str] = {}
        """By call that has no execution: the reason, which is not the sandbox."""
        self._broker, self._replies = broker, replies
        self._together = sandbox.isolation == "batch"
        self._lanes = asyncio.Semaphore(sandbox.concurrency + sandbox.queue)
        self._pump = _Pump(program, sandbox)
        self._again: dict[int, _Row] = {}

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        """Run each call, again with each reply. Times are summed; each call has the whole timeout, without waiting."""
        rows = [self._again.pop(call.id) if call.id in self._again else _Row(call, self._replies) for call in calls]
        if self._together:
            async with aclosing(self._rounds(rows, limits)) as executions:
                async for execution in executions:
                    yield execution
            return
        if len(rows) == 1:  # as of most runs here
            if (only := await self._finish(rows[0], limits)) is not None:
                yield only
            return
        tasks = [asyncio.ensure_future(self._finish(row, limits)) for row in rows]
        try:
            for task in asyncio.as_completed(tasks):
                ended = await task
                if ended is not None:
                    yield ended
        finally:
            await _end(tasks)

    def forget(self, call: int) -> str | None:
        """Forget whose call it was; return why it has no execution, if that is not the sandbox."""
        self.origins.pop(call, None)
        return self.lost.pop(call, None)

    async def close(self) -> None:
        """End what still runs, and close the program. Safe twice."""
        await self._pump.close()
        await super().close()

    async def _finish(self, row: _Row, limits: Limits) -> Execution | None:
        try:
            while True:
                ended = row.end(await self._pump.run(row.call(), limits))
                if ended is not None:
                    return ended
                if (ended := await self._answer(row)) is not None or row.id in self.lost:
                    return ended
        except BaseException:
            self._again[row.id] = row  # what was paid for is not asked again
            raise

    async def _rounds(self, rows: Sequence[_Row], limits: Limits) -> AsyncGenerator[Execution, None]:
        while rows:
            asking, known = [], {row.id: row for row in rows}
            try:
                async with self._lanes, aclosing(self._run([row.call() for row in rows], limits)) as executions:
                    async for execution in executions:
                        row = known[execution.call]
                        if (ended := row.end(execution)) is not None:
                            yield ended
                        else:
                            asking.append(row)
            except SandboxLostError:
                self._again |= known  # as above
                raise
            answers = [asyncio.ensure_future(self._answer(row)) for row in asking]
            try:
                refused = dict(zip(map(id, asking), await asyncio.gather(*answers), strict=True))
            finally:
                await _end(answers)
            for ended in filter(None, refused.values()):
                yield ended
            rows = [row for row in rows if id(row) in refused and refused[id(row)] is None and row.id not in self.lost]

    async def _answer(self, row: _Row) -> Execution | None:
        """Get the replies for which a row waits; its execution, if one was refused."""
        tasks: list[asyncio.Future[dict[str, Any]]] = []
        row.coming = 0
        began = perf_counter()
        try:
            if len(row.asks) == 1:
                row.replies.append(await self._exchange(row, row.asks[0]))
            else:
                tasks = [asyncio.ensure_future(self._exchange(row, ask)) for ask in row.asks]
                row.replies += await asyncio.gather(*tasks)
        except AskError as error:
            return row.failed(str(error), "Result" if row.is_full else "JudgeError")
        except JudgeRefused as error:
            if not error.lost:
                return row.failed(error.reason, "JudgeError")
            self.lost[row.id] = error.reason
        finally:
            if tasks:
                await _end(tasks)
            self._broker.wait(self.origins.get(row.id, ("", 1)), perf_counter() - began)
        return None

    async def _exchange(self, row: _Row, ask: dict[str, Any]) -> dict[str, Any]:
        judges = self._broker.judges
        request = request_of(ask, judges, *self.origins.get(row.id, ("", 1)))
        try:
            found = answer(ask, await self._broker.exchange(request), judges)
        except JudgeRefused as refused:
            found = refusal(ask, refused)
        row.coming += len(found["text"])
        if row.is_full:  # at once, as 64 such answers would fill this process's memory
            raise AskError(_TOO_MUCH)
        return found


class _Row:
    """One row's call, the replies that it has, and what it asks beyond them."""

    def __init__(self, call: Call, name: str) -> None:
        self.id = call.id
        self.asks: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        self.coming = 0
        """The characters of further ones, whose round goes on."""
        self._call, self._name = call, name
        # One for all its calls, so that each asks the same again.
        self._seed = call.seed if call.seed is not None else call.id
        self._rounds = 0
        self._seconds = 0.0
        self._last: Execution | None = None

    @property
    def is_full(self) -> bool:
        """Whether its replies are longer than one call is given."""
        return self.coming + sum([len(one["text"]) for one in self.replies]) > _LARGEST

    def call(self) -> Call:
        """The call, with the replies so far; always given, so that no column of a dataset stands in for them."""
        call = self._call
        arguments = {**call.arguments, self._name: [*self.replies]}
        return Call.trusted({"id": call.id, "arguments": arguments, "positional": call.positional, "seed": self._seed})

    def end(self, execution: Execution) -> Execution | None:
        """Return the execution with the time of all, or None if it asks."""
        self._seconds += execution.duration
        self._last = execution
        try:
            asks = asks_of(execution.value) if execution.status == "ok" else None
        except AskError as error:
            return self.failed(str(error), "Result")
        if asks is None:
            return execution.model_copy(update={"duration": self._seconds}) if self._rounds else execution
        if self._rounds == MOST_ROUNDS:
            return self.failed(_ENDLESS, "Result")
        self.asks, self._rounds = asks, self._rounds + 1
        return None

    def failed(self, message: str, kind: str) -> Execution:
        assert self._last is not None
        status = "no_result" if kind == "Result" else "error"
        error = ScriptError(type=kind, message=message)
        changes = {"status": status, "value": None, "error": error, "duration": self._seconds}
        return self._last.model_copy(update=changes)


class _Waiting(NamedTuple):
    """A call that waits for room in the sandbox."""

    call: Call
    limits: Limits
    done: asyncio.Future[Execution]


class _Pump:
    """Runs calls as they come, several in a run, in no more runs than the sandbox has use for."""

    def __init__(self, program: Program, sandbox: Sandbox) -> None:
        self._program = program
        self._waiting: deque[_Waiting] = deque()
        self._runs: dict[asyncio.Task[None], list[_Waiting]] = {}
        self._most, self._batch, self._seconds = max(1, sandbox.concurrency), sandbox.batch, sandbox.run_seconds
        self._size = 1

    async def run(self, call: Call, limits: Limits) -> Execution:
        """Return the execution of a call. Raises SandboxError."""
        waiting = _Waiting(call, limits, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if len(self._runs) < self._most:
            self._runs[asyncio.create_task(self._work())] = []
        return await waiting.done

    async def close(self) -> None:
        """End the runs; one that has given all its executions ends by itself, so that its machine can be used again."""
        self._waiting.clear()
        given = [run for run, part in self._runs.items() if all(map(_has_execution, part))]
        if given:
            await asyncio.wait(given, timeout=_ENDING)
        await _end([*self._runs])

    async def _work(self) -> None:
        own = asyncio.current_task()
        assert own is not None
        try:
            while part := self._part():
                self._runs[own] = part
                began = perf_counter()
                await self._run_part(part)
                fitting = int(self._seconds * len(part) / max(perf_counter() - began, 1e-9))
                self._size = max(1, min(fitting, self._size * 8, self._batch))
        finally:  # at once, as a call that comes next finds no run that would take it
            self._runs.pop(own, None)

    def _part(self) -> list[_Waiting]:
        """The calls of the next run, which leaves as many for each of the others."""
        part: list[_Waiting] = []
        most = min(self._size, -(-len(self._waiting) // self._most))
        while self._waiting and len(part) < most and (not part or self._waiting[0].limits is part[0].limits):
            one = self._waiting.popleft()
            if not one.done.done():
                part.append(one)
        return part or (self._part() if self._waiting else [])

    async def _run_part(self, part: list[_Waiting]) -> None:
        waiting = {one.call.id: one.done for one in part}
        failure: BaseException = SandboxLostError(_UNANSWERED)
        try:
            groups = self._program.run_grouped([one.call for one in part], part[0].limits)
            async with aclosing(groups):
                async for group in groups:
                    for execution in group:
                        if (done := waiting.pop(execution.call, None)) is not None and not done.done():
                            done.set_result(execution)
        except asyncio.CancelledError:
            for done in waiting.values():
                done.cancel()
            raise
        except Exception as error:
            failure = error
        for done in waiting.values():
            if not done.done():
                done.set_exception(failure)


def _has_execution(one: _Waiting) -> bool:
    return one.done.done() and not one.done.cancelled() and one.done.exception() is None


async def _end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel what still runs of these, and wait for its end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
