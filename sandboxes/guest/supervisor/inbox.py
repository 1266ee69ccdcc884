"""
Messages from a box over a socket; the sender may be the script by now.

Also sent to providers' machines, where there is no asyncio.
"""

from __future__ import annotations

import contextlib
import socket

from .. import wire

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .pipes import Loop

_CHUNK = 1 << 18


class Inbox:
    """One socket. `wake` is called when something has arrived, or the other side has closed."""

    def __init__(self, ours: socket.socket, loop: Loop, wake: Callable[[], Any]) -> None:
        self._ours = ours
        self._ours.setblocking(False)
        self._readers = loop
        self._wake = wake
        self._inbox = bytearray()
        self.longest = 1 << 16
        """Most bytes of a message, besides its head."""
        self._gone = False
        self.spoilt = False
        """It has sent an invalid message."""
        loop.add_reader(ours.fileno(), self._readable)

    @property
    def gone(self) -> bool:
        """Whether nothing more will come: the box has ended, or has sent an invalid message."""
        return self._gone

    def message(self) -> tuple[dict[str, Any], bytes] | None:
        """Return the next message that has arrived, with its parts in one."""
        try:
            return wire.first(self._inbox, self.longest)
        except (ValueError, RecursionError):
            self.spoilt = True
            self._give_up()
            return None

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
        self._wake()

    def _give_up(self) -> None:
        if not self._gone:
            self._readers.remove_reader(self._ours.fileno())
            self._gone = True

    def hang_up(self) -> None:
        """Close the socket. Safe twice."""
        self._give_up()
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)  # closing has no effect while a child that we forked holds it
        self._ours.close()
