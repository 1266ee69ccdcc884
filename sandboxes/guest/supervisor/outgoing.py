"""The write ends of pipes. Also sent to providers' machines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from .. import wire
from .pipes import running_loop

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from .pipes import Loop

_VECTORS = 256  # pieces written at once; the kernel takes 1024
_USUAL = 1 << 16  # bytes that a pipe holds
_ROOM = 1 << 18  # and may hold: a user may have 64 MB in larger pipes, and after that only the smallest ones
_SMALL = 1 << 14  # bytes that are copied rather than handled apart


class Outgoing:
    """Bytes written to a descriptor as fast as the other side takes them."""

    def __init__(self, write: int, loop: Loop | None = None) -> None:
        self._write = write
        os.set_blocking(write, False)
        self._loop = loop or running_loop()
        self._rest: deque[memoryview] = deque()

    def add(self, pieces: Iterable[bytes]) -> None:
        self._rest.extend(memoryview(piece) for piece in pieces if piece)

    def begin(self) -> None:
        """Begin to write what was added."""
        self._loop.add_writer(self._write, self._feed)
        self._feed()

    def _feed(self) -> None:
        try:
            while self._rest:
                written = os.writev(self._write, [*islice(self._rest, _VECTORS)])
                while self._rest and written >= len(self._rest[0]):
                    written -= len(self._rest.popleft())
                if written:
                    self._rest[0] = self._rest[0][written:]
        except BlockingIOError:
            return
        except OSError:  # the other side has closed, which is reported elsewhere
            self._rest.clear()
        self._written()

    def _written(self) -> None:
        """All has been taken, or the other side has closed."""
        self._loop.remove_writer(self._write)

    def close(self) -> None:
        """Close it. Safe twice."""
        if self._write >= 0:
            self._loop.remove_writer(self._write)
            os.close(self._write)
            self._write = -1


def _make_room(write: int, size: int) -> None:
    """Let a pipe hold so many bytes, as far as it may: a reader of quick requests should not wait for the writer."""
    if size > _USUAL and sys.platform == "linux":
        import fcntl  # not on Windows, where providers are used from

        with contextlib.suppress(OSError):  # this user's pipes hold as much as they may
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, min(size, _ROOM))


class Requests(Outgoing):
    """The requests that a child reads, one after the other."""

    def __init__(self, payloads: Sequence[bytes], loop: Loop | None = None) -> None:
        self.read, write = os.pipe()
        super().__init__(write, loop)
        together = bytearray()
        for payload in payloads:
            together += wire.HEAD.pack(len(payload))
            if len(payload) < _SMALL:
                together += payload
            else:
                self.add((bytes(together), payload))
                together.clear()
        self.add((bytes(together),))
        _make_room(write, sum(map(len, self._rest)))

    def hand_over(self) -> None:
        """Close the read end, which another process has by now, and begin to write."""
        os.close(self.read)
        self.read = -1
        self.begin()

    def _written(self) -> None:
        super().close()

    def close(self) -> None:
        super().close()
        if self.read >= 0:
            os.close(self.read)
            self.read = -1
