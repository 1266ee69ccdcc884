"""Workers of a run in parts on a Ray cluster: an actor each, which reads and writes its parts itself."""

from __future__ import annotations

import asyncio
import os
import pickle
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from runner.core.text import printable
from runner.runs.parts.types import BeginTask, PartLostError, PartTask, Task
from runner.runs.parts.work import PartWorker, Progress, Reply, pack_reply, reply_of
from runner.runs.pool.faults import Fault, error_of
from sandboxes.cluster.connection import refuse_dead_node
from sandboxes.cluster.facts import facts, place, refuse_other_program
from sandboxes.cluster.files import WorkerFiles
from sandboxes.cluster.member import last_line
from sandboxes.cluster.worker import NAMESPACE, Activity
from sandboxes.errors import SandboxUnavailableError
from sandboxes.host.shield import finish
from sandboxes.words.wording import DOOR

_START = 120.0  # seconds for an actor to start
_STOP = 5.0  # seconds for one to stop
_LOOK = 10.0  # seconds between two looks at whether this machine's raylet lives
_FAULT = b"fault "  # before the JSON of an exception
_EVERY = 1.0  # seconds between two looks at how far it is


class Actor:
    """What runs on a node. Its replies are data alone."""

    def __init__(self) -> None:
        self._work = PartWorker()
        self._count = 0
        self._activity = Activity()
        self._files = WorkerFiles()

    async def hello(self, path: str) -> dict[str, Any]:
        """Return which versions this node has, and what it reads there."""
        try:
            found = Path(path).read_text()[:100]
        except (OSError, ValueError):
            found = ""
        return facts() | {"mark": found}

    async def do(self, task: bytes, files: dict[str, bytes], variables: dict[str, str]) -> bytes:
        """Do a task; a reply as JSON. `files` are those of the config, which may not be on this node."""
        self._count = 0
        os.environ.update(variables)
        wanted: Task
        words, wanted = pickle.loads(task)
        DOOR.set(words)
        self._activity.busy += 1
        try:
            if isinstance(wanted, BeginTask):
                paths = self._files.write(files)
                config = wanted.request.sandbox.model_copy(update={"files": paths, "env_file": None})
                wanted = replace(wanted, request=wanted.request.model_copy(update={"sandbox": config}))
            return pack_reply(await self._work.do(wanted, self._progress))
        except Exception as error:
            return _FAULT + Fault.of(error).model_dump_json().encode()
        finally:
            self._activity.busy -= 1

    async def status(self) -> dict[str, Any]:
        """Return what it does, for `evalcell cluster`."""
        return self._activity.status(self._work.identity)

    async def count(self) -> int:
        """Return the results of its part so far."""
        return self._count

    async def close(self) -> None:
        """Close what is open."""
        await self._work.close()
        self._files.close()

    def _progress(self, count: int) -> None:
        self._activity.add(count - self._count)
        self._count = count


class ClusterWorker:
    """
    One worker on the cluster. It may be started again after it was lost; Ray itself restarts nothing.

    `mark` is a file in the results folder, and what it has: every node must see the same.
    """

    def __init__(
        self, ray: Any, number: int, mark: tuple[str, str], files: dict[str, bytes], variables: dict[str, str]
    ) -> None:
        self.name = f"worker {number}"
        self._ray = ray
        self._mark = mark
        self._files = files
        self._variables = variables
        self._actor: Any = None
        self.there = False
        """Whether it was placed, and has the same program and disk."""

    async def start(self) -> None:
        """Start its actor, unless it is there. Raises PartLostError, and SandboxUnavailableError for another disk."""
        if self.there:
            return
        if self._actor is None:
            actor = self._ray.remote(Actor).options(
                name=uuid4().hex,
                namespace=NAMESPACE,
                num_cpus=1,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=6,
                scheduling_strategy="SPREAD",
            )
            self._actor = actor.remote()
        about = await self._ask(self._actor.hello.remote(self._mark[0]), _START)
        self.name = place(about)
        refuse_other_program(self.name, about)
        if about.get("mark") != self._mark[1]:
            folder = os.path.dirname(self._mark[0])
            raise SandboxUnavailableError(
                f"{self.name} does not see {printable(folder)}: on a cluster the results folder must be on a disk that "
                "all nodes share, under the same path, and so must the dataset, unless it is a URL"
            )
        self.there = True

    async def do(self, task: Task, progress: Progress) -> Reply:
        """Do a task there. Raises what it raises there, and PartLostError."""
        actor = self._actor
        if actor is None:
            raise PartLostError(f"{self.name} was lost")
        files = self._files if isinstance(task, BeginTask) else {}
        asked = actor.do.remote(pickle.dumps((DOOR.get(), task)), files, self._variables)
        counting = asyncio.create_task(self._count(actor, progress)) if isinstance(task, PartTask) else None
        try:
            reply: bytes = await self._ask(asked, None)
            if reply.startswith(_FAULT):
                raise error_of(reply.removeprefix(_FAULT))
            return await reply_of(reply, task, self.name)
        finally:
            if counting is not None:
                counting.cancel()

    async def _count(self, actor: Any, progress: Progress) -> None:
        with suppress(self._ray.exceptions.RayError):
            while True:
                await asyncio.sleep(_EVERY)
                count = await asyncio.wrap_future(actor.count.remote().future())
                if count:
                    progress(count)

    async def _ask(self, reference: Any, seconds: float | None) -> Any:
        errors = self._ray.exceptions
        waiting = asyncio.wrap_future(reference.future())
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # who gave up hears no more of it
        try:
            async with asyncio.timeout(seconds):
                while not (await asyncio.wait({waiting}, timeout=_LOOK))[0]:
                    refuse_dead_node()
            return waiting.result()
        except asyncio.CancelledError:
            self._ray.cancel(reference)
            raise
        except TimeoutError:
            self._kill()
            raise PartLostError(f"{self.name} did not start within {seconds:.0f} s; is a processor free?") from None
        except errors.RayError as error:
            self._kill()
            refuse_dead_node()
            raise PartLostError(f"{self.name} was lost ({printable(last_line(error))})") from None

    def _kill(self) -> None:
        actor, self._actor, self.there = self._actor, None, False
        if actor is not None:
            self._ray.kill(actor, no_restart=True)

    async def close(self) -> None:
        """Stop what it does, and end it. Safe twice."""
        await finish(self._close)

    async def _close(self) -> None:
        if self._actor is not None:
            with suppress(TimeoutError, self._ray.exceptions.RayError):
                async with asyncio.timeout(_STOP):
                    await asyncio.wrap_future(self._actor.close.remote().future())
        self._kill()
