"""Values of Python as JSON, and back as built-in types alone, so that `==` on what comes back is Python's own."""

from __future__ import annotations

from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

MOST = 10_000
"""Values that are taken out of an iterator."""


def encode_plain(value: Any, own: Callable[[Any], Any]) -> Any:
    """The value as JSON; `own` says what stands for a value of any other class."""
    kind = type(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value) if value.isascii() else _text(value)
    if isinstance(value, int):
        return int(value) if -(1 << 53) < value < 1 << 53 else {"int": hex(value)}
    if isinstance(value, float):
        return float(value) if value - value == 0 else {"float": str(float(value))}
    if isinstance(value, complex):
        return {"complex": [encode_plain(value.real, own), encode_plain(value.imag, own)]}
    if isinstance(value, bytes | bytearray):
        return {kind.__name__ if kind in (bytes, bytearray) else "bytes": bytes(value).hex()}
    if isinstance(value, range):
        return {"range": [encode_plain(part, own) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, Decimal | Fraction | timedelta | date):
        return _number(value)
    if isinstance(value, dict):
        return {"dict": [[encode_plain(key, own), encode_plain(one, own)] for key, one in dict.items(value)]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"named": [kind.__name__, *value._fields], "values": [encode_plain(one, own) for one in value]}
    if isinstance(value, list):
        return [encode_plain(one, own) for one in value]
    for name, base in _GROUPS.items():
        if isinstance(value, base):
            return {name: [encode_plain(one, own) for one in value]}
    if isinstance(value, Iterator) and kind.__module__ in ("builtins", "itertools", "collections"):
        return {"iterator": [encode_plain(one, own) for one in islice(value, MOST)]}
    if kind.__module__ == "numpy" and hasattr(value, "tolist"):
        return encode_plain(value.tolist(), own)
    return own(value)


_GROUPS: dict[str, Any] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "keys": type({}.keys()),
    "listed": (type({}.values()), type({}.items())),
}


def _text(value: str) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"str": value.encode("utf-16-le", "surrogatepass").hex()}
    return str(value)


def _number(value: Any) -> Any:
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if isinstance(value, date):
        return {"datetime" if isinstance(value, datetime) else "date": value.isoformat()}
    return {"decimal" if isinstance(value, Decimal) else "fraction": str(value)}


def decode_plain(value: Any, own: Callable[[Any], Any]) -> Any:
    """What was encoded. Raises ValueError for JSON that `encoded` does not make, whoever made it."""
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, list):
        return [decode_plain(one, own) for one in value]
    try:
        if "own" in value:
            return own(value)
        if "named" in value:
            return _named(value["named"], [decode_plain(one, own) for one in value["values"]])
        ((name, inner),) = value.items()
        if name == "dict":
            return {decode_plain(key, own): decode_plain(one, own) for key, one in inner}
        return _MAKE[name](decode_plain(inner, own))
    except (TypeError, KeyError, ValueError, ArithmeticError, AttributeError, OverflowError) as error:
        raise ValueError(f"no encoded value: {type(error).__name__}") from None


def _named(names: list[str], values: list[Any]) -> Any:
    if not all(isinstance(name, str) for name in names):
        raise ValueError("names must be text")
    # Made by Python from a text: it refuses names that are no identifiers.
    return namedtuple(names[0], names[1:])(*values)


_MAKE: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "str": lambda text: bytes.fromhex(text).decode("utf-16-le", "surrogatepass"),
    "complex": lambda parts: complex(*parts),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "range": lambda parts: range(*parts),
    "decimal": Decimal,
    "fraction": Fraction,
    "timedelta": lambda parts: timedelta(*parts),
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "keys": lambda keys: dict.fromkeys(keys).keys(),
    "listed": list,
    "iterator": iter,
}
