"""An evaluator for a tool that gives rows one by one, and has words of its own for what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

from runner.core.errors import EvaluatorError, InputError
from runner.core.settings import WarmOptions
from runner.core.signature import with_settings
from runner.core.text import printable, shown
from runner.core.types import Direction, Evaluator, Freeform, OutputConfig, Result, Score
from runner.engine.request import Scorer
from runner.engine.scoring.summary import passes
from runner.runs.api.warm import KeptRun, row_request
from sandboxes.errors import SandboxLostError
from sandboxes.wording import Setting

_BOOLEAN = {"True": True, "False": False}


class RowScorer:
    """
    Scores row by row, from any thread, in a sandbox that stays open.

    It is opened by the first row and closed by `close`, at the end of a `with`, and at exit. `threshold` decides what
    passes in place of the evaluator's own. The other parameters are those of `evaluate`. Raises what `evaluate` does
    before its first row.
    """

    @with_settings("RowScorer", WarmOptions)
    def __init__(self, evaluator: Scorer, *, threshold: float | None = None, **settings: Unpack[WarmOptions]) -> None:
        request = row_request(evaluator, **settings)
        assert isinstance(request.evaluator, Evaluator)
        self.evaluator = request.evaluator
        self._threshold = threshold
        self._kept = KeptRun(request)

    def score(self, row: Mapping[str, Any]) -> Result:
        """
        The result of a row, scored or abstained.

        Raises EvaluatorError for a row that failed, SandboxLostError for one that the sandbox lost, and what `evaluate`
        raises.
        """
        result = self.result(row, type(self).__name__)
        if result.error is not None:
            why = printable(f"{result.error.kind}: {result.error.message}", 600)
            if result.outcome == "lost":
                raise SandboxLostError(f"{self.evaluator.name}: the row was lost: {why}; try it again")
            raise EvaluatorError(f"{self.evaluator.name}: the row failed: {why}")
        return result

    def result(self, row: Mapping[str, Any], call: str | None = None) -> Result:
        """The result of a row, whatever came of it. `call` is the caller's own, for messages."""
        (result,) = self._kept.score([dict(row)], call)
        return result

    def check(self, **row: Any) -> Result:
        """The result of a row in a test: fails it if the row does not pass, skips it if the row abstained."""
        import pytest  # here: of who has tests

        result = self.score(row)
        why = printable(result.explanation or result.label or "no explanation", 1000)
        if result.outcome == "abstained":
            pytest.skip(f"{self.evaluator.name} gave no score: {why}")
        if not self.passed(result):
            pytest.fail(f"{self.evaluator.name} gave {result.score if result.score is not None else ''}: {why}", False)
        return result

    def passed(self, result: Result) -> bool:
        """
        Whether the first output is at the threshold or better; without one, whether it is true or above 0.

        Raises EvaluatorError for a label that is neither.
        """
        number = self.number(result)
        config = first_config(self.evaluator)
        if self._threshold is not None:
            direction: Direction = "minimize" if config.direction == "minimize" else "maximize"
            config = Freeform(direction=direction, threshold=self._threshold)
        own = passes(number, config)
        return number > 0 if own is None else own

    def number(self, found: Result | Score, output: str = "") -> float:
        """The score, and 1 or 0 for a label that is true or false. Raises EvaluatorError for any other label."""
        if found.score is not None:
            return found.score
        if found.label in _BOOLEAN:
            return float(_BOOLEAN[found.label])
        of = f" of `{printable(output, 60)}`" if output else ""
        raise EvaluatorError(
            f"{self.evaluator.name}: the label {shown(found.label, 60)}{of} has no score, and a number is needed here; "
            "give labels scores in the script's header: labels = {good = 1.0, bad = 0.0}"
        )

    def close(self) -> None:
        """Close the sandbox. Safe twice; the next row opens a new one."""
        self._kept.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def first_config(evaluator: Evaluator) -> OutputConfig:
    """That of the output that decides what passes."""
    return next(iter(evaluator.configs.values()), Freeform())


def refuse_no_verdict(evaluator: Evaluator, threshold: float | None) -> None:
    """Raise InputError for an evaluator whose rows neither pass nor fail, where they must."""
    config = first_config(evaluator)
    if threshold is None and config.threshold is None and config.direction == "minimize":
        raise InputError(
            f"{evaluator.name} has no threshold, and lower is better, so that no row passes or fails; "
            f"give one: {Setting('threshold', 3)}"
        )
