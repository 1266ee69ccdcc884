"""JSON as text: encoders of one form each, and texts that stand for their values."""

from __future__ import annotations

from collections.abc import Callable
from json import JSONEncoder
from typing import Any


class JsonText(str):
    """JSON text in place of the value that it holds, for a value too large to be made into objects here."""

    __slots__ = ()


def writer(*, ascii: bool, compact: bool, nan: bool, sort: bool = False) -> Callable[[Any], str]:
    """
    Return an encoder like `json.dumps` with `ensure_ascii` and `allow_nan`; `compact` leaves out spaces, `sort` sorts
    keys.

    It raises RecursionError for a value that contains itself.
    """
    separators = (",", ":") if compact else (", ", ": ")
    return JSONEncoder(
        ensure_ascii=ascii, check_circular=False, allow_nan=nan, sort_keys=sort, separators=separators
    ).encode
