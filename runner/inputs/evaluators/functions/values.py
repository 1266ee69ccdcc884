"""Python values as source: literals, and which objects their own statement makes again."""

from __future__ import annotations

import datetime
import decimal
import fractions
import logging
import math
import operator
import pathlib
import random
import re
import string
import struct
import typing
import uuid
from typing import Any

_AGAIN = (
    re.Pattern,
    decimal.Decimal,
    fractions.Fraction,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    pathlib.PurePath,
    uuid.UUID,
    range,
    slice,
    complex,
    random.Random,
    string.Template,
    struct.Struct,
    logging.Logger,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
    typing.TypeVar,
)
"""What is made by its own statement is as it was: it cannot change, or a script begins with it anew."""
_DEEP = 50


class NoLiteralError(ValueError):
    """The value is not plain data."""


class LargeLiteralError(ValueError):
    """The value is plain data, and too much of it."""


def literal(value: Any, limit: int) -> str:
    """
    Return plain data as Python source of at most about `limit` characters, the same for equal values.

    Raises NoLiteralError, LargeLiteralError.
    """
    return _Writer(limit).text(value, 0)


class _Writer:
    def __init__(self, limit: int) -> None:
        self._left = limit

    def text(self, value: Any, depth: int) -> str:
        kind = type(value)
        if kind.__module__ == "numpy" and getattr(value, "ndim", None) == 0:
            value = value.item()
            kind = type(value)
        # Counted before it is written: data may be larger than memory has room for twice.
        self._left -= len(value) if kind in (str, bytes) else 1
        if self._left < 0:
            raise LargeLiteralError
        if value is None or kind in (bool, int, str, bytes):
            try:
                return repr(value)
            except ValueError:
                raise NoLiteralError("an integer of very many digits") from None
        if kind is float:
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if depth > _DEEP:
            raise NoLiteralError("nested deeply, or it holds itself")
        if kind is dict:
            pairs = (f"{self.text(key, depth + 1)}: {self.text(inner, depth + 1)}" for key, inner in value.items())
            return "{" + ", ".join(pairs) + "}"
        if kind in (list, tuple, set, frozenset):
            parts = [self.text(inner, depth + 1) for inner in value]
            if kind is list:
                return f"[{', '.join(parts)}]"
            if kind is tuple:
                return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
            inside = f"{{{', '.join(sorted(parts))}}}" if parts else ""
            return f"frozenset({inside})" if kind is frozenset else inside or "set()"
        raise NoLiteralError(f"a value of type {kind.__name__}")


def made_again(value: Any) -> bool:
    """Return true if the statement that made the value makes an equal one in the script."""
    frozen = getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False)
    # A named tuple; what typing makes; a member of an enumeration.
    return (
        isinstance(value, (*_AGAIN, type))
        or (isinstance(value, tuple) and type(value) is not tuple)
        or type(value).__module__ == "typing"
        or hasattr(type(value), "__members__")
        or bool(frozen)
    )
