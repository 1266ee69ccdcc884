"""JSON as text: encoders of one form each, and texts that stand for their values."""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_encoder
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

    It raises RecursionError for a value that contains itself. `JSONEncoder.encode` makes an encoder for each value.
    """
    item, key = (",", ":") if compact else (", ", ": ")
    escaped = encode_basestring_ascii if ascii else encode_basestring
    chunks = make_encoder(None, JSONEncoder().default, escaped, None, key, item, sort, False, nan)
    return lambda value: "".join(chunks(value, 0))
