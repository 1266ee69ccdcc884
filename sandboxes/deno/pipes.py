"""The two named pipes between the host and Deno: requests out, frames in; a script can open neither."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sandboxes.kernel.pipes import Pipe
from sandboxes.kernel.view import reachable

LOADED, BEGUN, RESULT, GONE, HELLO, READY = range(6)

_HEAD = struct.Struct("<16sIIdI")
_SIZE = struct.Struct("<I")
_CHUNK = 1 << 18
_VECTORS = 256


class Frame(NamedTuple):
    """What Deno's main thread tells."""

    kind: int
    place: int
    seconds: float
    text: bytes


class Folder:
    """A folder of the host's that a box may read: named pipes, until Deno has opened them, or files."""

    def __init__(self, pipes: Sequence[str] = (), files: Mapping[str, str] | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="evalcell-", dir=_place()))
        try:
            for name in pipes:
                os.mkfifo(self.path / name, 0o600)
            for name, text in (files or {}).items():
                (self.path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        except BaseException:
            self.remove()
            raise

    def give(self, uid: int | None) -> None:
        """To the user as whom Deno will run."""
        if uid is not None:
            for path in (*self.path.iterdir(), self.path):
                os.chown(path, uid, uid)

    def remove(self) -> None:
        """Safe twice."""
        shutil.rmtree(self.path, ignore_errors=True)


def _place() -> str:
    """The folder for temporary files, unless other users cannot get there: scripts of root run as one."""
    chosen = tempfile.gettempdir()
    return chosen if os.geteuid() or reachable(chosen) else "/tmp"


class Asked:
    """What is written to Deno, as fast as it reads."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)  # to read too: it opens without a reader
        self._loop = asyncio.get_running_loop()
        self._rest: deque[memoryview] = deque()

    def say(self, texts: Sequence[bytes]) -> None:
        """Sends a list of texts."""
        pieces = [piece for text in texts for piece in (_SIZE.pack(len(text)), text)]
        whole = [_SIZE.pack(sum(map(len, pieces))), *pieces]
        self._rest.extend(memoryview(piece) for piece in whole if piece)
        self._loop.add_writer(self._fd, self._feed)
        self._feed()

    def _feed(self) -> None:
        try:
            while self._rest:
                written = os.writev(self._fd, [*self._rest][:_VECTORS])
                while self._rest and written >= len(self._rest[0]):
                    written -= len(self._rest.popleft())
                if written:
                    self._rest[0] = self._rest[0][written:]
        except BlockingIOError:
            return
        self._loop.remove_writer(self._fd)

    def close(self) -> None:
        """Safe twice."""
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1


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
