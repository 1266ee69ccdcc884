"""The agent's end of the socket to a box: messages out, and in."""

from __future__ import annotations

import contextlib
import socket

from .. import wire
from ..supervisor.inbox import Inbox
from .event_loop import now

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .event_loop import Ports

_PATIENCE = 10.0
"""Seconds in which a box takes what is said to it."""


class Broken(Exception):
    """The box did not start, or does not answer."""


class Channel(Inbox):
    """The socket to a box."""

    def __init__(self, ports: Ports) -> None:
        ours, self.theirs = socket.socketpair()
        self._ports = ports
        super().__init__(ours, ports, bool)

    def say(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
        """Raises Broken when the box does not take it."""
        if self.gone:
            raise Broken("it has ended")
        data = memoryview(wire.pack(message, parts))
        taken: list[int] = []
        until = now() + _PATIENCE

        def write() -> None:
            with contextlib.suppress(BlockingIOError):
                some = data[sum(taken) :]
                taken.append(socket.send_fds(self._ours, [some], fds if not taken else ()))

        try:
            write()
            self._ports.add_writer(self._ours.fileno(), write)
            while sum(taken) < len(data) and not self.gone and now() < until:
                self._ports.wait(until)
        except OSError as e:
            raise Broken(f"it has ended ({e.strerror})") from e
        finally:
            self._ports.remove_writer(self._ours.fileno())
        if sum(taken) < len(data):
            raise Broken("it does not listen")

    def heard(self, seconds: float) -> tuple[dict[str, Any], bytes]:
        """The next message, waiting for it. Raises Broken."""
        until = now() + seconds
        while (found := self.message()) is None:
            if self.gone or now() > until:
                raise Broken("it has ended" if self.gone else "it does not answer")
            self._ports.wait(until)
        return found
