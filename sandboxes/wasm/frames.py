"""What goes over the pipes between evalcell and its worker processes: a small JSON header, then bytes as they are."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    import asyncio  # a worker does without

_HEAD = struct.Struct("<II")

Frame = tuple[dict[str, Any], bytes]


class Bounds(NamedTuple):
    """The limits of one call or load, as the guest's host needs them."""

    timeout: float
    memory: int
    longest: int
    """Bytes of the guest's reply."""


class Request(NamedTuple):
    call: int
    random: int | None
    """Seeds the guest's random numbers. None: the system's."""
    text: bytes


def pack(header: dict[str, Any], payload: bytes = b"") -> bytes:
    head = json.dumps(header, separators=(",", ":")).encode()
    return _HEAD.pack(len(head), len(payload)) + head + payload


def read(pipe: BinaryIO) -> Frame | None:
    """The next frame; None at the end of the pipe, in the middle of a frame too."""
    sizes = pipe.read(_HEAD.size)
    if len(sizes) < _HEAD.size:
        return None
    header, payload = _HEAD.unpack(sizes)
    body = pipe.read(header + payload)
    if len(body) < header + payload:
        return None
    return json.loads(body[:header]), body[header:]


async def receive(stream: asyncio.StreamReader) -> Frame:
    """The next frame. Raises asyncio.IncompleteReadError at the end of the stream."""
    header, payload = _HEAD.unpack(await stream.readexactly(_HEAD.size))
    body = await stream.readexactly(header + payload)
    return json.loads(body[:header]), body[header:]
