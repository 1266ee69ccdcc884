"""The host's ends of a box's pipes: read as data comes, and never more than is bounded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from sandboxes.process.inside import wire

_CHUNK = 1 << 18


class Pipe:
    """The read end of a pipe. `wake` is called when data has come or the other side has closed."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)
        self.data = bytearray()
        self.ended = False
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.read, self._ready)

    def handed_over(self) -> None:
        """Closes the write end, which another process has by now."""
        if self.write >= 0:
            os.close(self.write)
            self.write = -1

    def _ready(self) -> None:
        self.pull()
        self._wake()

    def pull(self) -> bool:
        """Takes a chunk of what is there; False when there was none."""
        if self.ended:
            return False
        try:
            got = os.read(self.read, _CHUNK)
        except BlockingIOError:
            return False
        if not got:
            self._loop.remove_reader(self.read)
            self.ended = True
            return False
        self.take(got)
        return True

    def take(self, got: bytes) -> None:
        self.data += got

    def close(self) -> None:
        self.handed_over()
        if self.read >= 0:
            self._loop.remove_reader(self.read)
            os.close(self.read)
            self.read, self.ended = -1, True


class Results(Pipe):
    """Results as the child sends them, in the order of its requests."""

    def __init__(self, wake: Callable[[], None], longest: int) -> None:
        super().__init__(wake)
        self._longest = longest
        self.flawed = ""
        """Why nothing more is read: what came is no result."""

    def take(self, got: bytes) -> None:
        # One that is on its way, and those that have come meanwhile; a child that sends more is not ours.
        if len(self.data) + len(got) > 2 * (self._longest + _CHUNK):
            self.flawed = "more came from it than it was asked for"
            return
        super().take(got)

    def next(self, place: int) -> tuple[bytes, float] | None:
        """The payload of the request at this place and the seconds it says it took; None: not there yet."""
        if self.flawed or len(self.data) < wire.RESULT.size:
            return None
        length, found, seconds = wire.RESULT.unpack_from(self.data)
        if length > self._longest or found != place:
            self.flawed = "what came from it is no result"
            return None
        end = wire.RESULT.size + length
        if len(self.data) < end:
            return None
        payload = bytes(self.data[wire.RESULT.size : end])
        del self.data[:end]
        return payload, seconds


class Printed(Pipe):
    """What a call prints: the tail of it, and how much there was."""

    def __init__(self, wake: Callable[[], None], keep: int, flood: int) -> None:
        super().__init__(wake)
        self._keep, self._flood = keep, flood
        self.said = 0

    @property
    def flooded(self) -> bool:
        return self.said > self._flood

    def take(self, got: bytes) -> None:
        self.said += len(got)
        super().take(got)
        if len(self.data) > 2 * (self._keep + _CHUNK):
            del self.data[: -(self._keep + _CHUNK)]

    def cut(self, mark: bytes = b"") -> tuple[bytes, int]:
        """
        What the call printed whose result has come: the tail, and how many bytes it was in all.

        `mark` ends it where calls share the pipe; a script that broke the stream may have lost it.
        """
        while True:
            end = self.data.find(mark) if mark else -1
            if end >= 0 or self.flooded or not self.pull():
                break
        rest = b""
        if end >= 0:
            rest = bytes(self.data[end + len(mark) :])
            del self.data[end:]
            self.said -= len(rest) + len(mark)
        kept, said = bytes(self.data[max(0, len(self.data) - self._keep) :]), self.said
        self.data[:] = rest
        self.said = len(rest)
        return kept, said
