"""MCP on standard input and output. Nothing else is ever written there."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, BinaryIO, cast

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server

from runner.mcp.server import make_server
from runner.service.service import Service

LONGEST = 16 << 20
"""Bytes of one message; a longer one is left out, and never held."""


class _Lines:
    """The messages that come, each of a bounded length."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    async def __aiter__(self) -> AsyncIterator[str]:
        whole = True
        while line := await to_thread.run_sync(self._file.readline, LONGEST, abandon_on_cancel=True):
            ended = line.endswith(b"\n")
            if whole and (ended or len(line) < LONGEST):
                yield line.decode("utf-8", "replace")
            elif whole:
                logging.getLogger("evalcell.mcp").error("a message of more than %d MB was left out", LONGEST >> 20)
            whole = ended


async def serve(service: Service) -> None:
    """Serve a service, which is opened and closed here, until standard input ends."""
    server = make_server(lambda: service)
    lines = _Lines(_taken_input())
    async with service, stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as streams:
        core: Any = server._lowlevel_server
        await core.run(*streams, core.create_initialization_options())


def _taken_input() -> BinaryIO:
    """Standard input, which nothing else can read from then on: no script's process is to wait there for a message."""
    own = os.dup(sys.stdin.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return os.fdopen(own, "rb")
