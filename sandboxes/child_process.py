"""
Processes that an event loop reads and writes, and that end with it.

With asyncio's own subprocesses, a loop that closes while one starts, as after a second Ctrl-C, waits for ever: it
cancels the task that connects their pipes, and an end is only told once all of these were connected.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, Protocol, cast

_LOOK = 0.002, 0.05
"""Seconds between two looks whether it has ended: at first, and at most."""


class Child(Protocol):
    """A process, by the words of asyncio's."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    @property
    def stderr(self) -> asyncio.StreamReader | None: ...
    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...

    def close(self) -> None:
        """Close its pipes; what nobody has read of them is lost. Safe twice."""


async def start(command: Sequence[str], *, limit: int = 1 << 16, **options: Any) -> Child:
    """
    Start a process; `options` are those of `subprocess.Popen`, and -1 is a pipe. `limit` bounds what waits to be read.

    If it is cancelled, no process is left. Raises OSError.
    """
    if os.name == "posix":
        return await adopted(subprocess.Popen(command, **options), limit, group=options.get("start_new_session", False))
    return cast("Child", _OfLoop(await asyncio.create_subprocess_exec(*command, limit=limit, **options)))


async def adopted(process: subprocess.Popen[bytes], limit: int, *, group: bool = False) -> Child:
    """A process that `subprocess` has started, with its pipes in the running loop; `group`: it leads a group."""
    loop, read, writer = asyncio.get_running_loop(), [], None
    try:
        for pipe in (process.stdout, process.stderr):
            read.append(None if pipe is None else await _reader(pipe, limit))
        if process.stdin is not None:
            unread = asyncio.StreamReader()
            ways = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unread), process.stdin)
            writer = asyncio.StreamWriter(*ways, None, loop)
    except BaseException:
        for each in filter(None, read):
            each[1].close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        process.wait()
        for end in filter(None, (process.stdin, process.stdout, process.stderr)):
            end.close()
        raise
    return _Adopted(process, writer, read)


async def _reader(pipe: IO[bytes], limit: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(limit)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport


class _Adopted:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: asyncio.StreamWriter | None,
        read: list[tuple[asyncio.StreamReader, asyncio.BaseTransport] | None],
    ) -> None:
        self._process, self._read = process, read
        self.pid, self.stdin = process.pid, stdin
        self.stdout, self.stderr = (None if one is None else one[0] for one in read)

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int:
        pause, most = _LOOK
        while (code := self._process.poll()) is None:  # not in a thread: there may be no room for one
            await asyncio.sleep(pause)
            pause = min(most, pause * 1.5)
        return code

    def close(self) -> None:
        if self.stdin is not None:
            self.stdin.close()
        for each in filter(None, self._read):
            each[1].close()


class _OfLoop:
    """A process that the event loop has started, where pipes cannot be given to a loop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
