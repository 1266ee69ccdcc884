"""The host's end of the socket to a box."""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from sandboxes.guest import wire
from sandboxes.guest.supervisor import clock
from sandboxes.guest.supervisor.driver import BoxFailure
from sandboxes.guest.supervisor.inbox import Inbox

if TYPE_CHECKING:
    from sandboxes.guest.supervisor.driver import Message

_PATIENCE = 10.0
"""Seconds in which a box must take a message."""


class Waiter(ABC):
    """What waits for messages, or for any call of `wake`."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.now = clock.now
        self._event = asyncio.Event()
        self.wake = self._event.set

    @property
    @abstractmethod
    def gone(self) -> bool:
        """Whether nothing more will come."""

    @abstractmethod
    def message(self) -> Message | None:
        """Return the next message that has arrived."""

    async def receive(self, until: float) -> Message:
        """Wait for the next message. Raises TimeoutError, and BoxFailure if the box has ended."""
        while True:
            if (found := self.message()) is not None:
                return found
            if self.gone:
                raise BoxFailure("the sandbox has ended")
            if self.now() > until:
                raise TimeoutError
            await self.wait(until)

    async def wait(self, until: float, pause: float = inf) -> None:
        """Wait until something has happened, the time has come, or the seconds of a pause are over."""
        timer = self.loop.call_later(min(until - self.now(), pause) + 0.001, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
            self._event.clear()


class Channel(Inbox, Waiter):
    """One socket, and waiting for messages from it."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        os.set_blocking(self.theirs.fileno(), True)  # those of gevent and eventlet are not, and a box inherits it
        Waiter.__init__(self)
        Inbox.__init__(self, ours, self.loop, self.wake)
        self._sending = asyncio.Lock()
        clock.hold(self)

    def hang_up(self) -> None:
        super().hang_up()
        clock.release(self)

    async def send(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
        """Send a message. Raises BoxFailure if the box does not take it."""
        data = memoryview(wire.pack(message, parts))
        try:
            async with asyncio.timeout(_PATIENCE), self._sending:
                sent = await self._send_fds(data, fds) if fds else 0
                await self.loop.sock_sendall(self._ours, data[sent:])
        except TimeoutError:
            self._give_up()
            raise BoxFailure("the sandbox no longer reads messages") from None
        except OSError as e:
            raise BoxFailure(f"the sandbox has ended ({e.strerror})") from e

    async def _send_fds(self, data: memoryview, fds: Sequence[int]) -> int:
        while True:
            try:
                return socket.send_fds(self._ours, [data], list(fds))
            except BlockingIOError:  # many runs begin at once
                await asyncio.sleep(0.005)
