"""A run of a dataset that lies in parts: planned, shared out to workers, and summed up as one run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from runner.core.errors import InputError
from runner.engine.request import PreparedRun, RunRequest
from runner.engine.scoring.summary import Summary
from runner.engine.scoring.tally import labels_of
from runner.inputs.datasets.location import find_files
from runner.inputs.datasets.notes import repeated_ids
from runner.results.compare.files import find_source
from runner.results.compare.rows import source_rows
from runner.results.output.files import WriteError
from runner.results.output.folder import is_folder, part_name
from runner.results.output.manifest import State
from runner.results.reports.runs import joined_rows, read_run
from runner.runs.base import BaseRun
from runner.runs.parts.folder import PartsFolder
from runner.runs.parts.plan import plan_parts
from runner.runs.parts.scheduler import CrewWorker, share
from runner.runs.parts.types import BeginTask, PartFigures, PartPlan, PartTask, WorkerGreeting
from runner.runs.parts.work import Reply
from runner.runs.parts.workers import workers
from sandboxes.errors import SandboxLostError, SandboxUnavailableError
from sandboxes.words.wording import Setting

CountCallback = Callable[[int], None]
"""Told how many results there are so far."""

_OWN: Mapping[str, Any] = {
    **{"gates": (), "require": (), "max_abstained": None, "on": None},
    **{"baseline": None, "fail_if_worse": None, "allow_inconclusive": False},
}
"""What the whole run decides, and no part of it."""


class PartsRun(BaseRun):
    """
    One run of several parts. Use it once: `open`, then `score`, then `end`.

    The results go to a folder, whose parts the workers write themselves. Raises DatasetError where no file is
    found, InputError for what a run in parts cannot do, an invalid gate, and a folder that cannot be written.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        *,
        files: Sequence[str],
        reports: Sequence[str] = (),
        lock: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
        save: bool = False,
    ) -> None:
        self._files = find_files(prepared.request.dataset or "")
        _refuse(prepared, files, save=save)
        super().__init__(prepared, files, reports, lock)
        self.folder = PartsFolder(
            files[0], prepared, self._files, inputs=self._inputs, lock=lock, overwrite=overwrite or resume
        )
        self._resume = resume
        self._plan: PartPlan | None = None
        self._begun: WorkerGreeting | None = None
        self._begins = asyncio.Lock()
        self._workers: Sequence[CrewWorker] = ()
        self._figures: dict[int, PartFigures] = {}
        self._notes: tuple[str, ...] = ()
        self.there = 0
        """The parts that were finished before."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Take the folder. Raises OutputError, and ResumeError if the run there cannot go on."""
        self.folder.take(resume=self._resume)
        try:
            yield
        finally:
            self.folder.release()

    @property
    def notes(self) -> Sequence[str]:
        return self._notes

    @property
    def parts(self) -> int:
        """The number of parts, once they are planned."""
        return 0 if self._plan is None else len(self._plan.parts)

    @property
    def workers(self) -> str:
        """How many of its workers are there, for people."""
        return f"{sum(worker.there for worker in self._workers)} of {len(self._workers)} workers"

    def total(self) -> int | None:
        return None if self._plan is None else self._plan.rows * self.prepared.request.repeat

    @property
    def written(self) -> dict[str, int]:
        return {self.folder.path: sum(one.sums.results for one in self._figures.values())}

    async def score(self, counted: CountCallback = lambda _: None) -> None:
        """
        Plan the parts, if that was not done before, and score those that are not finished.

        Raises what a run does, and SandboxLostError for a part that was lost too often.
        """
        async with workers(self.prepared, self.folder) as found:
            began = perf_counter()
            try:
                await self._score(found, counted)
            finally:
                self._seconds = perf_counter() - began

    async def _score(self, found: Sequence[CrewWorker], counted: CountCallback) -> None:
        await asyncio.to_thread(self._look)
        self._plan = plan = self.folder.plan or await self._planned(found)
        self._figures = await asyncio.to_thread(self.folder.figures, plan)
        self.there = len(self._figures)
        left = [number for number in range(1, len(plan.parts) + 1) if number not in self._figures]
        counts = {number: one.sums.results for number, one in self._figures.items()}

        def progress(place: int, count: int) -> None:
            counts[left[place]] = count
            counted(sum(counts.values()))

        def take(place: int, reply: Reply) -> None:
            assert isinstance(reply, PartFigures)
            self._figures[left[place]] = reply
            progress(place, reply.sums.results)

        repeat = self.prepared.request.repeat
        tasks = [
            PartTask(plan.parts[number - 1].slice, plan.parts[number - 1].rows, self.folder.part(number))
            for number in left
        ]
        self._workers = found[: len(tasks)]
        if left or not plan.parts:
            await share(found, tasks, take, ready=self._ready, progress=progress)
        for number, one in self._figures.items():
            if one.sums.results != plan.parts[number - 1].rows * repeat:
                raise SandboxLostError(
                    f"part {part_name(number)} has {one.sums.results:,} results, and its rows were counted as "
                    f"{plan.parts[number - 1].rows:,}; was its file changed meanwhile? Start the run anew"
                )

    async def _planned(self, found: Sequence[CrewWorker]) -> PartPlan:
        plan = await plan_parts(self.prepared, self._files, self.folder.begin(), found)
        self.folder.keep(plan)
        return plan

    def _look(self) -> None:
        """Raise ColumnsError if the dataset lacks columns that the run needs, as its first rows show."""
        request = self.prepared.request.model_copy(update={"dataset": self._files[0].path})
        with replace(self.prepared, request=request).open():
            pass

    def _request(self, lock: str | None, **more: Any) -> RunRequest:
        """What a worker is asked."""
        request, config = self.prepared.request, self.prepared.request.sandbox
        chosen: dict[str, Any] = {"backend": self.prepared.sandbox.config.backend, "jobs": 1}
        if lock is not None:
            chosen["lock"] = lock
        worst = max(request.worst, self._reports.rows)
        update = {**_OWN, "sandbox": config.model_copy(update=chosen), "worst": worst, **more}
        return request.model_copy(update=update)

    async def _ready(self, worker: CrewWorker) -> None:
        """Open a worker's sandbox, which must be the same as that of the others. The first one's packages are all's."""
        async with self._begins:
            lock = self.folder.lock if self._begun is None else self._begun.lock
            reply = await worker.do(BeginTask(self._request(lock), self.prepared.evaluator), lambda _: None)
            assert isinstance(reply, WorkerGreeting)
            wanted = self.folder.identity if self._begun is None else self._begun.identity
            if wanted is not None and reply.identity != wanted:
                raise SandboxUnavailableError(
                    f"{worker.name} would score with {reply.identity}, and the run with {wanted}; "
                    "install the same versions everywhere"
                )
            if self._begun is None:
                self._begun = reply
                await asyncio.to_thread(self.folder.go_on, reply, self.parts)

    def join(self) -> None:
        """Sum up the finished parts, in their order."""
        repeated, remarks = 0, dict[str, None]()
        for number in sorted(self._figures):
            one = self._figures[number]
            self.sums.join(one.sums, partial(self._labels, number))
            repeated += one.repeated
            remarks |= dict.fromkeys(one.remarks)
        binding = self.prepared.binding
        notes = [
            *(binding.notes if binding else ()),
            *list(remarks)[:20],
            *([repeated_ids(repeated)] if repeated else []),
        ]
        if not self.complete:
            notes.append("a file could not be read to its end; it may have more rows")
        self._notes = tuple(notes)

    def _labels(self, number: int, name: str) -> Iterator[str]:
        """The labels of one part, from its rows."""
        source = find_source(self.folder.part(number))
        rows = (row for _, row, _ in joined_rows(source_rows(source, None)))
        return labels_of(rows, name, self.prepared.evaluator.outputs)

    @property
    def complete(self) -> bool:
        return all(one.complete for one in self._figures.values())

    def _before(self) -> int:
        return sum(one.sums.results for one in list(self._figures.values())[: self.there])

    def _reported(self) -> dict[str, Any]:
        failed, listed = self._reports.failed, self._reports.listed
        if self._figures and (failed or listed):
            with suppress(InputError):
                read = read_run(find_source(self.folder.path), worst=0, show="worst", failed=failed, listed=listed)
                return {"failed": read.failed, "listed": read.listed}
        return {}

    def end(self, state: State, error: str | None = None) -> WriteError | None:
        self.join()
        if self.baseline is not None and state == "finished":
            self.baseline.read(find_source(self.folder.path))
        return super().end(state, error)

    def _write_end(self, state: State, summary: Summary, error: str | None) -> None:
        self.folder.end(state, summary, self.notes, error)


def _refuse(prepared: PreparedRun, files: Sequence[str], *, save: bool) -> None:
    """Raise InputError for what a run in parts cannot do."""
    if len(files) != 1 or not is_folder(files[0]):
        raise InputError("a dataset of several files is scored in parts, which go to one folder: add the output run/")
    if prepared.evaluator.aggregate is not None:
        raise InputError(
            "the script has `aggregate`, which needs the results of all rows in one place, and a run in parts leaves "
            "each part where it is: join the files to one, or take `aggregate` out"
        )
    if prepared.sandbox.config.judges is not None:
        raise InputError("the parts of a run have no budget and record of judges together; join the files to one")
    if prepared.request.stop_when_sure:
        raise InputError(
            f"{Setting('stop_when_sure')} scores all rows in one random order, and the parts of a run are scored "
            "apart; join the files to one, or leave it out"
        )
    if save:
        raise InputError("a run in parts stays in its folder; leave save out")
