"""
Messages between the host and the processes of a box: a length, a JSON object, its parts as they are.

Both sides use this file, which depends on neither. A message may carry descriptors.
"""

from __future__ import annotations

import json
import struct
from _json import encode_basestring_ascii, make_encoder
from _socket import CMSG_LEN, SCM_RIGHTS, SOL_SOCKET, socket  # `socket` itself takes longer than all of a box's rest

TYPE_CHECKING = False  # typing's, whose import is slower than these
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

HEAD = struct.Struct("<I")
RESULT = struct.Struct("<IId")
"""The head of a result: the number of bytes that follow, the row's place in its run, the seconds that it took."""

_FD = struct.Struct("i")
_MOST = 4
"""Descriptors that come with a message."""
_scan = vars(json.JSONDecoder())["scan_once"]  # the C function: nothing that a script can get at decides what it does


def _decode(text: str) -> Any:
    """The value of a JSON text without blanks around it. Raises ValueError."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = -1
    if end != len(text):
        raise ValueError("no JSON")
    return value


def pack(message: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    """Return the bytes of a message; `sizes` in it gives the length of each part."""
    whole = {**message, "sizes": [len(p) for p in parts]}
    # The C function, since in a box a script may have patched json by now.
    head = "".join(
        make_encoder({}, str, encode_basestring_ascii, None, ":", ",", False, False, True)(whole, 0)
    ).encode()
    return b"".join((HEAD.pack(len(head)), head, *parts))


def send(channel: socket, message: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
    """Send all of a message, waiting as long as it takes."""
    data, sent = memoryview(pack(message, parts)), 0
    while sent < len(data):
        sent += channel.send(data[sent:])


def receive(channel: socket) -> tuple[dict[str, Any], list[bytes], list[int]]:
    """Return the next message, its parts and its descriptors. Raises EOFError if the other side has closed."""
    first, beside, _, _ = channel.recvmsg(HEAD.size, CMSG_LEN(_MOST * _FD.size))
    fds = [
        fd
        for level, kind, packed in beside
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS)
        for (fd,) in _FD.iter_unpack(packed[: len(packed) // _FD.size * _FD.size])
    ]
    if not first:
        raise EOFError
    first += _exactly(channel, HEAD.size - len(first))
    message = _decode(_exactly(channel, HEAD.unpack(first)[0]).decode())
    sizes = message.pop("sizes")
    whole = _exactly(channel, sum(sizes))
    parts, start = [], 0
    for size in sizes:
        parts.append(whole[start : start + size])
        start += size
    return message, parts, fds


def _exactly(channel: socket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        some = channel.recv(min(count - len(got), 1 << 20))
        if not some:
            raise EOFError
        got += some
    return bytes(got)


def first(inbox: bytearray, longest: int) -> tuple[dict[str, Any], bytes] | None:
    """
    Take the first message off the bytes that have arrived, with its parts in one; None if it is incomplete.

    Raises ValueError if it is invalid, or longer than `longest`.
    """
    if len(inbox) < HEAD.size:
        return None
    head = HEAD.size + HEAD.unpack_from(inbox)[0]
    if head > 1 << 16:
        raise ValueError("a head that is too long")
    if len(inbox) < head:
        return None
    message = _decode(inbox[HEAD.size : head].decode())
    sizes = message.pop("sizes", None) if type(message) is dict else None
    if type(sizes) is not list or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("no message")
    end = head + sum(sizes)
    if end > longest + (1 << 16):
        raise ValueError("a message that is too long")
    if len(inbox) < end:
        return None
    rest = bytes(inbox[head:end])
    del inbox[:end]
    return message, rest
