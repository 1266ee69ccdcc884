"""One run: each result goes to the results files and the summary as it comes."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager, nullcontext, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, BinaryIO

from runner.core.errors import FailedRowsError, InputError
from runner.core.types import Case, Result
from runner.engine.equal_rows import EqualRows
from runner.engine.local import Watch
from runner.engine.request import PreparedRun, Rows
from runner.engine.rows import ResultSource
from runner.engine.scoring.causes import Causes
from runner.engine.scoring.summary import Summary
from runner.engine.threads import DaemonCall
from runner.inputs.datasets.dataset import Dataset
from runner.inputs.datasets.frames import row_count
from runner.inputs.datasets.peekable_cases import Lookahead
from runner.inputs.datasets.required_columns import Cases, kept_columns, look
from runner.results.output.folder import RECORD, is_folder
from runner.results.output.manifest import State
from runner.results.output.row_cells import Layout, layout, run_layout
from runner.results.output.sinks import Outputs
from runner.results.reports.content import ReportRows as ReportRows
from runner.results.reports.files import ReportFiles
from runner.runs.base import BaseRun
from sandboxes.base import Sandbox
from sandboxes.groups import each
from sandboxes.host.shield import finish

if TYPE_CHECKING:
    from runner.results.output.stored_run import StoredRun
    from runner.results.score_cache.cached_results import ScoreCache
    from runner.results.score_cache.store import ScoreCacheStore


class Run(BaseRun):
    """
    One run, from its dataset to its summary. Use it once: `open`, then all of `results`, then `end`.

    `files` are the paths for the results: files, and at most one folder. `reports` are those for reports, or what the
    caller writes for several runs. `lock` is the path that the request's lock was read from. `whole`: the script's
    `aggregate` is run after the last row. With `resume` the run in the folder goes on, with `overwrite` its rows are
    replaced, with `stored` one goes on that is kept elsewhere. With `save` it goes to the store, too. `verdict_only`:
    nobody wants more than the gates' results, and no row is scored once these cannot change. Raises
    InputError for an invalid gate, OutputError for a path that cannot be written.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        *,
        files: Sequence[str] = (),
        reports: Sequence[str] | ReportFiles = (),
        lock: str | None = None,
        whole: bool = True,
        resume: bool = False,
        overwrite: bool = False,
        stored: StoredRun | None = None,
        save: bool = False,
        verdict_only: bool = False,
    ) -> None:
        figures = prepared.evaluator.aggregate is not None
        super().__init__(prepared, files, reports, lock, figures=figures)
        self._outputs = Outputs(files, inputs=self._inputs, lock=lock, save=save, overwrite=overwrite or resume)
        self._report_rows = ReportRows(
            dict(prepared.evaluator.outputs), failed=self._reports.failed, listed=self._reports.listed
        )
        self._scores: ScoreCache | None = None
        self._replies: ScoreCacheStore | None = None
        self._aggregation = prepared.aggregation() if whole and figures else None
        self.cases: Iterable[Case] = ()
        """The rows, once they are open."""
        self._total: int | None = None
        self._equal = EqualRows(prepared.evaluator)
        self._layout = Layout()
        self._resume = resume
        self._kept = stored
        self._folder = next((path for path in files if is_folder(path)), None)
        self._random = prepared.request.stop_when_sure
        if self._random or (verdict_only and (self._gates or any(self._allowed))):
            from runner.runs.early_stop import StopWatch  # here, as below: few runs stop early

            # Arithmetic cannot be sure of each gate, and nobody asked for that.
            with nullcontext() if self._random else suppress(InputError):
                request, evaluator = prepared.request, prepared.evaluator
                self.watch = StopWatch(request, evaluator, self._gates, self.baseline, random=self._random)

    @contextmanager
    def open(self, rows: Rows | None = None, stdin: BinaryIO | None = None) -> Iterator[None]:
        """Open the dataset, or use these rows. Raises DatasetError, and ResumeError if the run cannot go on."""
        self._total = None if rows is None else row_count(rows)
        self._outputs.read(self.prepared)
        try:
            if self._resume:
                self.resumed = self._outputs.resume(self.prepared, self._total)
            if self.resumed is not None:
                self._random = self.resumed.manifest.get("order") is not None
                if self.resumed.manifest["state"] == "stopped":
                    self.watch = None  # it is finished now
            with self.prepared.open(rows, stdin) as cases:
                self.cases = cases
                self._equal.columns = [*look(cases, [])[0]]
                self._layout = self._table(cases)
                yield
        finally:
            self._outputs.release()

    def _record_judges(self) -> None:
        """
        Record what judges are asked in the run's folder, unless it is said where.

        A run that goes on takes what it paid for from there, also for the rows that were being run when it ended.
        """
        sandbox = self.prepared.sandbox
        judges = sandbox.config.judges
        if judges is None:
            return
        path = judges.record
        if path is None and judges.replay is None and self._folder is not None:
            path = os.path.join(self._folder, RECORD)
            if not self._resume and os.path.exists(path):  # of a run whose rows are replaced, too
                os.unlink(path)
        again = path if self._resume and judges.replay is None else judges.replay
        if (path, again) != (judges.record, judges.replay):
            judges = judges.model_copy(update={"record": path, "replay": again, "goes_on": self._resume})
            sandbox.config = sandbox.config.model_copy(update={"judges": judges})

    def _table(self, cases: Cases) -> Layout:
        """The columns of results files that are tables."""
        outputs, keep = tuple(self.prepared.evaluator.outputs), self.prepared.keep
        columns, complete = keep.names if keep else (), True
        if keep is not None and keep.all and self._outputs.tables:
            columns, complete = kept_columns(cases)
        return layout(outputs, columns, complete, run_layout(self.prepared))

    @property
    def notes(self) -> Sequence[str]:
        raised = self._equal.raised(self.prepared.binding)
        read = self.cases.notes if isinstance(self.cases, Dataset | Lookahead) else ()
        return [*read, raised] if raised else read

    def total(self) -> int | None:
        request = self.prepared.request
        total = self.cases.total() if isinstance(self.cases, Dataset) else self._total
        if total is None and self.prepared.part is None:
            total = self.prepared.rows
        return None if total is None else min(total, request.limit or total) * request.repeat

    def _rows(self) -> int | None:
        total = self.total()
        return None if total is None else total // self.prepared.request.repeat

    @property
    def written(self) -> dict[str, int]:
        return self._outputs.rows

    @property
    def saved(self) -> str | None:
        return self._outputs.saved

    @property
    def complete(self) -> bool:
        return self.cases.complete if isinstance(self.cases, Dataset) else True

    def results(self) -> AsyncGenerator[Result, None]:
        """Return the results, one by one."""
        return each(self.grouped_results())

    async def grouped_results(self) -> AsyncGenerator[Sequence[Result], None]:
        """
        Yield results as they come, in the dataset's order, after passing them to the files.

        Those that are there at the same time come together.
        Opens and closes the sandbox. Raises what `score` does, OutputError and WriteError.
        """
        prepared, known = self.prepared, await self._known()
        sandbox: Sandbox | None = None
        async with AsyncExitStack() as stack:

            async def opened() -> Sandbox:
                nonlocal sandbox
                if sandbox is None:
                    sandbox = await stack.enter_async_context(prepared.sandbox)
                    if known is not None:
                        known.check(sandbox)
                return sandbox

            async def needed() -> None:
                """The sandbox is needed for a row that is not known."""
                if known is not None:
                    known.refuse_more()
                await opened()
                await self._outputs.go_on(prepared)

            if (scores := self._scores or self._replies) is not None:
                stack.push_async_callback(lambda: finish(DaemonCall(scores.close, "evalcell-scores").get))
            if known is None or known.identity is None:
                await opened()
            await stack.enter_async_context(self._outputs)
            await self._outputs.begin(prepared, self._layout, None if sandbox or not known else known.identity)
            self._record_judges()
            if self._replies is not None and (broker := prepared.sandbox.broker) is not None:
                from sandboxes.judges.record import KeptReplies  # here: most runs ask nobody

                broker.kept = KeptReplies(self._replies)
            began = perf_counter()
            causes, stopped = Causes(self._allowed[0], self._rows), None
            cases, reported = self._ordered(self._report_rows.located(self.cases)), self._report_rows.wanted
            opens, halt = needed if known else None, None if self.watch is None else self._sure
            scored = prepared.score_grouped(cases, prepared.sandbox, self._watch, known, opens, halt)
            async with aclosing(scored) as groups:
                try:
                    async for results in groups:
                        self._outputs.add(results)
                        if self.watch is not None and self.watch.sure:  # what was running is kept, and does not count
                            self.watch.add_running(len(results))
                            await self._outputs.room()
                            continue
                        for at, row in enumerate(map(self.sums.add, results), 1):
                            if row is None:
                                continue
                            if row.error is not None and stopped is None:
                                stopped = causes.add(row, self.sums.count // prepared.request.repeat)
                            if self.baseline is not None:
                                self.baseline.add(row)
                            if reported:
                                self._report_rows.add(row)
                            if self._aggregation is not None:
                                self._aggregation.add(row)
                            if self.watch is not None and self.watch.add(row):
                                self.watch.add_running(len(results) - at)
                                results = results[:at]
                                break
                        yield results
                        await self._outputs.room()
                        if stopped is not None:
                            raise FailedRowsError(stopped)
                finally:
                    self._seconds = perf_counter() - began
            if self._aggregation is not None and not self._sure():
                await self._aggregation.run(await opened())
            if sandbox is not None:
                self.hidden = await self._equal.hidden(sandbox, prepared.request.limits)

    def _ordered(self, cases: Iterable[Case]) -> Iterable[Case]:
        """The rows in the order in which they are scored."""
        watch, request = self.watch, self.prepared.request
        if self._random:
            from runner.runs.early_stop import shuffle

            return (
                watch.order(cases, lambda: self.complete)
                if watch is not None
                else shuffle(cases, request.seed, request.limit)
            )
        if watch is not None and (rows := self._rows()) is not None:
            watch.begin(rows)
        return cases

    def _sure(self) -> bool:
        """Whether the verdict is sure, and no more rows are wanted."""
        return self.watch is not None and self.watch.sure

    async def _known(self) -> ResultSource | None:
        """The results that are there before the run. None: there are none."""
        there = self._there
        if not self.prepared.request.cache or (there is not None and there.finished):
            return there
        from runner.results.score_cache.cached_results import (  # here: most runs have no cache
            Both,
            open_replies,
            open_scores,
        )

        if self.prepared.sandbox.config.judges is not None:
            self._replies = await DaemonCall(open_replies, "evalcell-scores").get()
            return there
        self._scores = await DaemonCall(lambda: open_scores(self.prepared), "evalcell-scores").get()
        if self._scores is None or there is None:
            return there or self._scores
        return Both(there, self._scores)

    @property
    def _there(self) -> StoredRun | None:
        """The rows that are there already."""
        return self.resumed or self._kept

    @property
    def _watch(self) -> Watch:
        """What looks at each result together with its call."""
        every = [self.sums.watch, self._equal.watch, *([self._aggregation.watch] if self._aggregation else [])]
        return lambda *row: sum(watch(*row) for watch in every)

    def _before(self) -> int:
        return 0 if self._there is None else self._there.rows

    def _figures_of_all(self) -> Mapping[str, Any]:
        return {} if self._aggregation is None else dict(self._aggregation.figures)

    def _reported(self) -> dict[str, Any]:
        return {"failed": self._report_rows.failed, "listed": self._report_rows.listed}

    def _write_end(self, state: State, summary: Summary, error: str | None) -> None:
        self._outputs.end(state, summary, self.notes, error)
