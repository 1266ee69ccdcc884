"""One run: each result goes to the results files and the summary as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, BinaryIO

from runner.core.errors import FailedRowsError
from runner.core.types import Case, Result
from runner.engine.local import Watch
from runner.engine.request import Prepared, Rows
from runner.engine.row import Known
from runner.engine.scoring.causes import Causes
from runner.engine.scoring.summary import Summary
from runner.engine.scoring.sums import Sums
from runner.engine.scoring.worst import ShownRows
from runner.engine.threads import Detached
from runner.inputs.datasets.dataset import Dataset
from runner.inputs.datasets.frames import row_count
from runner.inputs.datasets.lacking import Cases, kept_columns
from runner.inputs.datasets.lookahead import Lookahead
from runner.results.output.files import WriteError
from runner.results.output.manifest import State
from runner.results.output.row_cells import Layout, layout, run_layout
from runner.results.output.sinks import Outputs
from runner.results.reports.content import Rows as ReportRows
from runner.results.reports.content import RunContent
from runner.results.reports.files import ReportFiles
from runner.runs.conclusion import Conclusion, first_rows, with_rate, write_all
from sandboxes.base import Sandbox
from sandboxes.groups import each
from sandboxes.shield import finish

if TYPE_CHECKING:
    from runner.results.output.resume import Resumed
    from runner.results.output.stored_run import StoredRun
    from runner.results.score_cache.known import ScoreCache


class Run:
    """
    One run, from its dataset to its summary. Use it once: `open`, then all of `results`, then `end`.

    `files` are the paths for the results: files, and at most one folder. `reports` are those for reports, or what the
    caller writes for several runs. `lock` is the path that the request's lock was read from. `whole`: the script's
    `aggregate` is run after the last row. With `resume` the run in the folder goes on, with `overwrite` its rows are
    replaced, with `stored` one goes on that is kept elsewhere. With `save` it goes to the store, too. Raises
    InputError for an invalid gate, OutputError for a path that cannot be written.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        files: Sequence[str] = (),
        reports: Sequence[str] | ReportFiles = (),
        lock: str | None = None,
        whole: bool = True,
        resume: bool = False,
        overwrite: bool = False,
        stored: StoredRun | None = None,
        save: bool = False,
    ) -> None:
        request, evaluator = prepared.request, prepared.evaluator
        self.prepared = prepared
        figures = evaluator.aggregate is not None
        self._conclusion = Conclusion(prepared, figures=figures)
        self.baseline = self._conclusion.baseline
        inputs = self._conclusion.inputs if files or reports else ()
        self._outputs = Outputs(files, inputs=inputs, lock=lock, save=save, overwrite=overwrite or resume)
        self._shared = isinstance(reports, ReportFiles)
        self._reports = (
            reports
            if isinstance(reports, ReportFiles)
            else ReportFiles(reports, inputs=[*inputs, *([lock] if lock else [])], taken=files)
        )
        self._report_rows = ReportRows(
            dict(evaluator.outputs), failed=self._reports.failed, listed=self._reports.listed
        )
        self.sums = Sums(evaluator, request.repeat, max(request.worst, self._reports.rows), request.show)
        self._scores: ScoreCache | None = None
        self._aggregation = prepared.aggregation() if whole and figures else None
        self.cases: Iterable[Case] = ()
        """The rows, once they are open."""
        self._total: int | None = None
        self._layout = Layout()
        self._seconds = 0.0
        self._resume = resume
        self.resumed: Resumed | None = None
        """The rows that are there already, of a run in a folder that goes on."""
        self._kept = stored
        self.state: State | None = None
        """How it ended. None: it did not."""
        self.error: str | None = None
        """What it failed with."""

    @contextmanager
    def open(self, rows: Rows | None = None, stdin: BinaryIO | None = None) -> Iterator[None]:
        """Open the dataset, or use these rows. Raises DatasetError, and ResumeError if the run cannot go on."""
        self._total = None if rows is None else row_count(rows)
        self._outputs.read(self.prepared)
        try:
            if self._resume:
                self.resumed = self._outputs.resume(self.prepared, self._total)
            with self.prepared.open(rows, stdin) as cases:
                self.cases = cases
                self._layout = self._table(cases)
                yield
        finally:
            self._outputs.release()

    def _table(self, cases: Cases) -> Layout:
        """The columns of results files that are tables."""
        outputs, keep = tuple(self.prepared.evaluator.outputs), self.prepared.keep
        columns, complete = keep.names if keep else (), True
        if keep is not None and keep.all and self._outputs.tables:
            columns, complete = kept_columns(cases)
        return layout(outputs, columns, complete, run_layout(self.prepared))

    @property
    def count(self) -> int:
        """Results so far: a row has one, or as many as it is repeated."""
        return self.sums.count

    @property
    def notes(self) -> Sequence[str]:
        """Notes about the dataset, for people."""
        return self.cases.notes if isinstance(self.cases, Dataset | Lookahead) else ()

    def total(self) -> int | None:
        """The number of results to come, if it is known before the rows are read."""
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
        """The number of whole rows in each file and the folder, by path."""
        return self._outputs.rows

    @property
    def saved(self) -> str | None:
        """Its id in the store, if it is saved and has begun."""
        return self._outputs.saved

    def results(self) -> AsyncGenerator[Result, None]:
        """The results, one by one."""
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

            if (scores := self._scores) is not None:
                stack.push_async_callback(lambda: finish(Detached(scores.close, "evalcell-scores").get))
            if known is None or known.identity is None:
                await opened()
            await stack.enter_async_context(self._outputs)
            await self._outputs.begin(prepared, self._layout, None if sandbox or not known else known.identity)
            began = perf_counter()
            causes, stopped = Causes(self._conclusion.max_failed, self._rows), None
            cases, reported = self._report_rows.located(self.cases), self._report_rows.wanted
            scored = prepared.score_grouped(cases, prepared.sandbox, self._watch, known, needed if known else None)
            async with aclosing(scored) as groups:
                try:
                    async for results in groups:
                        self._outputs.add(results)
                        for row in filter(None, map(self.sums.add, results)):
                            stopped = stopped or causes.add(row)
                            if self.baseline is not None:
                                self.baseline.add(row)
                            if reported:
                                self._report_rows.add(row)
                            if self._aggregation is not None:
                                self._aggregation.add(row)
                        yield results
                        await self._outputs.room()
                        if stopped is not None:
                            raise FailedRowsError(stopped)
                finally:
                    self._seconds = perf_counter() - began
            if self._aggregation is not None:
                await self._aggregation.run(await opened())

    async def _known(self) -> Known | None:
        """The results that are there before the run. None: there are none."""
        there = self._there
        if not self.prepared.request.cache or (there is not None and there.finished):
            return there
        from runner.results.score_cache.known import Both, open_scores  # here: most runs have no cache

        self._scores = await Detached(lambda: open_scores(self.prepared), "evalcell-scores").get()
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
        worst, aggregation = self.sums.watch, self._aggregation
        return worst if aggregation is None else lambda *row: worst(*row) + aggregation.watch(*row)

    def shown(self) -> ShownRows:
        """The rows to look at first, so far."""
        return first_rows(self.sums, self.prepared.request.worst)

    def content(self, state: State = "finished", error: str | None = None) -> RunContent:
        """What a report shows of the rows so far; `error` is what the run failed with."""
        return self._conclusion.content(
            state,
            self.notes,
            error=error,
            summary=self.summary(state),
            shown=self.sums.shown(),
            failed=self._report_rows.failed,
            listed=self._report_rows.listed,
        )

    def summary(self, state: State = "finished") -> Summary:
        """The summary of the rows so far. Gates are judged only when all rows are done."""
        summary = self.sums.summary(self._seconds, cache=self.prepared.request.cache)
        if self._aggregation is not None:
            summary = summary.model_copy(update=dict(self._aggregation.figures))
        if self._there is not None:
            fresh = max(0, summary.rows - self._there.rows // self.prepared.request.repeat)
            summary = with_rate(summary, fresh, self._seconds)
        if state != "finished":
            return summary
        return self._conclusion.judged(summary, self.cases.complete if isinstance(self.cases, Dataset) else True)

    def end(self, state: State, error: str | None = None) -> WriteError | None:
        """
        Write to the manifest how the run ended, and its reports.

        If that fails, raises WriteError for a finished run, and returns it for a run that failed before.
        """
        self.state, self.error = state, error
        content = self.content(state, error)
        return write_all(
            state,
            lambda: self._outputs.end(state, content.summary, self.notes, error),
            lambda: None if self._shared else self._reports.write([content], patient=state == "finished"),
        )
