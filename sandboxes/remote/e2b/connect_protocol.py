"""The Connect protocol's streams of JSON: each message after one byte of flags and four bytes of length."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from sandboxes.remote.provider import UnreachableError

TYPE = "application/connect+json"
_HEAD = 5
_MESSAGE, _END = 0, 2


class ConnectError(Exception):
    """The failure at the end of a stream. `code` is a word such as `deadline_exceeded`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def envelope(message: Mapping[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return bytes([_MESSAGE]) + len(body).to_bytes(_HEAD - 1, "big") + body


async def messages(pieces: AsyncIterator[bytes], most: int) -> AsyncGenerator[dict[str, Any], None]:
    """
    Yield a stream's messages, each at most `most` bytes. A stream that breaks off looks like one that ends well.

    Raises ConnectError if it ends with a failure, UnreachableError if it is not such a stream.
    """
    pending = bytearray()
    async for piece in pieces:
        pending += piece
        while len(pending) >= _HEAD:
            flags, length = pending[0], int.from_bytes(pending[1:_HEAD], "big")
            if flags not in (_MESSAGE, _END) or length > most:
                raise UnreachableError("the stream's envelopes are invalid")
            if len(pending) < _HEAD + length:
                break
            message = _parsed(bytes(pending[_HEAD : _HEAD + length]))
            del pending[: _HEAD + length]
            if flags == _MESSAGE:
                yield message
                continue
            failure = message.get("error")
            if isinstance(failure, dict):
                raise ConnectError(str(failure.get("code")), str(failure.get("message"))[:300])
            return


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnreachableError("a message of the stream is not a JSON object")
    return found
