"""The dialects by name. Each is imported when it is asked for: a native script needs none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from runner.errors import EvaluatorError
from runner.evaluators.entrypoint import NATIVE
from runner.evaluators.foreign.types import ForeignDialect
from runner.text import listed, printable, suggestion

_MODULES = {
    "promptfoo": "runner.evaluators.foreign.dialects.promptfoo",
    "langsmith": "runner.evaluators.foreign.dialects.langsmith",
    "langfuse": "runner.evaluators.foreign.dialects.langfuse",
    "braintrust": "runner.evaluators.foreign.dialects.braintrust",
    "openai": "runner.evaluators.foreign.dialects.openai",
    "trl": "runner.evaluators.foreign.dialects.trl",
    "verl": "runner.evaluators.foreign.dialects.verl",
    "inspect": "runner.evaluators.foreign.dialects.inspect",
    "deepeval": "runner.evaluators.foreign.dialects.deepeval",
    "mlflow": "runner.evaluators.foreign.dialects.mlflow",
    "pydantic-evals": "runner.evaluators.foreign.dialects.pydantic_evals",
    "phoenix": "runner.evaluators.foreign.dialects.phoenix",
    "opik": "runner.evaluators.foreign.dialects.opik",
    "ragas": "runner.evaluators.foreign.dialects.ragas",
    "weave": "runner.evaluators.foreign.dialects.weave",
}
"""In the order in which a script is offered to them."""


def names() -> tuple[str, ...]:
    """The names of all dialects, and `native`."""
    return (NATIVE, *_MODULES)


@cache
def find(name: str) -> ForeignDialect:
    """The dialect of a name. Raises EvaluatorError."""
    if name not in _MODULES:
        near = suggestion(name, names())
        raise EvaluatorError(f"there is no dialect {printable(name, 60)!r}{near}; known are {listed(names(), 40)}")
    found: ForeignDialect = import_module(_MODULES[name]).DIALECT
    return found


def every() -> Iterator[ForeignDialect]:
    """All dialects, in the order in which a script is offered to them."""
    return map(find, _MODULES)
