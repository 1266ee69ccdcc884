"""The agent's end of the socket to a box."""

from __future__ import annotations

import contextlib
import socket

from .. import wire
from ..supervisor.clock import now
from ..supervisor.driver import BoxFailure
from ..supervisor.inbox import Inbox
from .event_loop import nothing

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..supervisor.driver import Message
    from .event_loop import Ports

_PATIENCE = 10.0
"""Seconds in which a box must take a message."""


class GuestChannel(Inbox):
    """The socket to a box, and waiting for messages from it or for other descriptors."""

    now = staticmethod(now)
    wake = staticmethod(nothing)

    def __init__(self, ports: Ports) -> None:
        ours, self.theirs = socket.socketpair()
        self.loop = ports
        super().__init__(ours, ports, nothing)

    async def send(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
        """Send a message. Raises BoxFailure if the box does not take it."""
        if self.gone:
            raise BoxFailure("it has ended")
        data = memoryview(wire.pack(message, parts))
        taken: list[int] = []
        until = now() + _PATIENCE

        def write() -> None:
            with contextlib.suppress(BlockingIOError):
                some = data[sum(taken) :]
                taken.append(socket.send_fds(self._ours, [some], fds if not taken else ()))

        try:
            write()
            self.loop.add_writer(self._ours.fileno(), write)
            while sum(taken) < len(data) and not self.gone and now() < until:
                self.loop.wait(until)
        except OSError as e:
            raise BoxFailure(f"it has ended ({e.strerror})") from e
        finally:
            self.loop.remove_writer(self._ours.fileno())
        if sum(taken) < len(data):
            raise BoxFailure("it does not listen")

    async def receive(self, until: float) -> Message:
        """Wait for the next message. Raises TimeoutError, and BoxFailure if the box has ended."""
        while (found := self.message()) is None:
            if self.gone:
                raise BoxFailure("it has ended")
            if now() > until:
                raise TimeoutError("it does not answer")
            self.loop.wait(until)
        return found
