"""Run a script's `aggregate` once, on the results of all rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from runner.core.errors import MappingError
from runner.core.text import printable
from runner.core.types import Evaluator, ResultError
from runner.engine.scoring.aggregate_rows import AggregateRows, GatherError
from runner.engine.scoring.figures import Figures, InvalidFiguresError, figures_of
from runner.engine.scoring.outcome import KINDS, error_text
from runner.inputs.evaluators.judges import with_clients
from runner.inputs.evaluators.program import aggregate_program
from sandboxes.base import Call, Execution, Limits, Program, Sandbox
from sandboxes.errors import SandboxLostError
from sandboxes.host.shield import finish
from sandboxes.json_text import JsonText
from sandboxes.words.wording import Message, Setting

_TRIES = 2


class AbstainingProgram(Program):
    """A script without `evaluate`: each row abstains, and nothing is run for it."""

    def __init__(self) -> None:
        self.loaded = Execution(call=-1, status="ok")

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        """Yield an execution for each call that abstains."""
        for call in calls:
            yield Execution(
                call=call.id, status="ok", value={"score": None, "explanation": "judged by aggregate alone"}
            )


def settings(evaluator: Evaluator, constant: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the values for the parameters of `aggregate` after the results: those that are the same for all rows.

    Raises:
        MappingError: If one that it needs differs from row to row.
    """
    aggregate = evaluator.aggregate
    if aggregate is None:
        return {}
    for parameter in aggregate.parameters:
        if parameter.required and parameter.name not in constant:
            name = printable(parameter.name, 60)
            raise MappingError(
                Message(
                    f"aggregate needs one value of `{name}` for all rows; give it: ",
                    Setting("mapping.literals", {name: ...}),
                )
            )
    known = {parameter.name for parameter in aggregate.parameters if not parameter.positional_only}
    return {name: value for name, value in constant.items() if aggregate.accepts_any or name in known}


class Aggregation:
    """
    The `aggregate` of one run: give it each result, then `run` it. Its `figures` are empty before.

    `constant` are the arguments that are the same for all rows. Raises MappingError if `aggregate` needs another one.
    """

    def __init__(
        self, evaluator: Evaluator, constant: Mapping[str, Any], limits: Limits, timeout: float, seed: int | None
    ) -> None:
        self._evaluator = evaluator
        self._settings = settings(evaluator, constant)
        self._limits = limits.model_copy(update={"timeout": timeout})
        self._seed = seed
        self._gathered = AggregateRows(evaluator, constant, limits.memory)
        self.watch = self._gathered.watch
        """Looks at each result together with its call."""
        self.add = self._gathered.add
        self.figures = Figures()

    async def run(self, sandbox: Sandbox) -> None:
        """
        Call `aggregate` with the results of all rows, in the open sandbox.

        What the script does wrong, and a sandbox that is lost twice, is in the figures' error.

        Raises:
            SandboxError: When the sandbox fails for good.
        """
        with self._gathered as gathered:
            if not gathered.rows:
                return
            try:
                results = gathered.read()
            except GatherError as e:
                self.figures = e.figures
                return
            self.figures = await self._run(results, sandbox)

    async def _run(self, results: JsonText, sandbox: Sandbox) -> Figures:
        by_name = self._evaluator.language == "python"
        call = Call(
            id=0,
            positional=(results,) if by_name else (results, self._settings),
            arguments=self._settings if by_name else {},
            seed=self._seed,
        )
        why = ""
        for _ in range(_TRIES):
            try:
                execution = await _executed(self._evaluator, call, sandbox, self._limits)
            except SandboxLostError as e:
                why = str(e)
                continue
            return _figures(self._evaluator, execution, self._gathered.rows, sandbox.config.packages)
        return _failed("lost", f"the sandbox was lost twice in aggregate ({printable(why, 400)}); run it again")


async def _executed(evaluator: Evaluator, call: Call, sandbox: Sandbox, limits: Limits) -> Execution:
    """The one execution of the call. Raises SandboxLostError."""
    script = with_clients(aggregate_program(evaluator), sandbox.config.judges, asks=False)
    program = await sandbox.load(script, limits)
    try:
        if program.loaded.status != "ok":
            return program.loaded
        executions: Any = program.run([call], limits)
        async with aclosing(executions):
            async for execution in executions:
                found: Execution = execution
                return found
        raise SandboxLostError("it ended the run without an execution for the call")
    finally:
        await finish(program.close)


def _figures(evaluator: Evaluator, execution: Execution, rows: int, packages: tuple[str, ...]) -> Figures:
    if execution.status != "ok":
        said = error_text(execution.status, execution.error, evaluator, packages)
        if execution.status == "timeout":
            said = said.replace(str(Setting("limits.timeout")), str(Setting("aggregate_timeout")))
        return _failed(KINDS[execution.status], said)
    try:
        return Figures(aggregates=figures_of(execution.value, evaluator.language), aggregate_rows=rows)
    except InvalidFiguresError as e:
        update = {"aggregates": e.figures, "aggregate_rows": rows if e.figures else None}
        return _failed("invalid_result", str(e)).model_copy(update=update)


def _failed(kind: Any, message: str) -> Figures:
    return Figures(aggregate_error=ResultError(kind=kind, message=message))
