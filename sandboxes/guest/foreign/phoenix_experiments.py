"""What a script may import of Phoenix's experiments, where no package brings it; they judge as Phoenix's own do."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from .frame import TYPE_CHECKING, Idle, Record, as_object, is_installed, make_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FILLED_PARAMETERS = ("input", "output", "expected", "reference", "metadata", "example", "trace_id")


@dataclass(frozen=True)
class EvaluationResult:
    """The result of the server's package."""

    score: float | None = None
    label: str | None = None
    explanation: str | None = None
    metadata: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for one that says nothing."""
        if self.score is None and not self.label:
            raise ValueError("Must specify score or label, or both")


class Evaluator:
    """The base of evaluators that are classes."""

    def evaluate(self, **row: Any) -> Any:
        """Judge a row."""
        raise NotImplementedError

    async def async_evaluate(self, **row: Any) -> Any:
        """Judge a row."""
        return self.evaluate(**row)


class CodeEvaluator(Evaluator):
    """One that asks no model."""


class FunctionEvaluator(Evaluator):
    """What `create_evaluator` makes of a function. Raises ValueError for parameters that Phoenix does not fill."""

    def __init__(self, function: Callable[..., Any], scorer: Callable[[Any], Any], filled: tuple[str, ...]) -> None:
        """Keep them."""
        import inspect

        self._fn, self._scorer = function, scorer
        self._signature = inspect.signature(function)
        own = self._signature.parameters
        if not own:
            raise ValueError("Evaluation function must have at least one parameter.")
        for name, one in own.items():
            if len(own) > 1 and name not in filled and one.default is one.empty and one.kind is not one.VAR_KEYWORD:
                raise ValueError(f"Invalid parameter names in evaluation function: {name}.")

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function itself."""
        return self._fn(*args, **named)

    def _bound(self, row: dict[str, Any]) -> Any:
        own = list(self._signature.parameters)
        if len(own) == 1:
            return self._signature.bind(row[own[0]] if own[0] in FILLED_PARAMETERS else row["output"])
        return self._signature.bind_partial(**{name: row[name] for name in own if name in row})

    def evaluate(self, **row: Any) -> Any:
        """Judge a row."""
        bound = self._bound(row)
        return self._scorer(self._fn(*bound.args, **bound.kwargs))

    async def async_evaluate(self, **row: Any) -> Any:
        """Judge a row."""
        bound = self._bound(row)
        return self._scorer(await self._fn(*bound.args, **bound.kwargs))


def create_of(default: Callable[[Any], Any], filled: tuple[str, ...]) -> Callable[..., Any]:
    """Return the decorator of one of Phoenix's packages."""

    def create_evaluator(kind: Any = "CODE", name: Any = None, scorer: Any = None) -> Callable[..., Any]:
        def wrapper(function: Any) -> Any:
            return (
                function if isinstance(function, Evaluator) else FunctionEvaluator(function, scorer or default, filled)
            )

        return wrapper

    return create_evaluator


def of_server(value: Any) -> Any:
    """Return what the server's package makes of a returned value."""
    if isinstance(value, EvaluationResult):
        return value
    if isinstance(value, bool):
        return EvaluationResult(score=float(value), label=str(value))
    if hasattr(value, "__float__"):
        return EvaluationResult(score=float(value))
    if isinstance(value, str):
        return EvaluationResult(label=value)
    if isinstance(value, tuple | list) and len(value) == 2:
        return EvaluationResult(score=float(value[0]), explanation=str(value[1]))
    step = "return EvaluationResult(score=…, label=…, explanation=…), a number, a bool, text, or (score, explanation)"
    raise ValueError(f"Unsupported evaluation result type: {type(value)}; {step}")


def of_client(value: Any) -> Any:
    """Return what the client's package makes of a returned value."""
    if isinstance(value, dict) or (
        isinstance(value, list | tuple | str) and all(isinstance(one, dict) for one in value)
    ):
        return [] if value == "" else value  # an empty text is a list of no results, as Phoenix reads it
    if isinstance(value, bool):
        return {"score": float(value), "label": str(value)}
    if isinstance(value, int | float):
        return {"score": float(value)}
    if isinstance(value, str):
        return {"label": value}
    if isinstance(value, tuple) and len(value) >= 2:
        names = ("score", "label", "explanation")
        return {
            name: part if name == "score" else str(part)
            for name, part in zip(names, value, strict=False)
            if part is not None
        }
    raise ValueError(f"Unsupported evaluation result type: {type(value)}")


def stand_in() -> None:
    """Make the modules that a script may import of Phoenix and that no package brings."""
    idle = Idle()
    runs = {"run_experiment": idle, "evaluate_experiment": idle}
    bases = {"Evaluator": Evaluator, "CodeEvaluator": CodeEvaluator}
    server = create_of(of_server, FILLED_PARAMETERS[:5])
    client = {"create_evaluator": create_of(of_client, FILLED_PARAMETERS), **runs, "async_run_experiment": idle}
    for name, members in (
        ("phoenix", {"Client": idle, "launch_app": idle}),
        ("phoenix.experiments", runs),
        ("phoenix.experiments.types", {"EvaluationResult": EvaluationResult, "Example": Record}),
        ("phoenix.experiments.evaluators", {"create_evaluator": server, **bases}),
        ("phoenix.experiments.evaluators.utils", {"create_evaluator": server}),
        ("phoenix.experiments.evaluators.base", bases),
        ("phoenix.client", {"Client": idle, "AsyncClient": idle}),
        ("phoenix.client.experiments", client),
    ):
        _stand_in(name, members)


def _stand_in(name: str, members: dict[str, Any]) -> None:
    if is_installed(name):
        return
    above, _, part = name.rpartition(".")
    module = make_module(name)
    vars(module).update(members)
    if above:
        setattr(sys.modules[above], part, module)


def row_of(row: dict[str, Any], keys: dict[str, str]) -> dict[str, Any]:
    """Return a row as Phoenix gives it; text of which the script reads one of the keys stands under that key."""
    found = {word: row.get(word) for word in ("input", "output", "reference", "metadata")}
    for word, key in keys.items():
        if found[word] is not None:
            found[word] = as_object(found[word], key)
    found["metadata"] = found["metadata"] or {}
    example = Record(input=found["input"], output=found["reference"], metadata=found["metadata"])
    others = {name: row[name] for name in row if name not in FILLED_PARAMETERS}
    return {**others, **found, "expected": found["reference"], "example": example, "trace_id": None}
