"""Messages of the agent to the host: a line of ASCII JSON each, with the mark that no script can know."""

from __future__ import annotations

import binascii
import collections
import json
import os
import select

from ..supervisor.clock import now

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .event_loop import Ports

PATIENCE = 600.0
"""Seconds in which the host takes something, if it still listens."""

_MOST = 1 << 20  # bytes that may wait to be taken while rows go on
_PIECE = 4096  # bytes that a pipe takes without waiting, when it says that it takes any (PIPE_BUF)


class HostGone(Exception):
    """The host no longer listens."""


class FrameWriter:
    """
    Write to a descriptor as fast as the other side takes it, without ever blocking in a write.

    The descriptor's flags stay as they are, since it may be shared with other processes.
    """

    def __init__(self, fd: int, mark: str, ports: Ports) -> None:
        self._fd, self.mark, self._ports = fd, mark, ports
        self._rest: collections.deque[bytes | memoryview] = collections.deque()
        self._waiting = 0
        self._can = select.poll()
        self._can.register(fd, select.POLLOUT)
        ports.add_end(fd, self._gone)

    def say(self, **frame: Any) -> None:
        self.add(**frame)
        self._begin()

    def add(self, **frame: Any) -> None:
        """Say it with the next one, or when it is waited for."""
        line = json.dumps({**frame, "mark": self.mark}, separators=(",", ":")).encode() + b"\n"
        last = self._rest[-1] if self._rest else None
        if isinstance(last, bytes) and len(last) + len(line) <= _PIECE:
            self._rest[-1] = last + line
        else:
            self._rest.append(line)
        self._waiting += len(line)

    def _begin(self) -> None:
        self._write()
        if self._rest:
            self._ports.add_writer(self._fd, self._write)

    def drain(self, most: int = _MOST) -> None:
        """Wait until at most so many bytes are still to be taken. Raises Gone if the host takes none."""
        self._begin()
        before, until = self._waiting, now() + PATIENCE
        while self._waiting > most:
            self._ports.wait(until)
            if self._waiting < before:
                before, until = self._waiting, now() + PATIENCE
            elif now() > until:
                raise HostGone

    def _write(self) -> None:
        try:
            while self._rest and self._can.poll(0):
                head = memoryview(self._rest[0])
                written = os.write(self._fd, head[:_PIECE])
                self._waiting -= written
                if written == len(head):
                    self._rest.popleft()
                else:
                    self._rest[0] = head[written:]
        except BlockingIOError:
            return
        except OSError:
            raise HostGone from None
        if not self._rest:
            self._ports.remove_writer(self._fd)

    def _gone(self) -> NoReturn:
        raise HostGone


def result_frame(how: str, payload: bytes, took: float, kept: bytes, said: int, loading: bool) -> dict[str, Any]:
    """Return the result of a row, or of loading, as `remote.stream` reads it; see `supervisor.driver.CallResult`."""
    found: dict[str, Any] = {"how": how, "payload": _text(payload), "took": took, "output": _text(kept), "said": said}
    return found | ({"loading": True} if loading else {})


def _text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()
