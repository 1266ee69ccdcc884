"""An evaluator in a sandbox that stays open from batch to batch, for callers that know no event loop."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any, TypeVar, Unpack

from runner.core.errors import ColumnsError, InputError
from runner.core.settings import WarmOptions
from runner.core.text import describe
from runner.core.types import Result
from runner.engine.arguments import make_request
from runner.engine.request import Rows, RunRequest, Scorer
from runner.inputs.evaluators.program import program
from runner.runs.pool.worker.shared_sandbox import Lease
from runner.runs.pool.worker.warm import Programs, Sandboxes
from runner.runs.store_references import prepare
from sandboxes.base import Limits
from sandboxes.errors import SandboxError
from sandboxes.guest.supervisor import clock
from sandboxes.host import event_loop

T = TypeVar("T")

_CLOSE = 30.0  # seconds that a sandbox has to close


def row_request(evaluator: Scorer, **settings: Unpack[WarmOptions]) -> RunRequest:
    """
    Return a request whose evaluator was read, so that it can travel: no rows yet, and none needed to make it.

    Raises what `evaluate` does before its first row, and InputError for an evaluator that
    scores no single rows.
    """
    request, _ = make_request(evaluator, (), **settings)
    found = prepare(request).evaluator
    if not found.evaluates:
        raise InputError(f"{describe(found.name, 60)} has no `evaluate`, which scores single rows; add one")
    return request.model_copy(update={"evaluator": found})


class WarmRun:
    """Scores batch after batch. Opens the sandbox and loads the script once; raises what these do."""

    def __init__(self, request: RunRequest) -> None:
        self._process = os.getpid()
        self._prepared = prepare(request)
        self.evaluator = self._prepared.evaluator
        self.columns = self._prepared.columns
        """The columns that the evaluator is given. None: all."""
        self._loop = _LoopThread()
        self._sandboxes = Sandboxes(Programs(lambda: 0), shared=False)
        try:
            self._loop.run(self._load(request.limits))
        except BaseException:
            self.close()
            raise

    @property
    def elsewhere(self) -> bool:
        """Whether this is a copy of another process's, made by a fork: the thread and the sandbox stayed there."""
        return os.getpid() != self._process

    def score(self, rows: Rows, call: str | None) -> list[Result]:
        """
        Return the results of a batch, in order.

        Raises what `evaluate` does; `call` is the caller's own, for messages.
        """
        try:
            return self._loop.run(self._scored(rows))
        except ColumnsError as e:
            if call is None:
                raise
            step = f"name them: {call}(…, mapping={e.paths!r})"
            raise ColumnsError(f"{e.why}; {step}" if e.paths else e.why, e.paths, e.values) from None

    async def _load(self, limits: Limits) -> None:
        async with self._lease() as lease:
            await (await lease.load(program(self.evaluator), limits)).close()

    async def _scored(self, rows: Rows) -> list[Result]:
        with self._prepared.open(rows) as cases:
            async with self._lease() as lease, aclosing(self._prepared.score(cases, lease)) as results:
                return [result async for result in results]

    def _lease(self) -> Lease:
        return Lease(self._sandboxes, self._prepared.sandbox)

    def close(self) -> None:
        """Close the sandbox. Safe twice."""
        if self._loop.ended or self.elsewhere:
            return
        try:
            with suppress(TimeoutError):
                self._loop.run(self._sandboxes.close(), _CLOSE)
        finally:
            self._loop.end()


class KeptRun:
    """
    A WarmRun that the first batch opens, in each process its own; from any thread.

    It is closed by `close`, when nobody holds it any more, and at exit. After an error of the sandbox, the next batch
    opens a new one, when the batches that run in this one are over.
    """

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        self._changed = threading.Condition()
        self._running = 0
        self._broken = False
        self._run: WarmRun | None = None

    @contextmanager
    def open(self) -> Iterator[WarmRun]:
        """Open the run for one batch. Raises what WarmRun does."""
        with self._changed:
            if self._run is not None and self._run.elsewhere:
                self._run, self._running, self._broken = None, 0, False
            while self._broken and self._running:
                self._changed.wait()
            if self._broken:
                self._close()
            if self._run is None:
                self._run = WarmRun(self._request)
                self._end = weakref.finalize(self, self._run.close)  # at exit as well
            run = self._run
            self._running += 1
        try:
            yield run
        except SandboxError:
            self._broken = True
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def score(self, rows: Rows, call: str | None) -> list[Result]:
        """Score rows as WarmRun.score does."""
        with self.open() as run:
            return run.score(rows, call)

    def close(self) -> None:
        """Close the sandbox, when the batches that run in it are over. Safe twice; the next batch opens a new one."""
        with self._changed:
            while self._running and self._run is not None and not self._run.elsewhere:
                self._changed.wait()
            self._close()

    def _close(self) -> None:
        self._broken = False
        if self._run is not None:
            self._run = None
            self._end()


class _LoopThread:
    """An event loop in a thread of its own, as callers may have one. A daemon, so that they can end at any time."""

    def __init__(self) -> None:
        clock.hold(self)
        self._loop = event_loop.new_loop()
        self.ended = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="evalcell-warm", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Wait for the work. An interrupt cancels it. Raises what it does, and TimeoutError."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        except BaseException:
            future.cancel()
            raise

    def end(self) -> None:
        """Let the thread end. Safe twice."""
        if not self.ended:
            self.ended = True
            clock.release(self)
            self._loop.call_soon_threadsafe(self._loop.stop)
