"""Lanes, each of which runs one batch at a time in a worker process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from sandboxes.cache import identity
from sandboxes.errors import SandboxError, SandboxLostError
from sandboxes.guest.supervisor import shortage
from sandboxes.host.shield import begin, finish, wait_for
from sandboxes.raw import Raw
from sandboxes.wasm import frames, worker_process
from sandboxes.wasm.frames import Bounds, Request
from sandboxes.wasm.native_code import NativeCode
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.wall import Tier
from sandboxes.wasm.wall_report import read_wall
from sandboxes.wasm.worker_process import WasmProcess

GRACE = 10.0
"""Seconds after a call's deadline at which a silent worker is given up."""

_END = 5.0  # seconds for a killed worker to end
_KEPT = 50 << 20  # bytes per second of a loaded script's memory that a slow machine can store


class Lane:
    """Runs one job at a time in a worker process, which is started again after it died."""

    def __init__(self, reset: Reset, tier: Tier | None = None) -> None:
        self.programs: set[int] = set()
        """The programs loaded here; after a restart a lane has none."""
        self.worked = False
        """Whether a program was ever loaded here."""
        self.tier = tier
        """The tier of the wall around its process. None: the strongest that works."""
        self.wall: dict[str, Any] = {}
        """What stands around its process, once that has told it."""
        self._reset: Reset = reset
        self._code: NativeCode | None = None
        self._process: WasmProcess | None = None
        self._replies: frames.Replies | None = None
        """None, until its process has told what stands around it."""
        self._ending: asyncio.Task[str] | None = None
        self._shortage = shortage.Shortage()
        self._unread = asyncio.Event()
        """Set while nobody reads what the process says."""
        self._unread.set()

    @property
    def begun(self) -> bool:
        """Whether it need not be started."""
        return self._process is not None

    async def start(self) -> WasmProcess:
        """Start the process. Must not be cancelled: nobody would stop a process that is being started."""
        if self._process is None:
            try:
                self._process = await worker_process.start(self._reset)
            except OSError as e:
                why = shortage.why(e) or f"{sys.executable}: {e.strerror}"
                raise SandboxLostError(f"a wasm worker process cannot be started: {why}") from e
            shortage.first_to_go(self._process.pid)
            assert self._process.stdout
            self._replies, self.wall = frames.Replies(self._process.stdout), {}
            self._open()
        return self._process

    def serve(self, code: NativeCode) -> None:
        """Set what it loads, now and at each restart. It may be running already, as its imports are slow."""
        self._code = code
        self._open()

    def _open(self) -> None:
        if self._code and self._process and self._process.stdin:
            paths = {part: [str(path), identity(path)] for part, path in self._code._asdict().items()}
            with contextlib.suppress(OSError):  # it has died, which its next caller will notice
                self._process.stdin.write(frames.pack({"do": "open", "tier": self.tier, **paths}))

    async def greet(self, seconds: float) -> None:
        """Wait so many seconds until its process tells what stands around it. If it fails, its next use says so."""
        with contextlib.suppress(TimeoutError, EOFError, OSError):
            async with asyncio.timeout(seconds):
                await self._greet()

    async def _greet(self) -> None:
        assert self._replies
        if not self.wall:
            (told, *_) = await self._more([-1], 0)
            self.wall = read_wall(told.payload)

    async def _more(self, calls: Sequence[int], longest: int) -> list[Raw]:
        """The next results. Raises EOFError and OSError if it has died."""
        assert self._replies
        while not (raws := self._replies.take(calls, longest)):
            self._unread.clear()
            try:
                await self._replies.more()
            finally:
                self._unread.set()
        return raws

    async def _ask(self, header: dict[str, Any], payload: bytes, calls: Sequence[int]) -> AsyncGenerator[Sequence[Raw]]:
        process = await finish(self.start) if self._process is None else self._process
        assert process.stdin
        timeout, memory, longest, _ = header["bounds"]
        patience = timeout + GRACE + memory / _KEPT
        finished = False
        try:
            process.stdin.write(frames.pack(header, payload))
            async with asyncio.timeout(patience):  # one that does not start reads nothing
                await process.stdin.drain()
            while not finished:
                async with asyncio.timeout(patience):
                    await self._greet()
                    raws = await self._more(calls, longest)
                calls = calls[len(raws) :]
                finished = not calls
                if raws[0].how == frames.FAILED_RESULT:
                    finished = True
                    raise SandboxError(raws[0].payload.decode())
                yield raws
        except (OSError, EOFError) as e:  # OSError: TimeoutError and a broken pipe too
            reason = await self._kill()
            if why := self._shortage.since(killed=True) or shortage.why_said(reason):
                raise SandboxLostError(why) from e
            if isinstance(e, TimeoutError):  # we have ended it
                raise SandboxLostError(
                    f"a wasm worker process did not answer within {patience:.0f} s; the call may be run again"
                ) from e
            if isinstance(e, frames.BadReplyError):
                raise SandboxLostError(f"a wasm worker process was ended: {e}; the call may be run again") from e
            raise SandboxLostError(f"a wasm worker process died ({reason or e}); the call may be run again") from e
        finally:
            if not finished:
                await self._kill()

    async def _kill(self) -> str:
        """End the process, and wait for that; its last line of output."""
        self.programs.clear()
        if (process := self._process) is None:
            return ""
        self._ending = self._ending or begin(lambda: self._end(process))
        return await wait_for(self._ending)

    async def _end(self, process: WasmProcess) -> str:
        process.kill()
        said = b""
        with contextlib.suppress(TimeoutError):  # do not wait for other processes that hold its pipes
            async with asyncio.timeout(_END):
                await self._unread.wait()  # a run that waits for a result finds that there is none
                said = await process.last_words()
        self._process = self._ending = None
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else f"exit status {process.returncode}"

    async def load(self, program: int, text: bytes, bounds: Bounds) -> Raw:
        """Load a script. Raises SandboxError."""
        header = {"do": "load", "program": program, "bounds": list(bounds)}
        async with contextlib.aclosing(self._ask(header, text, [-1])) as told:
            (raw,) = await anext(told)
            await anext(told, None)
        self.programs.add(program)
        self.worked = True
        return raw

    def run(self, program: int, requests: list[Request], bounds: Bounds, shared: bool) -> AsyncGenerator[Sequence[Raw]]:
        """Return one Raw for each request, in groups. Closing it early stops what runs. Raises SandboxLostError."""
        calls = [(r.random, len(r.text)) for r in requests]
        header = {"do": "run", "program": program, "bounds": list(bounds), "shared": shared, "calls": calls}
        return self._ask(header, b"".join([r.text for r in requests]), [r.call for r in requests])

    async def forget(self, program: int) -> None:
        self.programs.discard(program)
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.write(frames.pack({"do": "forget", "program": program}))

    async def close(self) -> None:
        await self._kill()
