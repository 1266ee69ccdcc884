"""
Messages between evalcell and its worker processes.

A request is a JSON header, then raw bytes. There is one reply for each request, in order.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from sandboxes.raw import Raw

if TYPE_CHECKING:
    import asyncio  # a worker does not need it

_HEAD = struct.Struct("<II")
_TOLD = struct.Struct("<BdI")

_CHUNK = 1 << 18

LINGER = 0.01
"""Seconds that a result may wait for others; results of slow calls are told at once."""

FAILED_RESULT = "failed"
"""The result if no script is at fault; the payload says why."""

WALL = "wall"
"""The first result of a worker: the payload says what confines it."""

_WORDS = {b"reply", b"timeout", b"cpu", b"memory", b"stack", b"trap", b"unreadable", b"too_much", b"failed", b"wall"}
_FEW = 1 << 16
"""Bytes that a worker's own words may have."""

Frame = tuple[dict[str, Any], bytes]


class Bounds(NamedTuple):
    """The limits of one call or load, as the guest's host needs them."""

    timeout: float
    memory: int
    longest: int
    """Most bytes of the guest's reply."""
    cpu: float | None
    """Seconds of processor time."""


class Request(NamedTuple):
    call: int
    random: int | None
    """The seed of the guest's random numbers. None: the system's."""
    text: bytes


def pack(header: dict[str, Any], payload: bytes = b"") -> bytes:
    head = json.dumps(header, separators=(",", ":")).encode()
    return _HEAD.pack(len(head), len(payload)) + head + payload


def read(pipe: BinaryIO) -> Frame | None:
    """Return the next frame; None at the end of the pipe, also inside a frame."""
    sizes = pipe.read(_HEAD.size)
    if len(sizes) < _HEAD.size:
        return None
    header, payload = _HEAD.unpack(sizes)
    body = pipe.read(header + payload)
    if len(body) < header + payload:
        return None
    return json.loads(body[:header]), body[header:]


def pack_result(raw: Raw) -> bytes:
    """Return the reply with the result of a call, or of loading."""
    how = raw.how.encode()
    return _TOLD.pack(len(how), raw.duration, len(raw.payload)) + how + raw.payload


class BadReplyError(EOFError):
    """What no worker sends, unless a script has got out of WebAssembly into it."""


class Replies:
    """Replies of a worker, as they arrive."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._data = bytearray()

    def take(self, calls: Sequence[int], longest: int) -> list[Raw]:
        """
        Return the replies that have arrived whole: the results of the first of these calls.

        Raises BadReplyError.
        """
        data, at, found = self._data, 0, list[Raw]()
        while len(found) < len(calls) and len(data) - at >= _TOLD.size:
            how, duration, length = _TOLD.unpack_from(data, at)
            start = at + _TOLD.size
            end = start + how + length
            if length > max(longest, _FEW) or not 0 <= duration < math.inf:
                raise BadReplyError("its reply cannot be read")
            if len(data) < end:
                break
            word = bytes(data[start : start + how])
            if word not in _WORDS:
                raise BadReplyError("its reply cannot be read")
            found.append(Raw(calls[len(found)], word.decode(), bytes(data[start + how : end]), duration))
            at = end
        del data[:at]
        return found

    async def more(self) -> None:
        """Wait until more has arrived. Raises EOFError at the end."""
        got = await self._stream.read(_CHUNK)
        if not got:
            raise EOFError("its pipe was closed")
        self._data += got
