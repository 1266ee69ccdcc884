"""How a run is concluded: judged by its gates and its baseline, shown in reports, and written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from runner.core.types import OutputConfig
from runner.engine.request import Prepared
from runner.engine.scoring.allowance import parse_allowed
from runner.engine.scoring.gates import judge, parse_gate
from runner.engine.scoring.label_notes import label_notes
from runner.engine.scoring.summary import Stats, Summary
from runner.engine.scoring.sums import Sums
from runner.engine.scoring.worst import ShownRows
from runner.results.output.files import WriteError
from runner.results.output.manifest import State
from runner.results.reports.content import RunContent
from runner.runs.stored import one_finished

if TYPE_CHECKING:
    from runner.results.compare.baseline import Baseline


class Conclusion:
    """
    What a run is judged by. `figures`: gates may name what the script's `aggregate` gives.

    Raises InputError for an invalid gate, and as `Baseline` does.
    """

    def __init__(self, prepared: Prepared, *, figures: bool = False) -> None:
        request, evaluator = prepared.request, prepared.evaluator
        outputs: Mapping[str, OutputConfig | Stats] = dict(evaluator.outputs)
        self._prepared = prepared
        self._gates = [parse_gate(text, outputs, required=True, figures=figures) for text in request.require]
        self._gates += [parse_gate(text, outputs, figures=figures) for text in request.gates]
        self._allowed = parse_allowed(request.max_failed, request.max_abstained)
        self.max_failed = self._allowed[0]
        self.baseline: Baseline | None = None
        if request.baseline is not None or request.fail_if_worse is not None or request.allow_inconclusive:
            from runner.results.compare.baseline import baseline_of  # here: few runs have one

            with nullcontext() if request.baseline is None else one_finished(request.baseline) as source:
                self.baseline = baseline_of(request, evaluator, source)

    @property
    def inputs(self) -> list[str]:
        """The files that the run reads, which no output may replace."""
        return [*self._prepared.inputs, *([self.baseline.path] if self.baseline else [])]

    def judged(self, summary: Summary, complete: bool) -> Summary:
        """The summary of all rows with its gates. `complete`: the dataset was read to its end."""
        judged = judge(summary, self._gates, *self._allowed, complete=complete)
        if self.baseline is None:
            return judged
        return judged.model_copy(update={"gates": (*judged.gates, *self.baseline.gates(complete))})

    def content(self, state: State, notes: Sequence[str], **more: Any) -> RunContent:
        """What a report shows of the run; `more` are further fields of it."""
        compared = self.baseline if state == "finished" else None
        return RunContent(
            name=self._prepared.evaluator.name,
            state=state,
            source=self._prepared.dataset or "",
            notes=[
                *notes,
                *label_notes(more["summary"], self._prepared.evaluator, more["shown"].rows),
                *([compared.why] if compared and compared.why else []),
            ],
            comparison=compared.comparison if compared else None,
            **more,
        )


def first_rows(sums: Sums, count: int) -> ShownRows:
    """The rows to look at first; reports may keep more of them."""
    found = sums.shown()
    return found.model_copy(update={"rows": found.rows[:count]})


def with_rate(summary: Summary, fresh: int, seconds: float) -> Summary:
    """The summary, with the rows a second of those that were scored now."""
    return summary.model_copy(update={"rows_per_second": round(fresh / seconds, 1)}) if seconds else summary


def write_all(state: State, *steps: Callable[[], object]) -> WriteError | None:
    """
    Take each step, whether or not another one fails.

    If one does, raises WriteError for a finished run, and returns it for a run that failed before.
    """
    failures: list[WriteError] = []
    for step in steps:
        try:
            step()
        except WriteError as e:
            failures.append(e)
    if failures and state == "finished":
        raise failures[0]
    return next(iter(failures), None)
