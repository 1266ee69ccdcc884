"""Option values as the runner's types."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NoReturn, TypeVar

from runner.core.errors import InputError, PathError
from runner.core.text import printable
from runner.core.types import Evaluator, InputMapping, ParameterSpec
from runner.inputs.evaluators.parameters import describe_values

T = TypeVar("T")


def mapping(paths: Sequence[str], literals: Sequence[str], evaluator: Evaluator) -> InputMapping:
    """
    Return the values of `--map` and `--set`.

    A value of `--set` is JSON. If `string` is among the parameter's declared types, a value that is not JSON is taken
    as a string; if it is the only type, anything but a JSON string is.

    Raises:
        InputError: An argument cannot be used.
    """
    declared = {parameter.name: parameter.declared for parameter in evaluator.parameters}

    def literal(name: str, text: str) -> Any:
        return _literal(name, text, declared.get(name))

    return InputMapping(paths=_pairs("--map", paths, _path), literals=_pairs("--set", literals, literal))


def place(path: str | None) -> str | None:
    """Return the value of `--rows`. Raises InputError."""
    if path is not None:
        from runner.inputs.datasets.places import parse_place  # here: few datasets name a place

        try:
            parse_place(path)
        except PathError as error:
            raise InputError(f"--rows {printable(path, 60)!r}: {error}") from None
    return path


def standard_input() -> BinaryIO | None:
    """
    Return stdin's bytes, in a new buffer; None if stdin is closed.

    Python's own buffer must not be in use by a thread when the interpreter ends.
    """
    if sys.stdin is None:
        return None
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (io.UnsupportedOperation, ValueError):  # a test's stand-in has no descriptor
        return sys.stdin.buffer


def _pairs(option: str, given: Sequence[str], value: Callable[[str, str], T]) -> dict[str, T]:
    found: dict[str, T] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            example = "--map output=prediction" if option == "--map" else "--set limit=3"
            raise InputError(f"{option} {printable(pair, 80)!r} is not NAME=VALUE; write for example {example}")
        if name in found:
            raise InputError(f"{option} names the parameter {printable(name, 80)!r} twice; give it once")
        found[name] = value(name, text)
    return found


def _path(name: str, text: str) -> str:
    if not text.strip():
        raise InputError(f"--map {printable(name, 80)}= has no column; write for example --map {name}=output")
    return text.strip()


def _literal(name: str, text: str, declared: ParameterSpec | None) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        if declared is not None and "string" in declared.types:
            return text
        quoted = printable(json.dumps(text, ensure_ascii=False))
        step = f"quote text like this: --set '{name}={quoted}'"
        if declared is not None and "any" not in declared.types:
            step = f"`{name}` must be {describe_values(declared)}"
        raise InputError(f"--set {printable(name, 80)}: {printable(text, 80)} is not JSON; {step}") from None
    is_text = declared is not None and declared.types == ("string",)
    return text if is_text and not isinstance(value, str) else value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
