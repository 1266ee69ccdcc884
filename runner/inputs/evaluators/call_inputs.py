"""What an evaluator is given for a case, and a short hash of it, by which two runs tell that a row's input changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

from runner.core.types import Case, Evaluator, InputMapping
from runner.inputs.evaluators.mapping import bind
from sandboxes.json_text import writer

Fill: TypeAlias = Callable[[Case], tuple[tuple[Any, ...], dict[str, Any]]]
"""Makes a case's positional and keyword arguments. Raises MappingError, which fails that case alone."""
Hash: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], str | None]
"""Hashes them; None for what JSON cannot hold."""

_HALF = 8
_write = writer(ascii=False, compact=True, nan=True, sort=True)


def fill_and_hash(
    evaluator: Evaluator, mapping: InputMapping | Fill | None, timeout: float | None = None
) -> tuple[Fill, Hash]:
    """
    Return how each case's arguments are filled, and how they are hashed.

    How many places of a row a path may look at depends on the `timeout`.

    Raises:
        MappingError: For an unusable mapping.
    """
    if callable(mapping):
        return mapping, hasher(evaluator, ("output",))
    binding = bind(evaluator, mapping, timeout=timeout)
    return binding.arguments, hasher(evaluator, binding.outputs, binding.beside)


def hasher(evaluator: Evaluator, outputs: Collection[str], beside: Mapping[str, Collection[str]] | None = None) -> Hash:
    """
    Return a function that hashes a call's arguments to 16 hex digits.

    `outputs` are the parameters that get the output to be scored. They are hashed apart: two runs that compare two
    models differ in them, and should differ in nothing else. `beside` are keys, by parameter, that have the output as
    well. The order of an object's keys makes no difference.
    """
    positional = [parameter.name for parameter in evaluator.parameters if parameter.positional_only]

    def hash(values: tuple[Any, ...], keywords: dict[str, Any]) -> str | None:
        given = {**dict(zip(positional, values, strict=False)), **keywords} if values else keywords
        for name, columns in beside.items() if beside else ():
            if isinstance(whole := given.get(name), dict):
                given = given | {name: {key: value for key, value in whole.items() if key not in columns}}
        others: dict[str, Any] = {}
        scored: dict[str, Any] = {}
        for name, value in given.items():
            (scored if name in outputs else others)[name] = value
        try:
            return _half(others) + _half(scored)
        except (TypeError, ValueError, RecursionError):
            return None  # the call itself fails, and says why

    return hash


def _half(values: dict[str, Any]) -> str:
    return blake2b(_write(values).encode("utf-8", "surrogatepass"), digest_size=_HALF // 2).hexdigest()


def split_hash(digest: str) -> tuple[str, str]:
    """Return the hash of the arguments that are not the output, and that of the output."""
    return digest[:_HALF], digest[_HALF:]


NO_OUTPUT = _half({})
"""The hash of the output where no parameter gets it."""
