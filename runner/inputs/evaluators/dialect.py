"""An evaluator's language: how messages to its author write values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from runner.core.text import describe, shown_json
from sandboxes.base import Language


class Dialect(NamedTuple):
    """One language's words; those for types come with their article."""

    name: str
    none: str
    true: str
    false: str
    array: str
    mapping: str
    boolean: str
    value: Callable[..., str]
    """As `shown`: a value, and the length of what is made of it."""
    quoted_keys: bool
    flat: str
    """An expression of `result`, an object of objects, that has all of their values in one."""
    by_name: str
    """One of `result`, a list of objects, that has the value of each under its name."""
    inner: str
    """One of `result` that has, of the objects in one of its objects, one value each."""
    first: str
    """One of `result`, an object, that has its first value."""

    def object(self, **properties: str) -> str:
        """Return an object with these properties, whose values are written already."""
        keys = [f'"{key}"' if self.quoted_keys else key for key in properties]
        inside = ", ".join(f"{key}: {value}" for key, value in zip(keys, properties.values(), strict=True))
        return f"{{{inside}}}" if self.quoted_keys else f"{{ {inside} }}"

    def truth(self, value: bool) -> str:
        """Return a bool as it is written, which is also the label that it becomes."""
        return self.true if value else self.false


_PYTHON = 'dict((f"{a}_{b}", x) for a, one in result.items() for b, x in one.items())'
_TYPESCRIPT = (
    "Object.fromEntries(Object.entries(result).flatMap(([a, one]) => "
    'Object.entries(one).map(([b, x]) => [a + "_" + b, x])))'
)
_PYTHON_INNER = '{{name: one["{key}"] for name, one in result["{name}"].items()}}'
_TYPESCRIPT_INNER = "Object.fromEntries(Object.entries(result.{name}).map(([name, one]) => [name, one.{key}]))"
_PYTHON_LIST = '{{one["{name}"]: one["{number}"] for one in result}}'
PYTHON = Dialect(
    "Python",
    "None",
    "True",
    "False",
    "a list",
    "a dict",
    "a bool",
    describe,
    True,
    _PYTHON,
    _PYTHON_LIST,
    _PYTHON_INNER,
    "list(result.values())[0]",
)
TYPESCRIPT = Dialect(
    "TypeScript",
    "null",
    "true",
    "false",
    "an array",
    "an object",
    "a boolean",
    shown_json,
    False,
    _TYPESCRIPT,
    "Object.fromEntries(result.map((one) => [one.{name}, one.{number}]))",
    _TYPESCRIPT_INNER,
    "Object.values(result)[0]",
)
DIALECTS: dict[Language, Dialect] = {"python": PYTHON, "typescript": TYPESCRIPT}
