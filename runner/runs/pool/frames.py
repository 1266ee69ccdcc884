"""Messages between the process that serves and a worker: two lengths, a JSON object, and a payload."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, NamedTuple

from sandboxes.json_text import writer

HEADER = 64 << 10
"""Most bytes of a header."""
PAYLOAD = 64 << 20
"""Most bytes of a payload: a segment, or the rows of a dry run."""

_HEAD = struct.Struct("<II")
_write = writer(ascii=True, compact=True, nan=True)


class FrameError(ValueError):
    """What arrived is no message, or a longer one than there may be."""


class PoolFrame(NamedTuple):
    """One message."""

    header: dict[str, Any]
    payload: bytes = b""

    @property
    def job(self) -> int:
        """The number of the job that it is about; 0 for the worker itself."""
        job = self.header.get("job")
        return job if type(job) is int else 0


def encode_payload(value: object) -> bytes:
    """Return a payload of JSON. Names of files may be in it that are no UTF-8."""
    return _write(value).encode()


def pack(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """Return the bytes of a message. Raises FrameError if it is too long to be read."""
    head = json.dumps(header, separators=(",", ":")).encode()
    if len(head) > HEADER or len(payload) > PAYLOAD:
        raise FrameError(f"a message of {len(head) + len(payload):,} bytes; at most {PAYLOAD >> 20} MB can be sent")
    return _HEAD.pack(len(head), len(payload)) + head + payload


async def read(stream: asyncio.StreamReader) -> PoolFrame:
    """Return the next message. Raises EOFError at the end, also inside a message, and FrameError."""
    header, payload = _HEAD.unpack(await stream.readexactly(_HEAD.size))
    if header > HEADER or payload > PAYLOAD:
        raise FrameError(f"a message of {header + payload:,} bytes")
    body = await stream.readexactly(header + payload)
    try:
        found = json.loads(body[:header])
    except (ValueError, RecursionError) as e:
        raise FrameError("a header that is not JSON") from e
    if not isinstance(found, dict):
        raise FrameError("a header that is no object")
    return PoolFrame(found, body[header:])


async def read_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line of a log, cut; empty at the end."""
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as e:
        return e.partial
    except asyncio.LimitOverrunError as e:
        return await stream.readexactly(max(1, e.consumed))
