"""The dialects by name. Each is imported when it is asked for: a native script needs none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable, suggestion
from runner.inputs.evaluators.entrypoint import NATIVE
from runner.inputs.evaluators.foreign.types import ForeignDialect

_MODULES = {
    "promptfoo": "runner.inputs.evaluators.foreign.dialects.promptfoo",
    "langsmith": "runner.inputs.evaluators.foreign.dialects.langsmith",
    "langfuse": "runner.inputs.evaluators.foreign.dialects.langfuse",
    "braintrust": "runner.inputs.evaluators.foreign.dialects.braintrust",
    "openai": "runner.inputs.evaluators.foreign.dialects.openai",
    "trl": "runner.inputs.evaluators.foreign.dialects.trl",
    "verl": "runner.inputs.evaluators.foreign.dialects.verl",
    "lm-eval": "runner.inputs.evaluators.foreign.dialects.lm_eval",
    "inspect": "runner.inputs.evaluators.foreign.dialects.inspect",
    "deepeval": "runner.inputs.evaluators.foreign.dialects.deepeval",
    "mlflow": "runner.inputs.evaluators.foreign.dialects.mlflow",
    "pydantic-evals": "runner.inputs.evaluators.foreign.dialects.pydantic_evals",
    "phoenix": "runner.inputs.evaluators.foreign.dialects.phoenix",
    "opik": "runner.inputs.evaluators.foreign.dialects.opik",
    "ragas": "runner.inputs.evaluators.foreign.dialects.ragas",
    "weave": "runner.inputs.evaluators.foreign.dialects.weave",
}
"""In the order in which a script is offered to them."""


def names() -> tuple[str, ...]:
    """Return the names of all dialects, and `native`."""
    return (NATIVE, *_MODULES)


@cache
def find(name: str) -> ForeignDialect:
    """Return the dialect of a name. Raises EvaluatorError."""
    if name not in _MODULES:
        near = suggestion(name, names())
        raise EvaluatorError(f"there is no dialect {printable(name, 60)!r}{near}; known are {list_names(names(), 40)}")
    found: ForeignDialect = import_module(_MODULES[name]).DIALECT
    return found


def every() -> Iterator[ForeignDialect]:
    """Return all dialects, in the order in which a script is offered to them."""
    return map(find, _MODULES)
