"""A worker process, as the process that serves sees it: started when it is needed, and again when it was lost."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from pydantic import ValidationError

from runner.core.doors import door
from runner.core.text import printable
from runner.runs.pool import frames
from runner.runs.pool.faults import error_of
from runner.runs.pool.frames import FrameError, PoolFrame
from runner.runs.pool.types import PoolClosedError, PoolStatus, WorkerLostError
from sandboxes.base import LOG
from sandboxes.guest.supervisor import shortage
from sandboxes.host.child_process import Child, start
from sandboxes.host.handle import own_handle
from sandboxes.host.own_python import module_command
from sandboxes.host.shield import begin, finish, wait_for

_MODULE = "runner.runs.pool.worker.serve"
_START = 120.0  # seconds to import what it needs, on a machine that is busy
_STOP = 10.0  # seconds in which a job must have stopped, or the worker is killed
_CLOSE = 15.0  # seconds in which a worker must have closed its sandboxes
_END = 2.0  # seconds from the end of its pipe to its own
_GLANCE = 0.25  # seconds between looks at what is held
_LINE = 4096  # bytes of a line of its log
_STATUS = 4096  # bytes of a worker's word on itself


class WorkerProcess:
    """
    One worker: started by the first request, and by the first after it was lost. `secret`: it has a provider's key.

    `alone`: nobody else says that it was lost. `budget` is a file's descriptor; see `budget.share_budget`.
    """

    def __init__(
        self,
        name: str,
        variables: Mapping[str, str],
        *,
        secret: bool = False,
        alone: bool = True,
        budget: int | None = None,
    ) -> None:
        self.name = name
        self._secret = secret
        self._budget = budget
        self._loss = logging.WARNING if alone else logging.INFO
        self.status = PoolStatus()
        self.restarts = 0
        self._variables = dict(variables)
        self._numbers = itertools.count(1)
        self._jobs: dict[int, Job] = {}
        self._holding = WeakSet[Job]()
        self._taken = asyncio.Event()
        self._process: Child | None = None
        self._starting: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._last: deque[str] = deque(maxlen=3)
        self._shortage = shortage.Shortage()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return None if self._process is None else self._process.pid

    async def submit(self, do: str, payload: bytes, *, ahead: int = 0, **about: int) -> Job:
        """
        Send a request, whose parts come `ahead` of being taken; what is said `about` it goes into the header.

        Raises WorkerLostError, PoolClosedError, and FrameError if it is too large.
        """
        await self.start()
        job = Job(next(self._numbers), ahead, self._taken)
        self._holding.add(job)
        self._jobs[job.number] = job
        try:
            await self._send({"do": do, "job": job.number, "door": door(), **about}, payload)
        except BaseException:  # it may be on its way, also if nobody waits for that any more
            self._jobs.pop(job.number, None)
            self._write({"do": "cancel", "job": job.number})
            raise
        return job

    async def tell(self, job: Job, do: str) -> None:
        """Say something about a job that goes on."""
        if not job.ended.is_set():
            with suppress(WorkerLostError):
                await self._send({"do": do, "job": job.number})

    async def stop(self, job: Job) -> None:
        """Stop a job's script, and wait until it is stopped. The worker is killed if it does not stop it soon."""
        await finish(lambda: self._stop(job))

    async def _stop(self, job: Job) -> None:
        await self.tell(job, "cancel")
        try:
            async with asyncio.timeout(_STOP):
                await job.ended.wait()
        except TimeoutError:
            LOG.warning("the worker %s did not stop a job within %g s, and is killed", self.name, _STOP)
            await self.kill()
            await job.ended.wait()

    async def close(self) -> None:
        """End the worker with everything in it. Safe twice."""
        self._closed = True
        if self._starting is not None:
            await asyncio.wait({self._starting})
        process, reading = self._process, self._reading
        if process is None or reading is None or process.stdin is None:
            return
        process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE):
                await asyncio.shield(reading)
        await self.kill()

    async def kill(self) -> None:
        """End the process at once, and wait for that."""
        process = self._process
        if process is not None:
            process.kill()
        if self._reading is not None:
            await asyncio.wait({self._reading})
        if process is not None and self._process is process:  # a closing loop cancelled the task before it began
            await process.wait()
            process.close()
            self._lost()

    async def start(self) -> None:
        """Start it, unless it runs. Raises WorkerLostError and PoolClosedError."""
        if self._closed:
            raise PoolClosedError
        if self._starting is None:
            self._starting = begin(self._start)
        starting = self._starting
        try:
            await wait_for(starting)
        except BaseException:
            if self._starting is starting:
                self._starting = None
            raise

    async def _start(self) -> None:
        if self._process is None:
            await self._spawn()
        assert self._reading is not None
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._reading}, timeout=_START, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if not self._ready.is_set():
            await self.kill()
            raise WorkerLostError(self._reason(), "a worker did not start")

    async def _spawn(self) -> None:
        host = own_handle()
        named = ["" if descriptor is None else str(descriptor) for descriptor in (host, self._budget)]
        try:
            self._process = await start(
                module_command(_MODULE, "secret" * self._secret, *named),
                stdin=-1,
                stdout=-1,
                stderr=-1,
                limit=1 << 20,
                pass_fds=[int(name) for name in named if name],
                env=self._variables,
            )
        except OSError as e:
            raise WorkerLostError(str(shortage.why(e) or e.strerror), "a worker cannot be started") from e
        finally:
            if host is not None:
                os.close(host)
        shortage.first_to_go(self._process.pid)
        self._ready.clear()
        self._last.clear()
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: Child) -> None:
        """Hand on what arrives, until the process has ended."""
        assert process.stdout is not None
        logging = asyncio.create_task(self._log(process))
        try:
            while True:
                self._take(await frames.read(process.stdout))
                await self._room(process)
        except (EOFError, OSError):
            with suppress(TimeoutError):  # it ends by itself, and to kill it in that moment confuses who waits for it
                await asyncio.wait_for(process.wait(), _END)
        except FrameError as e:
            LOG.error("the worker %s sent %s, and is killed", self.name, e)
        finally:
            process.kill()
            await process.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(logging, 1)
            process.close()
            self._lost()

    async def _room(self, process: Child) -> None:
        """Wait until there is room for another message: a worker that was taken over fills no memory here."""
        while process.returncode is None and sum(job.held for job in self._holding) > QUEUE_BYTES:
            self._taken.clear()
            with suppress(TimeoutError):  # a job that nobody has any more tells nothing
                await asyncio.wait_for(self._taken.wait(), _GLANCE)

    def _take(self, frame: PoolFrame) -> None:
        kind = frame.header.get("kind")
        if kind == "ready":
            self._ready.set()
        elif kind == "status":
            if len(frame.payload) > _STATUS:
                raise FrameError(f"a status of {len(frame.payload):,} bytes")
            with suppress(ValidationError):
                self.status = PoolStatus.model_validate_json(frame.payload)
        elif (job := self._jobs.get(frame.job)) is not None:
            if kind in FINAL:
                del self._jobs[frame.job]
            job.put(frame)

    def _lost(self) -> None:
        self._process, self._starting, self.status = None, None, PoolStatus()
        jobs, self._jobs = self._jobs, {}
        error: Exception
        if self._closed:
            error = PoolClosedError()
        else:
            self.restarts += self._ready.is_set()
            why = self._shortage.since(killed=True) or self._reason()
            LOG.log(self._loss, "the worker %s was lost: %s", self.name, why)
            error = WorkerLostError(why)
        self._ready.clear()
        for job in jobs.values():
            job.put(error)

    def _reason(self) -> str:
        return self._last[-1] if self._last else "it was killed, or died without a word"

    async def _log(self, process: Child) -> None:
        assert process.stderr is not None
        while line := await frames.read_line(process.stderr):
            said = printable(line.decode("utf-8", "replace").strip(), _LINE)
            if said:
                self._last.append(printable(said, 200))
                LOG.info("worker %s: %s", self.name, said)

    def _write(self, header: dict[str, Any]) -> None:
        """Send it without waiting; to a worker that has died, nothing."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(frames.pack(header))

    async def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise WorkerLostError(self._reason())
        try:
            process.stdin.write(frames.pack(header, payload))
            await process.stdin.drain()
        except OSError as e:
            raise WorkerLostError(str(e)) from e


QUEUE_BYTES = 64 << 20
"""Bytes of a worker's messages that wait or are worked on; with more, nothing is read. One more may be on its way."""
FINAL = ("done", "fault", "cancelled")


class Job:
    """One request to a worker, and what came back so far: `ahead` parts at most, and the last message."""

    def __init__(self, number: int, ahead: int = 0, taken: asyncio.Event | None = None) -> None:
        self.number = number
        self.ended = asyncio.Event()
        self.held = 0
        """Bytes of the messages that wait, and of the last one that was taken: somebody works on it."""
        self._working = 0
        self._taken = taken
        self._ahead = ahead
        self._frames: asyncio.Queue[PoolFrame | Exception] = asyncio.Queue()

    def put(self, item: PoolFrame | Exception) -> None:
        """Take what arrived. Raises FrameError for more parts than may wait here."""
        if isinstance(item, Exception) or item.header.get("kind") in FINAL:
            self.ended.set()
        elif self._frames.qsize() >= self._ahead:
            raise FrameError("more parts than it may send before they are taken")
        self.held += _size(item)
        self._frames.put_nowait(item)

    async def next(self) -> PoolFrame:
        """Return the next message. Raises what the job failed with, and WorkerLostError."""
        self.held -= self._working
        self._working = 0
        if self._taken is not None:
            self._taken.set()
        item = await self._frames.get()
        self._working = _size(item)
        if self.ended.is_set() and self._frames.empty():
            self.held = self._working = 0  # nobody asks for more
        if isinstance(item, Exception):
            raise item
        if item.header.get("kind") == "fault":
            raise error_of(item.payload)
        return item


def _size(item: PoolFrame | Exception) -> int:
    return 0 if isinstance(item, Exception) else len(item.payload)
