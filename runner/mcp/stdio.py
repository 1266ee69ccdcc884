"""MCP on standard input and output. Nothing else is ever written there."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, BinaryIO, cast

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic_core import from_json

from runner.mcp.server import make_server
from runner.service.service import Service
from runner.text import printable

LONGEST = 16 << 20
"""Bytes of one message; a longer one is left out, and never held."""


class _Lines:
    """The messages that come, each of a bounded length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.reply: Callable[[SessionMessage], Awaitable[None]] | None = None
        """To be set: sends the reply to what is no JSON, which the library would leave unanswered."""

    async def __aiter__(self) -> AsyncIterator[str]:
        whole = True
        while line := await to_thread.run_sync(self._file.readline, LONGEST, abandon_on_cancel=True):
            ended = line.endswith(b"\n")
            if whole and (ended or len(line) < LONGEST):
                text = line.decode("utf-8", "replace")
                if (refused := _refused(text)) is None:
                    yield text
                elif self.reply is not None:
                    await self.reply(refused)
            elif whole:
                logging.getLogger("evalcell.mcp").error("a message of more than %d MB was left out", LONGEST >> 20)
            whole = ended


def _refused(text: str) -> SessionMessage | None:
    """The reply to a message that is no JSON by RFC 8259."""
    try:
        from_json(text)
        return None
    except ValueError as error:
        why, id = f"the message is no JSON ({printable(str(error), 120)})", None
    try:
        found = json.loads(text)
        why = "half of a surrogate pair is no character; write both halves, or none"
        id = found.get("id")
    except (ValueError, AttributeError, RecursionError):
        pass
    id = id if isinstance(id, int | str) and not isinstance(id, bool) else None
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=PARSE_ERROR, message=why)))


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
