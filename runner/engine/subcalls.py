"""Calls apart: what an evaluator has run without what it knows itself, such as a program without its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from runner.core.types import Evaluator
from runner.engine.program_wrapper import OuterProgram
from sandboxes.base import Call, Execution, Isolation, Limits, Program, Sandbox, ScriptError

ROUNDS = 64
"""Calls apart that one row may ask for."""

_KEY = "apart"
_AFRESH = "afresh"
_REPLY = "reply"

_ENDLESS = f"evaluate asked for a call apart more than {ROUNDS} times in one row"
_ALONE = "evaluate asked to be called afresh where no call came before: it was so already"


def with_apart(evaluator: Evaluator, sandbox: Sandbox, program: Program) -> Program:
    """Return the program, with calls apart if its header has them."""
    return ApartProgram(program, sandbox.isolation) if evaluator.apart else program


class ApartProgram(OuterProgram):
    """
    A program whose function may ask for another call of itself, apart, before it returns its result.

    It returns `{"apart": arguments}`. The function is then called with these arguments alone, in a state as just after
    loading; whatever that call does, it is data. The first call is made again, with `reply`: the arguments as `asked`,
    the `status`, and the `value` or the `message`. A call apart gets nothing else of the row and cannot ask itself.

    Where calls of a run share their state, it may also return `{"afresh": true}`: an earlier call left something that
    this one must not meet. The same call is then made again in a run of its own.
    """

    def __init__(self, program: Program, isolation: Isolation) -> None:
        super().__init__(program)
        self._alone = isolation == "batch"

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        """Run each call, and the calls apart that it asks for. Times are summed; each call has the whole timeout."""
        rows = {call.id: _Row(call) for call in calls}
        runs = [[row.call(None) for row in rows.values()]]
        while runs:
            apart: list[Call] = []
            afresh: list[Call] = []
            for asking in runs:
                async with aclosing(self._run(asking, limits)) as executions:
                    async for execution in executions:
                        row = rows.get(execution.call)
                        if row is None:
                            yield execution
                        elif row.asks_afresh(execution):
                            if self._alone and len(asking) > 1:
                                afresh.append(row.again(execution))
                            else:
                                yield row.whole(_refused(execution, _ALONE), limits)
                        elif not row.asks(execution):
                            yield row.whole(execution, limits)
                        elif row.rounds == ROUNDS:
                            yield row.whole(_refused(execution, _ENDLESS), limits)
                        else:
                            apart.append(row.apart())
            runs = [[call] for call in afresh]
            # Where calls of a run share their state, a call apart has a run of its own.
            asking = []
            for part in [[call] for call in apart] if self._alone else [apart] if apart else []:
                async with aclosing(self._run(part, limits)) as executions:
                    async for execution in executions:
                        asking.append(rows[execution.call].call(execution))
            # A row that asked for it once would ask again.
            runs += [[call] for call in asking if rows[call.id].alone]
            if shared := [call for call in asking if not rows[call.id].alone]:
                runs.append(shared)


class _Row:
    """One row's call, and what its calls have cost and said so far."""

    def __init__(self, call: Call) -> None:
        self._call = self._made = call
        # One for all its calls, so that each asks, and answers, the same again.
        self._seed = call.seed if call.seed is not None else call.id
        self._asked: dict[str, Any] = {}
        self._seconds = 0.0
        self._said: list[str] = []
        self._truncated = False
        self.rounds = 0
        self.alone = False

    def call(self, apart: Execution | None) -> Call:
        """The call, with what came of the one apart."""
        reply: dict[str, Any] | None = None
        if apart is not None:
            self._add(apart)
            message = "" if apart.error is None else f"{apart.error.type}: {apart.error.message}"
            told = {"value": apart.value} if apart.status == "ok" else {"message": message}
            reply = {"asked": self._asked, "status": apart.status, **told}
        # Always given, so that no column of a dataset stands in for it.
        arguments = {**self._call.arguments, _REPLY: reply}
        self._made = self._call.model_copy(update={"arguments": arguments, "seed": self._seed})
        return self._made

    def asks_afresh(self, execution: Execution) -> bool:
        """Whether the call, as it was made last, asks to be made again in a run of its own."""
        value = execution.value if execution.status == "ok" else None
        return isinstance(value, dict) and value.keys() == {_AFRESH} and value[_AFRESH] is True

    def again(self, execution: Execution) -> Call:
        """The call, as it was made last, which has runs of its own from now on."""
        self._add(execution)
        self.alone = True
        return self._made

    def asks(self, execution: Execution) -> bool:
        """Whether the call asks for one apart, which is then kept."""
        value = execution.value if execution.status == "ok" else None
        if not (isinstance(value, dict) and value.keys() == {_KEY} and isinstance(value[_KEY], dict)):
            return False
        self._asked = value[_KEY]
        self._add(execution)
        return True

    def apart(self) -> Call:
        """The call that was asked for."""
        self.rounds += 1
        return Call(id=self._call.id, arguments=self._asked, seed=self._seed)

    def whole(self, execution: Execution, limits: Limits) -> Execution:
        """The last execution, with the time and the output of all."""
        self._add(execution)
        said = "".join(self._said).encode("utf-8", "surrogatepass")
        kept = said[-limits.output :] if limits.output else b""
        return execution.model_copy(
            update={
                "duration": self._seconds,
                "output": kept.decode("utf-8", "replace"),
                "truncated": self._truncated or len(kept) < len(said),
            }
        )

    def _add(self, execution: Execution) -> None:
        self._seconds += execution.duration
        self._said.append(execution.output)
        self._truncated |= execution.truncated


def _refused(execution: Execution, message: str) -> Execution:
    error = ScriptError(type="Result", message=message)
    return execution.model_copy(update={"status": "no_result", "value": None, "error": error})
