"""MCP on standard input and output. Nothing else is ever written there."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, BinaryIO, cast

import anyio
from anyio import to_thread
from mcp_types import JSONRPCError

from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from runner.server.mcp.messages import refusal, too_long
from runner.server.mcp.server import make_server
from runner.server.service.service import Service

LONGEST = 16 << 20
"""Bytes of one message; a longer one is refused, and never held."""
_ENDS = 8192
"""Bytes that are kept of both its ends."""


class _Lines:
    """The messages that come, each of a bounded length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.reply: Callable[[SessionMessage], Awaitable[None]] | None = None
        """To be set: sends the reply to what the library would leave unanswered."""

    async def __aiter__(self) -> AsyncIterator[str]:
        first = last = b""
        while line := await to_thread.run_sync(self._file.readline, LONGEST, abandon_on_cancel=True):
            if not first and (line.endswith(b"\n") or len(line) < LONGEST):
                if (refused := refusal(line)) is None:
                    yield line.decode()
                else:
                    await self._answer(refused)
                continue
            first, last = first or line[:_ENDS], (last + line)[-_ENDS:]
            if line.endswith(b"\n"):
                await self._answer(too_long(LONGEST, first, last))
                first = last = b""

    async def _answer(self, refused: JSONRPCError) -> None:
        if self.reply is not None:
            await self.reply(SessionMessage(refused))


async def serve(service: Service) -> None:
    """Serve a service, which is opened and closed here, until standard input ends."""
    server = make_server(lambda: service)
    lines = _Lines(_taken_input())
    async with service, stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as streams:
        lines.reply = streams[1].send
        core: Any = server._lowlevel_server
        await core.run(*streams, core.create_initialization_options())


def _taken_input() -> BinaryIO:
    """Standard input, which nothing else can read from then on: no script's process is to wait there for a message."""
    own = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return os.fdopen(own, "rb")
