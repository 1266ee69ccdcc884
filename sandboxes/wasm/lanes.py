"""Lanes, each of which runs one batch at a time: on a thread of this process, or in a worker process."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from sandboxes.errors import SandboxError, SandboxLostError
from sandboxes.guest.supervisor import shortage
from sandboxes.raw import Raw
from sandboxes.shield import begin, finish, wait_for
from sandboxes.wasm import frames, worker_process
from sandboxes.wasm.frames import LINGER, Bounds, Request
from sandboxes.wasm.native_code import NativeCode
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.worker_process import WorkerProcess

if TYPE_CHECKING:  # they import wasmtime, which is slow and which only a lane in this process needs
    from sandboxes.wasm.guests import Guests

GRACE = 10.0
"""Seconds after a call's deadline at which a silent worker is given up."""

_END = 5.0  # seconds for a killed worker to end
_KEPT = 50 << 20  # bytes per second of a loaded script's memory that a slow machine can store


class Lane(ABC):
    """Runs one job at a time."""

    def __init__(self) -> None:
        self.programs: set[int] = set()
        """The programs loaded here; after a restart a lane has none."""
        self.worked = False
        """Whether a program was ever loaded here."""

    @property
    def begun(self) -> bool:
        """Whether it need not be started."""
        return True

    @abstractmethod
    async def load(self, program: int, text: bytes, bounds: Bounds) -> Raw:
        """Load a script. Raises SandboxError."""

    @abstractmethod
    def run(self, program: int, requests: list[Request], bounds: Bounds, shared: bool) -> AsyncGenerator[Sequence[Raw]]:
        """One Raw for each request, in groups. Closing it early stops what runs. Raises SandboxLostError."""

    @abstractmethod
    async def forget(self, program: int) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...


class ThreadLane(Lane):
    """A lane in this process. The guest runs on a thread of its own, whose stack is large enough."""

    def __init__(self, code: NativeCode, reset: Reset) -> None:
        super().__init__()
        self._running = threading.Event()
        """Set to stop the last job."""
        self._work: queue.SimpleQueue[Callable[[Guests | SandboxError], None] | None] = queue.SimpleQueue()
        self._thread = _thread_with_stack(self._serve, code, reset)

    def _serve(self, code: NativeCode, reset: Reset) -> None:
        from sandboxes.wasm.engine import Engine
        from sandboxes.wasm.guests import Guests

        with contextlib.ExitStack() as stack:
            try:
                engine = stack.enter_context(Engine(*code))
                guests: Guests | SandboxError = Guests(engine, reset)
            except Exception as e:  # each job raises it, or its caller would wait for ever
                guests = e if isinstance(e, SandboxError) else SandboxError(f"the guest cannot be started: {e}")
            while (job := self._work.get()) is not None:
                job(guests)
            if isinstance(guests, Guests):
                guests.close()

    async def _each(self, step: Callable[[Guests], Iterator[Raw]]) -> AsyncGenerator[Sequence[Raw]]:
        loop = asyncio.get_running_loop()
        got: asyncio.Queue[list[Raw] | BaseException | None] = asyncio.Queue()
        stop = self._running = threading.Event()

        def job(guests: Guests | SandboxError) -> None:
            end: BaseException | None = None
            told, raws = monotonic(), list[Raw]()
            try:
                if isinstance(guests, SandboxError):
                    raise guests
                guests.cancelled = stop.is_set
                for raw in step(guests):
                    raws.append(raw)
                    if stop.is_set():
                        break
                    if monotonic() - told > LINGER:  # the loop's thread is not woken for each: that costs half a call
                        loop.call_soon_threadsafe(got.put_nowait, raws)
                        told, raws = monotonic(), []
            except BaseException as e:
                end = e
            with contextlib.suppress(RuntimeError):  # the loop was closed without waiting for us
                if raws:
                    loop.call_soon_threadsafe(got.put_nowait, raws)
                loop.call_soon_threadsafe(got.put_nowait, end)

        self._work.put(job)
        done = False

        async def ends() -> None:
            nonlocal done
            while not done:
                done = not isinstance(await got.get(), list)

        try:
            while not done:
                item = await got.get()
                if isinstance(item, list):
                    yield item
                else:
                    done = True
                    if item is not None:
                        raise item
        finally:
            stop.set()  # ends a running call within a tick; the next job waits for the thread
            if not done:
                await finish(ends)

    async def load(self, program: int, text: bytes, bounds: Bounds) -> Raw:
        async with contextlib.aclosing(self._each(lambda g: iter((g.load(program, text, bounds),)))) as told:
            (raw,) = await anext(told)
            await anext(told, None)
        self.programs.add(program)
        self.worked = True
        return raw

    def run(self, program: int, requests: list[Request], bounds: Bounds, shared: bool) -> AsyncGenerator[Sequence[Raw]]:
        return self._each(lambda g: g.run(program, requests, bounds, shared))

    async def forget(self, program: int) -> None:
        self.programs.discard(program)
        self._work.put(lambda guests: None if isinstance(guests, SandboxError) else guests.forget(program))

    async def close(self) -> None:
        self._running.set()
        self._work.put(None)
        await finish(lambda: asyncio.to_thread(self._thread.join))


class ProcessLane(Lane):
    """A lane in a worker process, which is started again after it died."""

    def __init__(self, reset: Reset) -> None:
        super().__init__()
        self._reset: Reset = reset
        self._code: NativeCode | None = None
        self._process: WorkerProcess | None = None
        self._ending: asyncio.Task[str] | None = None
        self._shortage = shortage.Shortage()

    @property
    def begun(self) -> bool:
        return self._process is not None

    async def start(self) -> WorkerProcess:
        """Start the process. Must not be cancelled: nobody would stop a process that is being started."""
        if self._process is None:
            try:
                self._process = await worker_process.start(self._reset)
            except OSError as e:
                why = shortage.why(e) or f"{sys.executable}: {e.strerror}"
                raise SandboxLostError(f"a wasm worker process cannot be started: {why}") from e
            shortage.first_to_go(self._process.pid)
            self._open()
        return self._process

    def serve(self, code: NativeCode) -> None:
        """Set what it loads, now and at each restart. It may be running already, as its imports are slow."""
        self._code = code
        self._open()

    def _open(self) -> None:
        if self._code and self._process and self._process.stdin:
            paths = {part: str(path) for part, path in self._code._asdict().items()}
            with contextlib.suppress(OSError):  # it has died, which its next caller will notice
                self._process.stdin.write(frames.pack({"do": "open", **paths}))

    async def _ask(self, header: dict[str, Any], payload: bytes, calls: Sequence[int]) -> AsyncGenerator[Sequence[Raw]]:
        process = await finish(self.start) if self._process is None else self._process
        assert process.stdin
        assert process.stdout
        timeout, memory, *_ = header["bounds"]
        patience = timeout + GRACE + memory / _KEPT
        finished = False
        try:
            process.stdin.write(frames.pack(header, payload))
            await process.stdin.drain()
            replies = frames.Replies(process.stdout)
            while not finished:
                async with asyncio.timeout(patience):
                    while not (raws := replies.take(calls)):
                        await replies.more()
                calls = calls[len(raws) :]
                finished = not calls
                if raws[0].how == frames.FAILED:
                    finished = True
                    raise SandboxError(raws[0].payload.decode())
                yield raws
        except (OSError, EOFError) as e:  # OSError: TimeoutError and a broken pipe too
            reason = await self._kill()
            if why := self._shortage.since(killed=True):
                raise SandboxLostError(why) from e
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

    async def _end(self, process: WorkerProcess) -> str:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        said = b""
        with contextlib.suppress(TimeoutError):  # do not wait for other processes that hold its pipes
            async with asyncio.timeout(_END):
                _, said = await process.communicate()
        self._process = self._ending = None
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else f"exit status {process.returncode}"

    async def load(self, program: int, text: bytes, bounds: Bounds) -> Raw:
        header = {"do": "load", "program": program, "bounds": list(bounds)}
        async with contextlib.aclosing(self._ask(header, text, [-1])) as told:
            (raw,) = await anext(told)
            await anext(told, None)
        self.programs.add(program)
        self.worked = True
        return raw

    def run(self, program: int, requests: list[Request], bounds: Bounds, shared: bool) -> AsyncGenerator[Sequence[Raw]]:
        calls = [(r.random, len(r.text)) for r in requests]
        header = {"do": "run", "program": program, "bounds": list(bounds), "shared": shared, "calls": calls}
        return self._ask(header, b"".join(r.text for r in requests), [r.call for r in requests])

    async def forget(self, program: int) -> None:
        self.programs.discard(program)
        if self._process and self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.write(frames.pack({"do": "forget", "program": program}))

    async def close(self) -> None:
        await self._kill()


_stack_size = threading.Lock()


def _thread_with_stack(target: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Start a daemon thread with THREAD_STACK bytes of stack, leaving the size for other threads as it was."""
    from sandboxes.wasm.engine import THREAD_STACK

    with _stack_size:
        before = threading.stack_size(THREAD_STACK)
        try:
            thread = threading.Thread(target=target, args=arguments, name="evalcell-guest", daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    return thread
