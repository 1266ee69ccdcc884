"""promptfoo's assertions: a function of an output and its context."""

from __future__ import annotations

from runner.errors import EvaluatorError
from runner.evaluators.foreign.guest import program
from runner.evaluators.foreign.module import PATTERN, ScriptModule
from runner.evaluators.foreign.types import INLINE, ForeignDialect, Found
from runner.types import Evaluator
from sandboxes.base import Language

_ENTRY = "get_assert"
_DEFAULT = "default"
_CONTEXT = ("context", "ctx", "_context", PATTERN)


def _read(module: ScriptModule, entry: str | None, named: bool) -> Found | None:
    function = module.called(entry or (_ENTRY if module.language == "python" else _DEFAULT))
    if function is None:
        return None
    by_name = len(function.names) == 2 and function.names[0] == "output" and function.names[1] in _CONTEXT
    sure = function.name == _ENTRY or module.is_common
    if not (named or sure or by_name):
        return None
    return Found.of(module, function, sure=sure)


def read_inline(source: str, where: str, language: Language) -> Found:
    """Code of a config file: an expression, or lines that return. Raises EvaluatorError for what is not filled here."""
    if "{%" in source:
        raise EvaluatorError(
            f"{where} has a tag of a template ({{% … %}}); evalcell fills names and filters: write it out"
        )
    words = "an expression" if "\n" not in source.strip() else "lines that return"
    return Found(INLINE, signature=f"{words} of output and context")


def _program(evaluator: Evaluator) -> str:
    return program("promptfoo", evaluator, "template")


DIALECT = ForeignDialect(
    name="promptfoo",
    title="a promptfoo assertion",
    version=1,
    read=_read,
    program=_program,
    languages=("python", "typescript"),
    arguments={
        "output": "output",
        "reference": "context.vars.expected",
        "input": "context.vars",
        "metadata": "context.vars and context.test.metadata",
    },
    higher_is_better=True,
    zeroes=True,
)
