"""The pool, in the process that serves: dry runs and runs go to workers, never into this process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from time import monotonic
from typing import IO, Any, Self, TypeVar

from pydantic import TypeAdapter

from runner.core.errors import InputError
from runner.core.types import Evaluator
from runner.engine.request import RunRequest
from runner.inputs.evaluators.resolve import is_named
from runner.runs.audit.types import Audit
from runner.runs.pool.faults import unreadable
from runner.runs.pool.frames import PAYLOAD, FrameError, encode_payload
from runner.runs.pool.process import Job, WorkerProcess
from runner.runs.pool.streams import RunStream, SegmentPaths
from runner.runs.pool.types import (
    LOCAL,
    AuditJob,
    PoolBusyError,
    PoolClosedError,
    PoolStatus,
    RunJob,
    RunPart,
    TryJob,
    TryReply,
    VerifyJob,
)
from runner.runs.verify import Verification
from sandboxes.base import Problem, SandboxConfig
from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.cores import cores
from sandboxes.host.shield import every, finish
from sandboxes.packages.settings import PYTHON, UV_VARIABLES, install_variables
from sandboxes.registry import find

WAITING = 64
"""Dry runs that are under way or wait; one more is refused."""
RUNS = 4
"""Runs under way, in fair turns, if nobody says otherwise; others wait for one of them to end."""
PATIENCE = 20.0
"""Seconds in which runs must have handed out what they have when the pool is closed."""

T = TypeVar("T")
_PROBLEMS = TypeAdapter(list[Problem])


class WorkerPool:
    """
    Warm sandboxes in worker processes, which start when they are needed. Use it as `async with`, in one event loop.

    `environment` is where the workers' variables come from, each what it needs; scripts may be given those in
    `allowed`, if a config asks for them. `keys` are variables with judges' keys, which no script sees. `waiting` bounds
    the dry runs; `runs` are under way at once.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        allowed: Iterable[str] = (),
        keys: Iterable[str] = (),
        waiting: int = WAITING,
        runs: int = RUNS,
    ) -> None:
        self._environment = dict(os.environ if environment is None else environment)
        self._keys = tuple(keys)
        self._allowed = (*allowed, *self._keys)
        self._waiting = waiting
        self._at_once = runs
        self._workers: dict[str, WorkerProcess] = {}
        self._budget: IO[bytes] | None = None
        """What the workers' scripts have asked of judges, together."""
        self._tries = 0
        self._pace = 0.05  # seconds of a dry run, lately
        self._runs: set[RunStream] = set()
        self._room = asyncio.Semaphore(runs)
        self._over = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """
        Park the runs, stop everything else, and return when no worker is left. Safe twice.

        Somebody must go on taking the runs' parts meanwhile, for so many seconds at most as `PATIENCE`.
        """
        self._closed = True
        for stream in list(self._runs):
            await stream.park()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._runs:
                    self._over.clear()
                    await self._over.wait()
        await finish(lambda: every(worker.close for worker in self._workers.values()))
        if self._budget is not None:
            self._budget.close()

    async def run(self, job: RunJob, stored: SegmentPaths | None = None) -> AsyncGenerator[RunPart]:
        """
        Score a dataset: `RunStarted`, any number of `RunSegment`, then `RunEnded`. Closing it stops the script.

        What goes wrong is in the last part. `stored` says which segments are kept by now: with it, a run whose worker
        is lost goes on by itself; without it that raises WorkerLostError. When the pool is closed, the last part says
        `parked`.

        Raises:
            UnsupportedConfigError: For a sandbox that there is not.
            SandboxError: For parts that cannot be read.
        """
        stream = RunStream(self._worker(job.request.sandbox), job, stored)
        self._runs.add(stream)
        try:
            if self._closed:
                await stream.park()
            async with self._room, aclosing(stream.parts()) as parts:
                async for part in parts:
                    yield part
        finally:
            self._runs.discard(stream)
            self._over.set()

    async def evaluate(self, job: TryJob) -> TryReply:
        """
        Score a few rows in a warm sandbox. A caller that is cancelled stops its script at once.

        Raises:
            BusyError, WorkerLostError, PoolClosedError, InputError: For rows that are too large together.
            InputError, UnsupportedConfigError, SandboxError: As `runner.evaluate` does.
        """
        try:
            # Not model_dump_json, which refuses half a surrogate pair.
            request, rows = encode_payload(job.request.model_dump(mode="json")), encode_payload(job.rows)
        except (ValueError, RecursionError):
            what = "is nested too deeply, or has a number of thousands of digits"
            raise InputError(f"a row, or a literal of the mapping, {what}; flatten or shorten it") from None
        # Apart: most dry runs differ from the one before in their rows alone, if at all.
        reply = await self._ask("try", job.request.sandbox, request + rows, request=len(request), bare=int(job.bare))
        return _read(TryReply.model_validate, reply)

    async def audit(self, job: AuditJob) -> Audit:
        """
        Audit a grader in a warm sandbox. A caller that is cancelled stops it at once.

        Raises what `evaluate` does.
        """
        try:
            asked = encode_payload(job.model_dump(mode="json"))
        except (ValueError, RecursionError):
            raise InputError("a row or an example is nested too deeply; flatten or shorten it") from None
        return _read(Audit.model_validate, await self._ask("audit", job.request.sandbox, asked))

    async def verify(self, job: VerifyJob, sandbox: SandboxConfig) -> Verification:
        """
        Run rows of a finished run again, in a warm sandbox. A caller that is cancelled stops it at once.

        Raises what `evaluate` does, and NotComparableError.
        """
        return _read(
            Verification.model_validate, await self._ask("verify", sandbox, encode_payload(job.model_dump(mode="json")))
        )

    async def check(self, evaluator: Evaluator, sandbox: SandboxConfig) -> list[Problem]:
        """
        Return what a compiler finds in the script, without running it; nothing where the sandbox has none.

        Raises what `evaluate` does.
        """
        asked = RunRequest(evaluator=evaluator, sandbox=sandbox).model_dump(mode="json")
        reply = await self._ask(
            "check", sandbox, encode_payload({name: asked[name] for name in ("evaluator", "sandbox")})
        )
        return _read(_PROBLEMS.validate_python, reply)

    def status(self) -> PoolStatus:
        """Return what goes on, as last known."""
        workers = list(self._workers.values())
        return PoolStatus(
            workers=sum(worker.pid is not None for worker in workers),
            restarts=sum(worker.restarts for worker in workers),
            sandboxes=sum(worker.status.sandboxes for worker in workers),
            programs=sum(worker.status.programs for worker in workers),
            bytes=sum(worker.status.bytes for worker in workers),
            waiting=max(0, self._tries - cores()) + max(0, len(self._runs) - self._at_once),
            running=min(self._tries, cores()) + min(len(self._runs), self._at_once),
        )

    def wait_seconds(self) -> float:
        """Return about how long another dry run would wait before it begins."""
        return self._pace * max(0, self._tries + 1 - cores()) / cores()

    async def _ask(self, do: str, config: SandboxConfig, asked: bytes, **about: int) -> bytes:
        if self._closed:
            raise PoolClosedError
        if self._tries >= self._waiting:
            raise PoolBusyError(max(1.0, self._pace * self._tries / cores()))
        worker = self._worker(config)
        self._tries += 1
        began = monotonic()
        job: Job | None = None
        try:
            try:
                job = await worker.submit(do, asked, **about)
            except FrameError:
                raise InputError(
                    f"script and rows are larger than {PAYLOAD >> 20} MB together; try fewer rows"
                ) from None
            return (await job.next()).payload
        finally:
            try:
                if job is not None and not job.ended.is_set():
                    await worker.stop(job)
            finally:
                self._tries -= 1
                self._pace += 0.1 * (monotonic() - began - self._pace)

    def _worker(self, config: SandboxConfig) -> WorkerProcess:
        """The worker for the sandbox: one for all that run here, and one for each provider."""
        if config.env_file is not None:
            raise UnsupportedConfigError(
                "a server reads no `env_file`; set the variables where it is started, and allow them there"
            )
        name = config.backend if is_named(config) and runs_elsewhere(config.backend) else LOCAL
        if name not in self._workers:
            own, allowed = self._environment, self._allowed
            found = local_variables(own, allowed) if name == LOCAL else provider_variables(own, name, allowed)
            if self._budget is None and sys.platform != "win32":  # where no process is handed a descriptor
                self._budget = tempfile.TemporaryFile()  # noqa: SIM115  (until it is closed)
            budget = None if self._budget is None else self._budget.fileno()
            secret = name != LOCAL or bool(self._keys)
            self._workers[name] = WorkerProcess(name, found, secret=secret, budget=budget)
        return self._workers[name]


def _read(validate: Callable[[Any], T], reply: bytes) -> T:
    try:
        return validate(json.loads(reply))
    except (ValueError, RecursionError) as e:
        raise unreadable(e) from e


_OWN = (
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "PYTHONPATH", "PYTHONHOME"),
    *("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "USER", "LOGNAME"),
    *("EVALCELL_CACHE_DIR", "EVALCELL_STATE_DIR", "EVALCELL_DENO", "EVALCELL_DEBUG"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST", "EVALCELL_ENGINE", "EVALCELL_IMAGE"),
)


def runs_elsewhere(backend: str) -> bool:
    """Say whether the backend's scripts leave this machine. Raises as `registry.find` does."""
    return find(backend).capabilities.elsewhere


def local_variables(own: Mapping[str, str], allowed: Iterable[str] = ()) -> dict[str, str]:
    """Return those of the worker whose sandboxes run here; `allowed` are those that scripts may be given."""
    names = {*UV_VARIABLES, *PYTHON, *_OWN, *install_variables(own), *allowed}
    return {name: value for name, value in own.items() if name in names}


def provider_variables(own: Mapping[str, str], backend: str, allowed: Iterable[str] = ()) -> dict[str, str]:
    """
    Return those of the worker of one provider: its credentials, and those of package indexes, as packages are resolved
    here.

    Raises as `registry.find` does.
    """
    provider = getattr(find(backend), "provider", None)
    names = {*UV_VARIABLES, *PYTHON, *_OWN, *install_variables(own), *allowed, *getattr(provider, "variables", ())}
    prefixes = (f"{backend.upper()}_", f"EVALCELL_{backend.upper()}_")
    return {name: value for name, value in own.items() if name in names or name.startswith(prefixes)}
