"""Calls Braintrust's scorers: handlers, functions, and scorers of autoevals."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields

from .frame import (
    TYPE_CHECKING,
    Idle,
    abstention,
    calling,
    defaults,
    find_function,
    invalid,
    load,
    parameters,
    several,
    stub,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_GIVEN = ("input", "expected", "metadata", "output", "trace", "id", "tags")
_SHAPES = "return a number from 0 to 1, None, or a Score"


@dataclass(eq=False)
class SerializableDataClass:
    """The base of Braintrust's data classes."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

    def as_json(self, **more: Any) -> str:
        """Return the fields as JSON."""
        import json

        return json.dumps(self.as_dict(), **more)

    def __getitem__(self, name: str) -> Any:
        """Return a field."""
        return getattr(self, name)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Any:
        """Make one, without the keys that it does not know."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: given[name] for name in given if name in known})


@dataclass
class Score(SerializableDataClass):
    """Braintrust's score."""

    name: str
    score: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields but the error."""
        return {"name": self.name, "score": self.score, "metadata": self.metadata}

    def __post_init__(self) -> None:
        """Raise ValueError for a score outside 0 to 1."""
        if self.score is not None and (self.score < 0 or self.score > 1):
            raise ValueError(f"score ({self.score}) must be between 0 and 1")


class Scorer(ABC):
    """The base of autoevals' scorers."""

    async def eval_async(self, output: Any, expected: Any = None, **more: Any) -> Any:
        """Score one output."""
        return await self._run_eval_async(output, expected, **more)

    def eval(self, output: Any, expected: Any = None, **more: Any) -> Any:
        """Score one output."""
        return self._run_eval_sync(output, expected, **more)

    def __call__(self, output: Any, expected: Any = None, **more: Any) -> Any:
        """Score one output."""
        return self.eval(output, expected, **more)

    async def _run_eval_async(self, output: Any, expected: Any = None, **more: Any) -> Any:
        return self._run_eval_sync(output, expected, **more)

    def _name(self) -> str:
        return self.__class__.__name__

    @abstractmethod
    def _run_eval_sync(self, output: Any, expected: Any = None, **more: Any) -> Any:
        """Score one output."""


class ScorerWithPartial(Scorer):
    """A scorer of which `partial` makes one with arguments of its own."""

    @classmethod
    def partial(cls, **given: Any) -> type[Scorer]:
        """Return the class with these arguments, which a call may replace."""

        def eval(self: Any, output: Any, expected: Any = None, **more: Any) -> Any:
            return self._run_eval_sync(output, **merge(expected, more))

        async def eval_async(self: Any, output: Any, expected: Any = None, **more: Any) -> Any:
            return await self._run_eval_async(output, **merge(expected, more))

        def merge(expected: Any, more: dict[str, Any]) -> dict[str, Any]:
            return {**given, **more, **({} if expected is None else {"expected": expected})}

        return type(cls.__name__, (cls,), {"eval": eval, "eval_async": eval_async})


_SCORES = {"Score": Score, "Scorer": Scorer}
_STUBS: dict[str, dict[str, type]] = {
    **dict.fromkeys(("braintrust", "braintrust.score", "braintrust_core.score"), _SCORES),
    **dict.fromkeys(("autoevals", "autoevals.score"), _SCORES),
    "braintrust.framework": {},
    "autoevals.partial": {"ScorerWithPartial": ScorerWithPartial},
    "autoevals.serializable_data_class": {"SerializableDataClass": SerializableDataClass},
}


def wrap(source: str, entry: str) -> Callable[..., Any]:
    """Return the function that takes a row's words."""
    for name, members in _STUBS.items():
        stub(name, **members)
    stub("braintrust", projects=Idle())
    for name in ("braintrust", "braintrust.framework"):
        if name in sys.modules:  # the file of an evaluation has one at its top level: it logs in
            vars(sys.modules[name]).update(Eval=_nothing, EvalAsync=_nothing)
    function: Any = find_function(load(source), entry)
    if isinstance(function, type):
        function = function()
    if hasattr(function, "eval_async"):
        function = _evaluating(function)
    own, accepts_any = parameters(function)

    def given(row: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = {
            **{"input": row.get("input"), "expected": row.get("reference"), "metadata": row.get("metadata") or {}},
            **{"output": row.get("output"), "trace": None, "id": None, "tags": None},
        }
        left = {name: values[name] for name in _GIVEN}
        found: dict[str, Any] = {}
        for name in own:
            if name in left:
                found[name] = left.pop(name)
            elif name in row:
                found[name] = row[name]
            elif not own[name] and left:
                # As Braintrust does it: a name that it does not know is given the next that is left.
                found[name] = left.pop(next(iter(left)))
        if accepts_any:
            found.update(left)
            found.update(defaults(row, row, _GIVEN))
        return (), found

    return calling(function, given, result)


def _nothing(*_: Any, **_named: Any) -> None:
    """In place of `Eval`: the rows are evalcell's."""


def _evaluating(scorer: Any) -> Any:
    """The scorer's own way; without awaiting where it has none of its own for that."""
    kind = type(scorer)
    bases = [base for base in kind.__mro__ if base.__name__ == "Scorer"]
    if bases and all(getattr(kind, n, None) is getattr(bases[0], n, None) for n in ("eval_async", "_run_eval_async")):
        return scorer.eval
    return scorer.eval_async


def result(value: Any) -> Any:
    """Return what Braintrust makes of a returned value."""
    if isinstance(value, dict):
        value = {"name": "score", **value} if "score" in value else value
        own, only = _score(value)
        return only if own is not None else invalid(f"the scorer returned {words(value)}: {_SHAPES}")
    if _is_score(value):
        return _score(value)[1]
    if value is None or isinstance(value, bool | int | float):
        return _number(value, None)
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return invalid(f"the scorer returned {words(value)}: {_SHAPES}")
    found: dict[str, Any] = {}
    for part in value:
        name, one = _score(part)
        if name is None:
            return one
        found[name] = one
    return several(found, "the scorer gave no scores")


def _is_score(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("name", "score", "metadata", "as_dict"))


def _score(value: Any) -> tuple[str | None, dict[str, Any]]:
    """The name and the result of a Score, or of a dict that is one."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return value["name"], _number(value.get("score"), value.get("metadata"))
    if _is_score(value):
        return str(value.name), _number(value.score, value.metadata)
    return None, invalid(f"the scorer returned {words(value)} among its scores: each must be a Score")


def _number(value: Any, metadata: Any) -> dict[str, Any]:
    text = words(metadata, 4000) if metadata else None
    if value is None:
        return abstention(text or "the scorer returned None")
    if not isinstance(value, bool | int | float):
        return invalid(f"the scorer returned the score {words(value)}: {_SHAPES}")
    if not 0 <= value <= 1:
        return invalid(f"the scorer returned the score {value!r}, which is not between 0 and 1")
    return {"score": float(value), "explanation": text}
