"""JSON for each row as the standard library writes and reads it, without making an encoder each time."""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_encoder
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder, JSONEncoder
from typing import Any


class Encoded(str):
    """JSON text in place of the value that it holds, for a value too large to be made into objects here."""

    __slots__ = ()


def writer(*, ascii: bool, compact: bool, nan: bool, sort: bool = False) -> Callable[[Any], str]:
    """
    An encoder like `json.dumps` with `ensure_ascii` and `allow_nan`; `compact` leaves out spaces, `sort` sorts keys.

    It raises RecursionError for a value that contains itself.
    """
    item, key = (",", ":") if compact else (", ", ": ")
    escaped = encode_basestring_ascii if ascii else encode_basestring
    chunks = make_encoder(None, JSONEncoder().default, escaped, None, key, item, sort, False, nan)
    join = "".join
    return lambda value: join(chunks(value, 0))


def reader(decoder: JSONDecoder) -> Callable[[str], Any]:
    """A function like `decoder.decode`."""
    first = decoder.raw_decode

    def read(text: str) -> Any:
        try:
            value, end = first(text)
        except JSONDecodeError:  # there may be spaces before it
            return decoder.decode(text)
        return value if end == len(text) else decoder.decode(text)

    return read
