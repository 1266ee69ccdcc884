"""Wait for descriptors and for time to pass: as much of an event loop as the agent needs, without importing asyncio."""

from __future__ import annotations

import contextlib
import select

from ..supervisor.clock import now

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Ports:
    """Calls back when a descriptor can be read or written, or its other side has closed."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], Any]] = {}
        self._writers: dict[int, Callable[[], Any]] = {}
        self._ends: dict[int, Callable[[], Any]] = {}

    def add_reader(self, fd: int, callback: Callable[[], Any]) -> None:
        self._readers[fd] = callback
        self._ask(fd)

    def remove_reader(self, fd: int) -> None:
        self._readers.pop(fd, None)
        self._ask(fd)

    def add_writer(self, fd: int, callback: Callable[[], Any]) -> None:
        self._writers[fd] = callback
        self._ask(fd)

    def remove_writer(self, fd: int) -> None:
        self._writers.pop(fd, None)
        self._ask(fd)

    def add_end(self, fd: int, callback: Callable[[], Any]) -> None:
        """Call back when the other end is closed."""
        self._ends[fd] = callback
        self._ask(fd)

    def _ask(self, fd: int) -> None:
        wanted = (select.POLLIN if fd in self._readers else 0) | (select.POLLOUT if fd in self._writers else 0)
        if wanted or fd in self._ends:
            self._poll.register(fd, wanted)
        else:
            with contextlib.suppress(KeyError):
                self._poll.unregister(fd)

    def wait(self, until: float) -> None:
        """Wait until something has happened or the time has come."""
        for fd, events in self._poll.poll(max(0, until - now()) * 1000):
            if events & _GONE and fd in self._ends:
                self._ends[fd]()
            if events & (select.POLLIN | _GONE) and fd in self._readers:
                self._readers[fd]()
            if events & (select.POLLOUT | _GONE) and fd in self._writers:
                self._writers[fd]()


def nothing() -> None:
    """Do nothing; for pipes that would wake somebody."""
