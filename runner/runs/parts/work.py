"""What a worker does: looks at parts, then scores them with a sandbox that it keeps open."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from runner.engine.request import PreparedRun, prepare
from runner.inputs.datasets.dataset import Dataset
from runner.results.output.files import replace_file, write_error
from runner.results.output.folder import MANIFEST, ROWS
from runner.results.output.links import refuse_links
from runner.results.output.manifest import State
from runner.runs.parts.scan import count_part, look_at_file
from runner.runs.parts.types import (
    FIGURES,
    BeginTask,
    Count,
    CountTask,
    Look,
    LookTask,
    PartFigures,
    PartLostError,
    PartTask,
    Task,
    WorkerGreeting,
)
from runner.runs.pool.worker.shared_sandbox import Lease
from runner.runs.pool.worker.warm import Programs, Sandboxes
from runner.runs.run import Run
from sandboxes.host.regular import read_regular
from sandboxes.host.shield import finish

_FIGURES = 1 << 30  # bytes of the file, whatever it says

Reply = Look | Count | WorkerGreeting | PartFigures
_KINDS: Mapping[str, type[Look | Count | WorkerGreeting]] = {
    kind.__name__: kind for kind in (Look, Count, WorkerGreeting)
}
Progress = Callable[[int], None]
"""Told how many results there are so far."""


class PartWorker:
    """One worker's, wherever it runs. One task at a time."""

    def __init__(self) -> None:
        self._prepared: PreparedRun | None = None
        self._sandboxes: Sandboxes | None = None

    @property
    def identity(self) -> str | None:
        """The open sandbox's. None: there is none."""
        return None if self._prepared is None else self._prepared.sandbox.identity

    async def do(self, task: Task, progress: Progress) -> Reply:
        """Do a task. Raises InputError, SandboxError, WriteError."""
        if isinstance(task, LookTask):
            return look_at_file(task)
        if isinstance(task, CountTask):
            return count_part(task)
        if isinstance(task, BeginTask):
            return await self._begin(task)
        return await self._run(task, progress)

    async def close(self) -> None:
        """Close the sandbox. Safe twice."""
        sandboxes, self._prepared, self._sandboxes = self._sandboxes, None, None
        if sandboxes is not None:
            await finish(sandboxes.close)

    async def _begin(self, task: BeginTask) -> WorkerGreeting:
        await self.close()
        prepared = prepare(task.request, evaluator=task.evaluator)
        sandboxes, sandbox = Sandboxes(Programs(lambda: 0), shared=False), prepared.sandbox
        await sandboxes.take(sandbox)
        self._prepared, self._sandboxes = replace(prepared, sandbox=Lease(sandboxes, sandbox)), sandboxes
        return WorkerGreeting(identity=sandbox.identity, lock=sandbox.lock, manifest=sandbox.manifest)

    async def _run(self, task: PartTask, progress: Progress) -> PartFigures:
        assert self._prepared is not None
        if (known := read_figures(task.folder)) is not None:
            return known
        prepared = self._prepared
        request = prepared.request.model_copy(update={"dataset": task.slice.path, "limit": task.limit})
        Path(task.folder).mkdir(exist_ok=True)
        run = Run(
            replace(prepared, request=request, part=task.slice),
            files=[os.path.join(task.folder, "")],
            whole=False,
            resume=True,
        )
        state: State = "interrupted"
        try:
            with run.open():
                async with aclosing(run.grouped_results()) as groups:
                    async for _ in groups:
                        progress(run.count)
                cases = run.cases
                figures = PartFigures(
                    size=os.path.getsize(os.path.join(task.folder, ROWS)),
                    sums=run.sums.partial(),
                    sandbox=prepared.sandbox.identity,
                    repeated=cases.repeated if isinstance(cases, Dataset) else 0,
                    remarks=tuple(cases.about[:20]) if isinstance(cases, Dataset) else (),
                    complete=cases.complete if isinstance(cases, Dataset) else True,
                )
            state = "finished"
        except Exception as error:
            run.end("failed", str(error))
            raise
        finally:
            if state == "interrupted":
                with suppress(OSError):
                    run.end(state)
        run.end("finished")
        place = Path(task.folder, FIGURES)
        try:
            replace_file(place, figures.model_dump_json())
        except OSError as error:
            raise write_error(str(place), error) from error
        return figures


def read_figures(folder: str | os.PathLike[str]) -> PartFigures | None:
    """
    Return the figures of a part that is finished, and whose rows are as long as then; else None.

    Raises:
        OutputError: For a part that leads elsewhere.
    """
    part = Path(folder)
    refuse_links(part.parent, (), (part.name,))
    refuse_links(part, (ROWS, MANIFEST, FIGURES))
    try:
        size = os.path.getsize(part / ROWS)
        found = PartFigures.model_validate_json(read_regular(part / FIGURES, _FIGURES))
    except (OSError, ValidationError):
        return None
    return found if found.size == size else None


def pack_reply(reply: Reply) -> bytes:
    """Return a reply as JSON. Figures stay in their file: they may be long."""
    value = {"figures": True} if isinstance(reply, PartFigures) else reply.model_dump(mode="json")
    return json.dumps({"reply": type(reply).__name__, "value": value}).encode()


async def reply_of(data: bytes, task: Task, worker: str) -> Reply:
    """
    Return the reply to a task, as `packed` wrote it.

    Raises:
        PartLostError: Where it cannot be read, or has no figures.
    """
    try:
        said = json.loads(data)
        if kind := _KINDS.get(said["reply"]):
            return kind.model_validate(said["value"])
    except (ValueError, KeyError, TypeError) as error:
        raise PartLostError(f"{worker}: its reply cannot be read; is the same evalcell there?") from error
    assert isinstance(task, PartTask)
    figures = await asyncio.to_thread(read_figures, task.folder)
    if figures is None:
        raise PartLostError(f"{worker} wrote no figures of its part that can be seen here")
    return figures
