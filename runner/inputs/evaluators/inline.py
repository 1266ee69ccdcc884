"""Evaluators that are no file: code of another tool's config, and scripts that a mapping makes our own."""

from __future__ import annotations

from runner.core.errors import EvaluatorError
from runner.core.types import DialectFailures, Evaluator, InputMapping
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import Language

NAME = "inline"
_UNNAMED = ("<inline>", "get_assert")


def read_inline(
    code: str, *, dialect: str = "promptfoo", language: Language = "python", failures: DialectFailures = "failed"
) -> Evaluator:
    """
    Read code that stands in a config file of another tool.

    Of promptfoo it is an expression, or lines that return; of OpenAI a grader as JSON; of others a whole script. Raises
    EvaluatorError.
    """
    entry = "<inline>" if dialect == "promptfoo" else None
    if dialect == "openai" and code.lstrip().startswith("{"):
        entry = "<json>"
    return parse_evaluator(
        code, NAME, "the inline code", language=language, dialect=dialect, entry=entry, failures=failures
    )


def mapped_native(evaluator: Evaluator, mapping: InputMapping) -> Evaluator:
    """Return the evaluator; if the mapping fills parameters that are given by place, read as one of our own."""
    names = {*mapping.paths, *mapping.literals}
    by_place = evaluator.entry == "evaluate" or (evaluator.dialect == "promptfoo" and evaluator.entry not in _UNNAMED)
    if evaluator.dialect is None or evaluator.asked_dialect is not None or not by_place or not names:
        return evaluator
    try:
        native = parse_evaluator(
            evaluator.source,
            evaluator.name,
            language=evaluator.language,
            dialect="native",
            entry=evaluator.entry,
            files=evaluator.files,
        )
    except EvaluatorError:
        return evaluator
    own = {parameter.name for parameter in native.parameters if parameter.name not in BY_NAME}
    return native.model_copy(update={"beside": evaluator.beside}) if names & own else evaluator
