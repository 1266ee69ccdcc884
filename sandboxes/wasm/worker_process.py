"""Worker processes as an event loop sees them."""

from __future__ import annotations

import asyncio
import os

from sandboxes.host import child_process
from sandboxes.host.child_process import Child
from sandboxes.host.handle import own_handle
from sandboxes.host.own_python import module_command
from sandboxes.wasm.reset import Reset

_LIMIT = 1 << 22  # bytes that may wait to be read
_TAIL = 4096  # bytes of what it says that are kept


async def start(reset: Reset) -> WasmProcess:
    """Return a new worker. If it is cancelled, none is left. Raises OSError."""
    host = own_handle()
    passed = () if host is None else (host,)
    try:
        words = module_command("sandboxes.wasm.worker", reset, *map(str, passed))
        options = {"pass_fds": passed} if os.name == "posix" else {}
        return WasmProcess(await child_process.start(words, limit=_LIMIT, stdin=-1, stdout=-1, stderr=-1, **options))
    finally:
        for descriptor in passed:  # the worker has its own by now
            os.close(descriptor)


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


class WasmProcess:
    """A worker, of which the end of what it says is kept."""

    def __init__(self, process: Child) -> None:
        assert process.stderr
        self._process = process
        self.pid, self.stdin, self.stdout = process.pid, process.stdin, process.stdout
        self._said = asyncio.create_task(_tail(process.stderr))

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()

    async def last_words(self) -> bytes:
        """Return the end of what it says, once it has ended. Its pipes are closed then, even if this is cancelled."""
        assert self.stdout
        try:
            _, said = await asyncio.gather(self.stdout.read(), _told(self._said))
        finally:
            self._process.close()
            await self._process.wait()
        return said
