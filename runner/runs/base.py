"""What every run has: its gates and its baseline, what reports show of it, and how its end is written down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from runner.core.types import OutputConfig
from runner.engine.judge_usage import judge_usage
from runner.engine.request import PreparedRun
from runner.engine.scoring.failure_limits import parse_allowed
from runner.engine.scoring.gates import judge, parse_gate
from runner.engine.scoring.groups import Groups
from runner.engine.scoring.label_notes import label_notes
from runner.engine.scoring.overview import stop_words
from runner.engine.scoring.run_totals import Sums
from runner.engine.scoring.shown_rows import ShownRows
from runner.engine.scoring.summary import Stats, Summary
from runner.results.output.files import WriteError
from runner.results.output.manifest import State
from runner.results.reports.content import RunContent
from runner.results.reports.files import ReportFiles
from runner.runs.store_references import one_finished

if TYPE_CHECKING:
    from runner.results.compare.baseline import Baseline
    from runner.results.output.resume import ResumableRun
    from runner.runs.early_stop import StopWatch


class BaseRun(ABC):
    """
    One run, in one piece or in parts. `figures`: gates may name what the script's `aggregate` gives.

    Raises InputError for an invalid gate, as `Baseline` does, and OutputError for a path that cannot be written.
    """

    resumed: ResumableRun | None = None
    """The rows that are there already, of a run in a folder that goes on."""
    state: State | None = None
    """How it ended. None: it did not."""
    error: str | None = None
    """What it failed with."""
    watch: StopWatch | None = None
    """Tells when its verdict is sure, if it is to stop then."""
    hidden: str = ""
    """Which errors the script hides, where all rows end alike."""

    def __init__(
        self,
        prepared: PreparedRun,
        files: Sequence[str],
        reports: Sequence[str] | ReportFiles,
        lock: str | None,
        *,
        figures: bool = False,
    ) -> None:
        request, evaluator = prepared.request, prepared.evaluator
        outputs: Mapping[str, OutputConfig | Stats] = dict(evaluator.outputs)
        self.prepared = prepared
        self._gates = [parse_gate(text, outputs, required=True, figures=figures) for text in request.require]
        self._gates += [parse_gate(text, outputs, figures=figures) for text in request.gates]
        self._allowed = parse_allowed(request.max_failed, request.max_abstained)
        self.baseline: Baseline | None = None
        if request.baseline is not None or request.fail_if_worse is not None or request.allow_inconclusive:
            from runner.results.compare.baseline import baseline_of  # here: few runs have one

            with nullcontext() if request.baseline is None else one_finished(request.baseline) as source:
                self.baseline = baseline_of(request, evaluator, source)
        baseline = [self.baseline.path] if self.baseline else []
        self._inputs = [*prepared.inputs, *baseline] if files or reports else []
        """The files that the run reads, which no output may replace."""
        self._shared = isinstance(reports, ReportFiles)
        self._reports = (
            reports
            if isinstance(reports, ReportFiles)
            else ReportFiles(reports, inputs=[*self._inputs, *([lock] if lock else [])], taken=files)
        )
        groups = None if request.by is None else Groups(request.by, evaluator.configs)
        self.sums = Sums(evaluator, request.repeat, max(request.worst, self._reports.rows), request.show, groups)
        self._seconds = 0.0

    @property
    @abstractmethod
    def notes(self) -> Sequence[str]:
        """Notes about the dataset, for people."""

    @property
    @abstractmethod
    def written(self) -> dict[str, int]:
        """The number of whole rows in each file and the folder, by path."""

    @abstractmethod
    def total(self) -> int | None:
        """Return the number of results to come, if it is known yet."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the dataset was read to its end."""

    @property
    def saved(self) -> str | None:
        """Its id in the store, if it is saved and has begun."""
        return None

    @property
    def count(self) -> int:
        """Results so far: a row has one, or as many as it is repeated."""
        return self.sums.count

    def _before(self) -> int:
        """The results that were there already."""
        return 0

    def shown(self) -> ShownRows:
        """Return the rows to look at first, so far; reports may keep more of them."""
        found = self.sums.shown()
        return found.model_copy(update={"rows": found.rows[: self.prepared.request.worst]})

    def summary(self, state: State = "finished") -> Summary:
        """Return the summary of the rows so far. Gates are judged only when all rows are done."""
        request = self.prepared.request
        summary = self.sums.summary(self._seconds, cache=request.cache).model_copy(update=self._figures_of_all())
        if (before := self._before()) and self._seconds:
            fresh = max(0, summary.rows - before // request.repeat)
            summary = summary.model_copy(update={"rows_per_second": round(fresh / self._seconds, 1)})
        if (usage := judge_usage(self.prepared.sandbox)) is not None:
            summary = summary.model_copy(update={"judges": usage})
        if state != "finished":
            return summary
        if self.watch is not None and self.watch.sure:
            return self.watch.judge(summary)
        if self.watch is not None and self.watch.random:
            summary = summary.model_copy(update={"stop": self.watch.stop})
        judged = judge(summary, self._gates, *self._allowed, complete=self.complete)
        if self.baseline is None:
            return judged
        return judged.model_copy(update={"gates": (*judged.gates, *self.baseline.gates(self.complete))})

    def _figures_of_all(self) -> Mapping[str, Any]:
        """What the script's `aggregate` gave, by the summary's fields."""
        return {}

    def content(self, state: State = "finished", error: str | None = None) -> RunContent:
        """Return what a report shows of the rows so far; `error` is what the run failed with."""
        summary, shown = self.summary(state), self.sums.shown()
        compared = self.baseline if state == "finished" else None
        return RunContent(
            name=self.prepared.evaluator.name,
            state=state,
            source=self.prepared.dataset or "",
            notes=[
                *self.notes,
                *([stop_words(summary.stop)] if summary.stop else []),
                *self.label_notes(summary, shown),
                *([compared.why] if compared and compared.why else []),
            ],
            comparison=compared.comparison if compared else None,
            error=error,
            summary=summary,
            shown=shown,
            **self._reported(),
        )

    def label_notes(self, summary: Summary, rows: ShownRows) -> list[str]:
        """Return what there is to say of its labels and scores."""
        prepared = self.prepared
        return [*label_notes(summary, prepared.evaluator, rows.rows, self.hidden)]

    @abstractmethod
    def _reported(self) -> dict[str, Any]:
        """The rows that reports list, by the fields of RunContent."""

    def end(self, state: State, error: str | None = None) -> WriteError | None:
        """
        Write to the manifest how the run ended, and its reports, whether or not one of them fails.

        If one does, raises WriteError for a finished run, and returns it for a run that failed before.
        """
        self.state, self.error = state, error
        content = self.content(state, error)
        stopped = state == "finished" and self.watch is not None and self.watch.sure
        steps: list[Callable[[], object]] = [
            lambda: self._write_end("stopped" if stopped else state, content.summary, error)
        ]
        if not self._shared:
            steps.append(lambda: self._reports.write([content], patient=state == "finished"))
        failures: list[WriteError] = []
        for step in steps:
            try:
                step()
            except WriteError as e:
                failures.append(e)
        if failures and state == "finished":
            raise failures[0]
        return next(iter(failures), None)

    @abstractmethod
    def _write_end(self, state: State, summary: Summary, error: str | None) -> None:
        """Write it to the manifest. Raises WriteError."""
