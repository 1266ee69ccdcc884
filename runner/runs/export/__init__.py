"""Evaluators in other tools: what the files that `evalcell export` writes are made of."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

from runner.core.errors import EvaluatorError
from runner.core.settings import WarmOptions
from runner.core.signature import with_settings
from runner.core.types import Result, Score
from runner.engine.request import Scorer
from runner.runs.export.scorer import RowScorer
from sandboxes.errors import SandboxError

__all__ = ["RowScorer", "inspect_scorer", "langsmith_evaluator"]

LOG = logging.getLogger("evalcell.export")


@with_settings("RowScorer", WarmOptions)
def inspect_scorer(evaluator: Scorer, **settings: Unpack[WarmOptions]) -> Callable[[Any, Any], Awaitable[Any]]:
    """
    Make what a factory with `@scorer` of inspect_ai returns.

    `output` is the completion, `reference` the target, `input` the sample's text; the sample's metadata are columns. A
    row that abstained is unscored. A row that failed raises, so that its sample has an error.

    Args:
        evaluator: As in `evaluate`.
        **settings: As in `RowScorer`.
    """
    scorer = RowScorer(evaluator, **settings)

    async def score(state: Any, target: Any) -> Any:
        from anyio.to_thread import run_sync  # here and below: of who has inspect_ai
        from inspect_ai.scorer import Score as InspectScore

        row = {
            "output": state.output.completion,
            "input": state.input_text,
            "reference": target.text if len(target) == 1 else list(target),
            "metadata": dict(state.metadata),
        }
        result = await run_sync(lambda: scorer.score(row))
        if result.outcome == "abstained":
            return InspectScore.unscored(explanation=result.explanation or result.label)
        named = {name: scorer.number(one, name) for name, one in result.outputs.items()}
        return InspectScore(
            value=named if len(scorer.evaluator.outputs) > 1 else scorer.number(result),
            answer=state.output.completion,
            explanation=result.explanation,
            metadata={"label": result.label, "evaluator": result.version, "sandbox": result.sandbox},
        )

    return score


@with_settings("RowScorer", WarmOptions)
def langsmith_evaluator(evaluator: Scorer, **settings: Unpack[WarmOptions]) -> Callable[[Any, Any], dict[str, Any]]:
    """
    Make an evaluator for `evaluate` of langsmith.

    `output` is what the application returned, `reference` the example's outputs and `input` its inputs; of an object
    that only has the key `output` (or `input`), its value. The example's metadata are columns. A row that abstained has
    no score. A row that failed has none either, and is marked as LangSmith itself marks what an evaluator raises.

    Args:
        evaluator: As in `evaluate`.
        **settings: As in `RowScorer`.
    """
    scorer = RowScorer(evaluator, **settings)

    def evaluate(run: Any, example: Any) -> dict[str, Any]:
        row = {"output": _bare(run.outputs, "output"), "input": _bare(run.inputs, "input")}
        if example is not None:
            row |= {"input": _bare(example.inputs, "input"), "metadata": dict(example.metadata or {})}
            if example.outputs is not None:
                row["reference"] = _bare(example.outputs, "output")
        try:
            result = scorer.score(row)
        except (EvaluatorError, SandboxError) as error:
            # Raised, it would be kept under the name of this function, and not the evaluator's.
            LOG.error("%s", error)
            names = [name for name in scorer.evaluator.outputs if name] or [scorer.evaluator.name]
            failure = {"score": None, "comment": str(error), "extra": {"error": True}}
            return {"results": [{"key": name, **failure} for name in names]}
        found: Mapping[str, Result | Score] = result.outputs or {scorer.evaluator.name: result}
        return {"results": [_feedback(name, one) for name, one in found.items()]}

    evaluate.__name__ = evaluate.__qualname__ = scorer.evaluator.name
    return evaluate


def _bare(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, dict) and value.keys() == {name} else value


def _feedback(name: str, one: Result | Score) -> dict[str, Any]:
    value = {} if one.label is None else {"value": one.label}
    return {"key": name, "score": one.score, "comment": one.explanation, **value}
