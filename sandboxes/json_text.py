"""JSON for each row as the standard library writes and reads it, without making an encoder each time."""

from __future__ import annotations

from _json import encode_basestring, encode_basestring_ascii, make_encoder, make_scanner
from collections.abc import Callable
from json import JSONDecodeError, JSONDecoder, JSONEncoder
from typing import Any


class JsonText(str):
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
    scan = make_scanner(decoder)  # type: ignore[arg-type]  # a decoder is what it takes

    def read(text: str) -> Any:
        try:
            value, end = scan(text, 0)
        except (StopIteration, JSONDecodeError):  # there may be spaces before it
            return decoder.decode(text)
        return value if end == len(text) else decoder.decode(text)

    return read
