"""The host's end of the socket to a box: messages out, and in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

from sandboxes.errors import SandboxLostError
from sandboxes.guest import wire
from sandboxes.guest.supervisor.inbox import Inbox

_PATIENCE = 10.0
"""Seconds in which a box takes what is said to it."""

Message = tuple[dict[str, Any], bytes]


class Channel(Inbox):
    """One socket. `event` is set whenever something has come, or the other side has gone."""

    def __init__(self, event: asyncio.Event) -> None:
        ours, self.theirs = socket.socketpair()
        self._loop = asyncio.get_running_loop()
        self._event = event
        super().__init__(ours, self._loop, event.set)

    async def say(self, message: dict[str, Any], parts: Sequence[bytes] = (), fds: Sequence[int] = ()) -> None:
        """Raises SandboxLostError when the box does not take it."""
        data = memoryview(wire.pack(message, parts))
        try:
            async with asyncio.timeout(_PATIENCE):
                sent = socket.send_fds(self._ours, [data], list(fds)) if fds else 0
                await self._loop.sock_sendall(self._ours, data[sent:])
        except TimeoutError:
            self._give_up()
            raise SandboxLostError("the process sandbox does not listen any more") from None
        except OSError as e:
            raise SandboxLostError(f"the process sandbox has ended ({e.strerror})") from e

    async def heard(self, until: float) -> Message:
        """The next message; waits for it. Raises TimeoutError, and SandboxLostError when the box has ended."""
        while True:
            if (found := self.message()) is not None:
                return found
            if self.gone:
                raise SandboxLostError("the process sandbox has ended")
            if self._loop.time() > until:
                raise TimeoutError
            await self.pause(until)

    async def pause(self, until: float) -> None:
        """Until something happens, or the time has come."""
        timer = self._loop.call_at(until, self._event.set)
        try:
            await self._event.wait()
        finally:
            timer.cancel()
            self._event.clear()
