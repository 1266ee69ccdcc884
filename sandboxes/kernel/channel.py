"""The host's end of the socket to a box: messages out, messages in; whoever answers may be the script by now."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Any

from sandboxes.errors import SandboxLostError
from sandboxes.kernel.inside import wire

_PATIENCE = 10.0
"""Seconds in which a box takes what is said to it."""

_CHUNK = 1 << 18

Message = tuple[dict[str, Any], bytes]


class Channel:
    """One socket. `event` is set whenever something has come, or the other side has gone."""

    def __init__(self, event: asyncio.Event) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._event = event
        self._inbox = bytearray()
        self.longest = 1 << 16
        """Bytes that may come in one message, besides its head."""
        self.gone = False
        """Nothing more comes: the box has ended, or has said what is no message."""
        self.spoilt = False
        """It has said what is no message."""
        self._loop.add_reader(self._ours.fileno(), self._readable)

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

    def message(self) -> Message | None:
        """The next message that has come."""
        try:
            return wire.first(self._inbox, self.longest)
        except (ValueError, RecursionError, struct.error):
            self.spoilt = True
            self._give_up()
            return None

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

    def _readable(self) -> None:
        try:
            got = self._ours.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            got = b""
        self._inbox += got
        self.spoilt = len(self._inbox) > self.longest + 2 * _CHUNK
        if not got or self.spoilt:
            self._give_up()
        self._event.set()

    def _give_up(self) -> None:
        self._loop.remove_reader(self._ours.fileno())
        self.gone = True

    def close(self) -> None:
        """Safe twice."""
        if self._ours.fileno() >= 0:
            self._give_up()
            self._ours.close()
