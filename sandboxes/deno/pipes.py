"""The two named pipes between the host and Deno: requests out, frames in; a script can open neither."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sandboxes.kernel.pipes import Outgoing, Pipe

LOADED, BEGUN, RESULT, GONE, HELLO, READY = range(6)

_HEAD = struct.Struct("<16sIIdI")
_SIZE = struct.Struct("<I")
_CHUNK = 1 << 18


class Frame(NamedTuple):
    """What Deno's main thread tells."""

    kind: int
    place: int
    seconds: float
    text: bytes


class Asked(Outgoing):
    """What is said to Deno."""

    def __init__(self, path: Path) -> None:
        # To read too: so it opens without a reader.
        super().__init__(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))

    def say(self, texts: Sequence[bytes]) -> None:
        """Sends a list of texts."""
        pieces = [piece for text in texts for piece in (_SIZE.pack(len(text)), text)]
        self.add([_SIZE.pack(sum(map(len, pieces))), *pieces])
        self.begin()


class Told(Pipe):
    """Frames as they come."""

    def __init__(self, path: Path, wake: Callable[[], None]) -> None:
        self._data = bytearray()
        self.longest = 1 << 16
        """Bytes that a frame's text may have."""
        self._key = b""
        self.flawed = ""
        """Why nothing more is read: what came is no frame."""
        super().__init__(wake, os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    @property
    def full(self) -> bool:
        return len(self._data) > self.longest + _CHUNK or bool(self.flawed)

    def take(self, got: bytes) -> None:
        self._data += got

    def next(self) -> Frame | None:
        """The next frame; None: it is not there yet."""
        if len(self._data) < _HEAD.size:
            return None
        key, kind, place, seconds, size = _HEAD.unpack_from(self._data)
        self._key = self._key or key  # of the first frame, which comes before there is a script
        if key != self._key or kind > READY or size > self.longest:
            self.flawed = "what came from it is no result"
            return None
        end = _HEAD.size + size
        if len(self._data) < end:
            self._listen()
            return None
        text = bytes(self._data[_HEAD.size : end])
        del self._data[:end]
        self._listen()  # where it was full
        return Frame(kind, place, seconds, text)
