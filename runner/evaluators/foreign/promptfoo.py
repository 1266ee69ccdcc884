"""promptfoo's assertions: a function of an output and its context."""

from __future__ import annotations

from runner.evaluators.foreign.guest import python_program
from runner.evaluators.foreign.module import ScriptModule
from runner.evaluators.foreign.types import ForeignDialect, Found
from runner.types import Evaluator

_ENTRY = "get_assert"


def _read(module: ScriptModule, entry: str | None, named: bool) -> Found | None:
    function = module.called(entry or _ENTRY)
    if function is None or not (named or function.names == ("output", "context") or function.name == _ENTRY):
        return None
    docstring = module.docstring or function.docstring
    return Found(function.name, signature=function.words, docstring=docstring, sure=function.name == _ENTRY)


def _program(evaluator: Evaluator) -> str:
    return python_program("promptfoo", evaluator.entry or _ENTRY, evaluator.source)


DIALECT = ForeignDialect(
    name="promptfoo",
    title="a promptfoo assertion",
    version=1,
    read=_read,
    program=_program,
    arguments={
        "output": "output",
        "reference": "context.vars.expected",
        "input": "context.vars",
        "metadata": "context.vars and context.test.metadata",
    },
    zeroes=True,
)
