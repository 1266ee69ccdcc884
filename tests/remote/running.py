"""A program that runs in a test machine, and its pipes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from asyncio.streams import FlowControlMixin
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

_LIMIT = 64 * 1024

Ask: TypeAlias = Callable[..., Awaitable[Any]]
"""Asks the machine's agent; see `Machine.ask`."""


class Process:
    """A program that runs, or ran, in a machine."""

    def __init__(
        self,
        ask: Ask,
        pid: int,
        ended: asyncio.Future[int],
        reading: Sequence[asyncio.StreamReader],
        stdin: asyncio.StreamWriter | None,
    ) -> None:
        self.pid = pid
        """As the machine counts."""
        self.stdout, self.stderr = reading
        """Each holds back the program when 64 KB wait in it."""
        self._ask = ask
        self._ended = ended
        self._stdin = stdin

    @property
    def ended(self) -> bool:
        return self._ended.done()

    async def write(self, data: bytes) -> None:
        """Waits until the program reads. Raises BrokenPipeError when nobody will."""
        if self._stdin is None or self._stdin.is_closing():
            raise BrokenPipeError(errno.EPIPE, "the program's standard input is closed")
        try:
            self._stdin.write(data)
            await self._stdin.drain()
        except ConnectionError as e:
            raise BrokenPipeError(errno.EPIPE, "the program closed its standard input") from e

    async def close_stdin(self) -> None:
        if self._stdin is not None:
            self._stdin.close()

    async def wait(self) -> int:
        """The exit code; 128 + n for signal n. Raises MachineGone where the machine ended first."""
        return await asyncio.shield(self._ended)

    async def kill(self, number: int = signal.SIGKILL, *, group: bool = False) -> None:
        """`group`: all that it started and that did not leave its group. Raises ProcessLookupError."""
        await self._ask("kill", pid=self.pid, number=number, group=group)


async def reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """Owns the descriptor."""
    made = asyncio.StreamReader(limit=_LIMIT)
    protocol = asyncio.StreamReaderProtocol(made)
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
    return made, transport


async def writer(descriptor: int) -> tuple[asyncio.StreamWriter, asyncio.BaseTransport]:
    """Owns the descriptor."""
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "wb", buffering=0)
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, file)
    return asyncio.StreamWriter(transport, protocol, None, loop), transport
