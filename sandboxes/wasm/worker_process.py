"""Worker processes as an event loop sees them: started by it, or begun before there was one."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import IO, Protocol

from sandboxes.wasm import early
from sandboxes.wasm.reset import Reset

_LIMIT = 1 << 22  # bytes that may wait to be read
_LOOK = 0.002  # seconds between two looks whether it has ended
_TAIL = 4096  # bytes of what it says that are kept


class WorkerProcess(Protocol):
    """What a lane needs of asyncio's `Process`."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    @property
    def returncode(self) -> int | None: ...

    def kill(self) -> None: ...

    async def communicate(self) -> tuple[bytes, bytes]: ...


async def start(reset: Reset) -> WorkerProcess:
    """
    A worker that was begun early, else a new one. If it is cancelled, none is left. Raises OSError.

    With asyncio's own subprocesses, a loop that closes while one starts, as after a second Ctrl-C, waits for ever: it
    cancels the task that connects their pipes, and an end is only told once all of these were connected.
    """
    if (begun := early.take(reset)) is not None:
        return await _Adopted.open(begun)
    with early.command(reset) as (words, passed):
        if os.name == "posix":
            return await _Adopted.open(subprocess.Popen(words, stdin=-1, stdout=-1, stderr=-1, pass_fds=passed))
        return _Started(await asyncio.create_subprocess_exec(*words, stdin=-1, stdout=-1, stderr=-1, limit=_LIMIT))


async def _tail(stream: asyncio.StreamReader) -> bytes:
    """The end of what it says. Who says much, such as a log of others, is read at once, as it would wait otherwise."""
    kept = b""
    while chunk := await stream.read(_TAIL):
        kept = (kept + chunk)[-_TAIL:]
    return kept


async def _told(tail: asyncio.Task[bytes]) -> bytes:
    """What `_tail` has kept, once there is no more; nothing if the end of the loop has cancelled it."""
    await asyncio.wait({tail})
    return b"" if tail.cancelled() or tail.exception() else tail.result()


class _Started:
    """A process that the event loop has started, where pipes cannot be given to a loop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr
        self._process = process
        self.pid, self.stdin, self.stdout = process.pid, process.stdin, process.stdout
        self._said = asyncio.create_task(_tail(process.stderr))

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()

    async def communicate(self) -> tuple[bytes, bytes]:
        assert self.stdout
        said, _ = await asyncio.gather(_told(self._said), self.stdout.read())
        await self._process.wait()
        return b"", said


class _Adopted:
    """A process that `subprocess` has started, with its pipes in the running loop."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: asyncio.StreamWriter,
        read: list[tuple[asyncio.StreamReader, asyncio.BaseTransport]],
    ) -> None:
        self._process = process
        self.pid = process.pid
        self.stdin = stdin
        (self.stdout, _), (stderr, _) = self._read = read
        self._said = asyncio.create_task(_tail(stderr))

    @classmethod
    async def open(cls, process: subprocess.Popen[bytes]) -> _Adopted:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        read: list[tuple[asyncio.StreamReader, asyncio.BaseTransport]] = []
        loop, unread = asyncio.get_running_loop(), asyncio.StreamReader()
        try:
            for pipe in (process.stdout, process.stderr):
                read.append(await _reader(pipe))
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(unread), process.stdin
            )
        except BaseException:
            for _, each in read:
                each.close()
            process.kill()
            process.wait()
            for end in (process.stdin, process.stdout, process.stderr):
                end.close()
            raise
        return cls(process, asyncio.StreamWriter(transport, protocol, None, loop), read)

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()

    async def communicate(self) -> tuple[bytes, bytes]:
        """What it still says, once it has ended. Its pipes are closed then, even if this is cancelled."""
        try:
            _, said = await asyncio.gather(self.stdout.read(), _told(self._said))
        finally:
            self.stdin.close()
            for _, transport in self._read:
                transport.close()
            while self._process.poll() is None:  # not in a thread: there may be no room for one
                await asyncio.sleep(_LOOK)
        return b"", said


async def _reader(pipe: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader(_LIMIT)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader, transport
