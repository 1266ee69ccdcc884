"""HTTP connections that bound how slowly a client may send the headers of a request, and take a reply."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""From the first byte of a request, or from the beginning of a connection, to the end of its headers."""
HEADER_BYTES = 32 * 1024
STUCK_SECONDS = 60.0
"""For which a client may take nothing of a reply."""


class HttpProtocol(H11Protocol):
    """Ends a connection whose headers do not come to their end in time, or whose client takes nothing."""

    seconds = HEADER_SECONDS
    stuck_seconds = STUCK_SECONDS

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._rest()
        self._flows()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Called when the client does not take what is sent."""
        super().pause_writing()
        self._stuck = self._stuck or self.loop.call_later(self.stuck_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Called when it takes it again."""
        self._flows()
        super().resume_writing()

    def handle_events(self) -> None:
        """Called with what came."""
        super().handle_events()
        # One that waits for the next request is ended by uvicorn, later than clients of HTTP think of using it again:
        # a request that comes in that moment would be answered with a reset.
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._watch()  # a part of the headers
        else:
            self._rest()

    def _watch(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.seconds, self._end)

    def _rest(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _flows(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _end(self) -> None:
        self._late = None
        if self.transport is not None and not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self.transport.abort()
