"""A worker's process: reads requests, runs each as a task, and ends with the process that serves."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from runner.core.doors import speaking
from runner.core.errors import InputError
from runner.core.types import Evaluator
from runner.runs.parts.work import PartWorker, pack_reply
from runner.runs.pool import frames
from runner.runs.pool.faults import Fault
from runner.runs.pool.frames import PoolFrame
from runner.runs.pool.types import AuditJob, PoolStatus, RunJob, RunSegment, RunStarted, VerifyJob
from runner.runs.pool.worker.dry_run import check_script, try_rows
from runner.runs.pool.worker.runs import RunTask
from runner.runs.pool.worker.warm import BYTES, Programs, Sandboxes
from sandboxes.base import LOG, SandboxConfig
from sandboxes.guest.supervisor import procfs
from sandboxes.host import event_loop
from sandboxes.json_text import writer
from sandboxes.judges.budget import share_budget

_PROGRESS = 0.2  # seconds between two words on how far a part is
_TICK = 1.0  # seconds between looks at what is idle
_GRACE = 5.0  # seconds in which everything must be closed when the process that serves has ended
_BUFFER = 1 << 20
_SHORT = 32 << 10
"""
Bytes of script and rows that may be read without a thread, which holds up the other jobs.

`score` does so only where no path looks at many places. What takes longest is then to look for names like that of a
column that the rows lack: about 0.05 s for so many bytes.
"""

_write = writer(ascii=True, compact=True, nan=False)


def main(requests: int, replies: int, secret: str, host: str = "", budget: str = "") -> None:
    """
    Serve until the requests end. `secret`: it has a provider's key.

    `host` is a handle on the one that serves; `budget` the file in which all workers count what judges are asked.
    """
    if secret and sys.platform == "linux":
        from sandboxes.guest.box.confine import closed_to_others  # here: it needs a Unix

        closed_to_others()
    # A Ctrl-C goes to the whole group, and a service's stop to all its processes: the one that serves decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    if budget:
        os.set_inheritable(int(budget), False)
        share_budget(int(budget))
    event_loop.run(_serve(requests, replies, int(host) if host else None))
    os._exit(0)  # no thread that hangs in a file may hold it up


async def _serve(requests: int, replies: int, host: int | None) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_BUFFER)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(requests, "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(replies, "wb"))
    worker = Worker(reader, asyncio.StreamWriter(transport, protocol, None, loop))
    if host is not None:
        threading.Thread(target=_watch, args=(host, loop, worker), daemon=True).start()
    await worker.serve()


def _watch(host: int, loop: asyncio.AbstractEventLoop, worker: Worker) -> None:
    watched = select.poll()
    watched.register(host, select.POLLIN)
    watched.poll()
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(worker.stop)
    time.sleep(_GRACE)
    os._exit(0)


class Worker:
    """Everything that one worker holds."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._programs = Programs(lambda: held_bytes(BYTES))
        self._sandboxes = Sandboxes(self._programs)
        self._parts = PartWorker()
        self._jobs: dict[int, asyncio.Task[None]] = {}
        self._runs: dict[int, RunTask] = {}
        self._stopped = asyncio.Event()
        self._status = PoolStatus()

    def stop(self) -> None:
        """End it, soon."""
        self._stopped.set()

    async def serve(self) -> None:
        """Serve until the pipe ends or `stop`; then stop everything, and return when nothing is left."""
        tasks = [asyncio.create_task(work) for work in (self._read(), self._tick(), self._stopped.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, *self._jobs.values()):
            task.cancel()
        await asyncio.gather(*tasks, *self._jobs.values(), return_exceptions=True)
        await self._parts.close()
        await self._sandboxes.close()

    async def _read(self) -> None:
        await self._send({"kind": "ready"})
        with suppress(EOFError):
            while True:
                self._take(await frames.read(self._reader))

    def _take(self, frame: PoolFrame) -> None:
        job, do = frame.job, frame.header["do"]
        if do in ("cancel", "park"):
            if do == "park" and job in self._runs:
                self._runs[job].parked = True
            if job in self._jobs:
                self._jobs[job].cancel()
        elif do == "taken":
            if job in self._runs:
                self._runs[job].room.release()
        else:
            work = {
                "try": self._try,
                "check": self._check,
                "audit": self._audit,
                "verify": self._verify,
                "run": self._score,
                "part": self._part,
            }[do]
            with speaking(frame.header["door"]):
                self._jobs[job] = asyncio.create_task(self._run(job, work(frame)))

    async def _run(self, job: int, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            header, payload = {"kind": "done"}, await work
            if len(payload) > frames.PAYLOAD:
                raise InputError("the reply is too large to be sent; ask for fewer rows")
        except asyncio.CancelledError:
            header, payload = {"kind": "cancelled"}, b""
        except Exception as error:
            fault = Fault.of(error)
            if fault.kind == "internal":
                LOG.exception("a job failed")
            header, payload = {"kind": "fault"}, fault.model_dump_json().encode()
        finally:
            work.close()
            self._jobs.pop(job, None)
        await self._send({**header, "job": job}, payload)

    async def _try(self, frame: PoolFrame) -> bytes:
        size, payload = frame.header["request"], frame.payload
        rows = json.loads(payload[size:])
        short, bare = len(payload) <= _SHORT, bool(frame.header["bare"])
        reply = await try_rows(payload[:size], rows, self._sandboxes, short=short, bare=bare)
        return _write(reply.model_dump(mode="json")).encode()

    async def _check(self, frame: PoolFrame) -> bytes:
        asked = json.loads(frame.payload)
        evaluator = Evaluator.model_validate(asked["evaluator"])
        problems = await check_script(evaluator, SandboxConfig.model_validate(asked["sandbox"]), self._sandboxes)
        return _write([problem.model_dump(mode="json") for problem in problems]).encode()

    async def _audit(self, frame: PoolFrame) -> bytes:
        from runner.runs.pool.worker.audits import audit_grader  # here: few are asked for

        found = await audit_grader(AuditJob.model_validate(json.loads(frame.payload)), self._sandboxes)
        return _write(found.model_dump(mode="json")).encode()

    async def _verify(self, frame: PoolFrame) -> bytes:
        from runner.runs.pool.worker.audits import verify_run  # here: few are asked for

        found = await verify_run(VerifyJob.model_validate(json.loads(frame.payload)), self._sandboxes)
        return _write(found.model_dump(mode="json")).encode()

    async def _score(self, frame: PoolFrame) -> bytes:
        job, asked = frame.job, RunJob.model_validate(json.loads(frame.payload))
        task = self._runs[job] = RunTask(asked, self._sandboxes, partial(self._send_part, job))
        try:
            ended = await task.run()
        finally:
            del self._runs[job]
        return ended.model_dump_json().encode()

    async def _part(self, frame: PoolFrame) -> bytes:
        last = 0.0

        def progress(count: int) -> None:
            nonlocal last
            if (now := time.monotonic()) - last > _PROGRESS:
                last = now
                self._writer.write(frames.pack({"kind": "count", "job": frame.job, "count": count}))

        return pack_reply(await self._parts.do(pickle.loads(frame.payload), progress))  # of the run, which started this

    async def _send_part(self, job: int, part: RunStarted | RunSegment) -> None:
        if isinstance(part, RunStarted):
            await self._send({"kind": "started", "job": job}, part.model_dump_json().encode())
            return
        found = part.segment
        header = {"first": found.first, "rows": found.rows, "size": len(found.data), "counts": dict(found.counts)}
        await self._send({"kind": "segment", "job": job, "asked": part.asked, **header}, found.data + found.index)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._sandboxes.sweep()
            now = PoolStatus(sandboxes=len(self._sandboxes), programs=len(self._programs), bytes=self._programs.bytes)
            if now != self._status:
                self._status = now
                await self._send({"kind": "status"}, now.model_dump_json().encode())

    async def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        with suppress(OSError):  # the process that serves has gone, which the reader notices
            self._writer.write(frames.pack(header, payload))
            await self._writer.drain()


def held_bytes(limit: int) -> int:
    """
    Return the bytes of their own, without files that are mapped for reading; 0 where the system does not tell.

    What processes share is counted once if counting it more often would exceed `limit`, as that takes longer.
    """
    own = os.getpid()
    pids = [own, *procfs.descendants(own)]
    rough = procfs.memory(pids, 1 << 62)
    return rough if rough <= limit else min(rough, sum(map(_proportional, pids)) or rough)


def _proportional(pid: int) -> int:
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss:", "SwapPss:")))
    return procfs.memory([pid], 1 << 62)  # of another user, as a Wasm worker that root has started
