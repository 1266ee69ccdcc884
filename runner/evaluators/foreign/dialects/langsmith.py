"""LangSmith's evaluators: `perform_eval` of its page, and functions of its SDK."""

from __future__ import annotations

from runner.evaluators.foreign.guest import brings, program
from runner.evaluators.foreign.module import Function, ScriptModule, needed
from runner.evaluators.foreign.summaries import takes_lists
from runner.evaluators.foreign.types import ForeignDialect, Found
from runner.types import Evaluator

PAGE = "perform_eval"
_WORDS = ("inputs", "outputs", "reference_outputs")
_SUPPORTED = {"run", "example", "runs", "examples", *_WORDS, "attachments"}
_STUBS = {
    *("langsmith", "langsmith.schemas", "langsmith.schemas.Run", "langsmith.schemas.Example"),
    *("langsmith.evaluation", "langsmith.evaluation.evaluator"),
    *(
        f"langsmith.evaluation{module}.{name}"
        for module in ("", ".evaluator")
        for name in ("EvaluationResult", "EvaluationResults", "run_evaluator", "RunEvaluator")
    ),
}
"""What a script may import where the package is not installed."""


def _read(module: ScriptModule, entry: str | None, named: bool) -> Found | None:
    function = _function(module, entry, named)
    if function is None:
        return None
    packages = needed(module, _STUBS, {"langsmith": "langsmith"})
    found = Found.of(module, function, packages, sure=function.name == PAGE)
    own = set(function.names)
    summary = bool(own & {"runs", "examples"}) or (
        not own & {"run", "example"} and takes_lists(module, function.name, _WORDS)
    )
    return found._replace(summary=summary and function.name != PAGE)


def _function(module: ScriptModule, entry: str | None, named: bool) -> Function | None:
    """The function that is asked for, or the only one that is written for LangSmith."""
    if entry is None and PAGE in module.functions:
        return module.functions[PAGE]
    some = [module.called(entry)] if entry is not None else list(module.functions.values())
    found = [one for one in some if one is not None and _is_ours(one)]
    if not found and named and len(some) == 1 and some[0] is not None and len(some[0].required) == 2:
        return some[0]
    return found[0] if len(found) == 1 else None


def _is_ours(function: Function) -> bool:
    names = set(function.required)
    if not names or "." in function.name:
        return False
    pairs = ({"run", "example"}, {"runs", "examples"})
    marks = names if names in pairs else names & {"outputs", "reference_outputs"}
    return bool(marks) and names <= _SUPPORTED and function.names[0] in _SUPPORTED


def _program(evaluator: Evaluator) -> str:
    page, real = evaluator.entry == PAGE, brings(evaluator, "langsmith")
    return program("langsmith", evaluator, page=page, real=real, summary=not evaluator.evaluates)


DIALECT = ForeignDialect(
    name="langsmith",
    title="a LangSmith evaluator",
    version=3,
    read=_read,
    program=_program,
    arguments={
        "output": "run.outputs",
        "reference": "example.outputs (reference_outputs)",
        "input": "example.inputs (inputs)",
        "metadata": "example.metadata",
    },
)
