"""A call of the Python API as text, with the mapping that a dataset likely needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

from runner.core.errors import ColumnsError, InputError
from runner.core.text import describe
from runner.core.types import Columns, Evaluator, InputMapping

_LONG = 300  # characters of one argument


@contextmanager
def with_whole_call(function: Callable[..., object], arguments: Mapping[str, Any]) -> Iterator[None]:
    """Add the whole call to a ColumnsError: this one, by the names of its parameters, with the likely mapping."""
    try:
        yield
    except ColumnsError as error:
        how = (
            f", with the right {' and '.join(error.blanks)}"
            if error.blanks
            else ", if these columns are the right ones"
        )
        step = f"call {whole_call(function, arguments, error)}{how}"
        raise ColumnsError(f"{error.why}; {step}", error.paths, error.values, error.examples) from None


def whole_call(function: Callable[..., object], arguments: Mapping[str, Any], error: ColumnsError) -> str:
    """Return the call with this mapping over its own. What has no short expression is named by its parameter."""
    usual = {name: p.default for name, p in signature(function).parameters.items()}
    first = next(name for name in usual if name in arguments)
    words = [_positional(arguments[first], first), _positional(arguments["dataset"], "rows")]
    for name, value in arguments.items():
        default = usual.get(name, Parameter.empty)
        if name not in (first, "dataset", "mapping") and value is not default and value != default:
            words.append(f"{name}={_expression(value, name)}")
    words.append(f"mapping={_mapping(arguments.get('mapping'), error)}")
    return f"{function.__name__}({', '.join(words)})"


def _positional(value: Any, name: str) -> str:
    if isinstance(value, Evaluator):
        return name
    if callable(value):
        own = getattr(value, "__name__", name)
        return own if own.isidentifier() else "function"  # a lambda's is none
    return _expression(value, name)


def _mapping(given: Any, error: ColumnsError) -> str:
    own = given if isinstance(given, InputMapping) else InputMapping(paths=dict(given or {}))
    paths = own.paths | error.paths
    literals = {name: value for name, value in own.literals.items() if name not in error.paths}
    if not literals and not error.values:
        return repr(paths)
    values = [f"{name!r}: {describe(value, _LONG)}" for name, value in literals.items()]
    values += [
        f"{name!r}: {repr(error.examples[name]) if name in error.examples else 'VALUE'}" for name in error.values
    ]
    return f"InputMapping(paths={paths!r}, literals={{{', '.join(values)}}})"


def _expression(value: Any, name: str) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return describe(list(value), _LONG)
    return describe(value, _LONG) if isinstance(value, str | int | float | bool) else name


def as_mapping(columns: Columns | None) -> InputMapping:
    """Return a mapping that a Python caller gave. Raises InputError."""
    if columns is None or isinstance(columns, InputMapping):
        return columns or InputMapping()
    wrong: object = columns
    if isinstance(columns, Mapping):
        wrong = next((pair for pair in columns.items() if not all(isinstance(one, str) for one in pair)), None)
        if wrong is None:
            return InputMapping(paths=dict(columns))
    raise InputError(
        f'`mapping` must name columns or paths, such as {{"output": "prediction"}}, not {describe(wrong, 60)}; '
        'a value is given by InputMapping(literals={"limit": 3})'
    )
