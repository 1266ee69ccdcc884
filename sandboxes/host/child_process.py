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
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

_LOOK = 0.002, 0.05
"""Seconds between two looks whether it has ended: at first, and at most."""


class Child:
    """A process, by the words of asyncio's."""

    def __init__(
        self,
        process: subprocess.Popen[bytes] | asyncio.subprocess.Process,
        stdin: asyncio.StreamWriter | None,
        stdout: asyncio.StreamReader | None,
        stderr: asyncio.StreamReader | None,
        pipes: Sequence[asyncio.BaseTransport] = (),
    ) -> None:
        self._process, self._pipes = process, pipes
        self.pid, self.stdin, self.stdout, self.stderr = process.pid, stdin, stdout, stderr

    @property
    def returncode(self) -> int | None:
        return self._process.poll() if isinstance(self._process, subprocess.Popen) else self._process.returncode

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self) -> int:
        if not isinstance(self._process, subprocess.Popen):
            return await self._process.wait()
        pause, most = _LOOK
        while (code := self._process.poll()) is None:  # not in a thread: there may be no room for one
            await asyncio.sleep(pause)
            pause = min(most, pause * 1.5)
        return code

    def close(self) -> None:
        """Close its pipes; what nobody has read of them is lost. Safe twice."""
        if self.stdin is not None:
            self.stdin.close()
        for pipe in self._pipes:
            pipe.close()


async def start(command: Sequence[str], *, limit: int = 1 << 16, **options: Any) -> Child:
    """
    Start a process; `options` are those of `subprocess.Popen`, and -1 is a pipe. `limit` bounds what waits to be read.

    If it is cancelled, no process is left.

    Raises:
        OSError: The system refused.
    """
    if sys.platform == "win32":  # which has none
        options.pop("start_new_session", None)
    if os.name == "posix":
        return await adopt(subprocess.Popen(command, **options), limit, group=options.get("start_new_session", False))
    # Elsewhere pipes cannot be given to a loop.
    process = await asyncio.create_subprocess_exec(*command, limit=limit, **options)
    return Child(process, process.stdin, process.stdout, process.stderr)


async def adopt(process: subprocess.Popen[bytes], limit: int, *, group: bool = False) -> Child:
    """Return a process that `subprocess` has started, with its pipes in the running loop; `group`: it leads a group."""
    loop, pipes = asyncio.get_running_loop(), list[asyncio.BaseTransport]()

    async def reader(pipe: IO[bytes] | None) -> asyncio.StreamReader | None:
        if pipe is None:
            return None
        found = asyncio.StreamReader(limit)
        pipes.append((await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(found), pipe))[0])
        return found

    writer = None
    try:
        stdout, stderr = await reader(process.stdout), await reader(process.stderr)
        if process.stdin is not None:
            unread = asyncio.StreamReader()
            ways = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(unread), process.stdin)
            writer = asyncio.StreamWriter(*ways, None, loop)
    except BaseException:
        for each in pipes:
            each.close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        process.wait()
        for end in filter(None, (process.stdin, process.stdout, process.stderr)):
            end.close()
        raise
    return Child(process, writer, stdout, stderr, pipes)
