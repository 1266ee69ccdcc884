"""`evaluate` of a dataset of several files: in parts, whose results stay in their folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runner.engine.request import RunRequest
from runner.results.notebook.waiting import wait
from runner.results.output.manifest import State
from runner.runs.parts.run import PartsRun
from runner.runs.report import Report
from runner.runs.stored import prepare


def evaluate_parts(
    request: RunRequest, *, files: Sequence[str], reports: Sequence[str], resume: bool, overwrite: bool, save: bool
) -> Report:
    """Score all parts; the report has no results, which may be too many for memory. Raises what `evaluate` does."""
    prepared = replace(prepare(request.model_copy(update={"on": None})), request=request)
    run = PartsRun(prepared, files=files, reports=reports, resume=resume, overwrite=overwrite, save=save)
    with run.open():
        try:
            wait(run.score, None)
        except BaseException as e:
            how: State = "failed" if isinstance(e, Exception) else "interrupted"
            run.end(how, str(e) or None)
            raise
        run.end("finished")
    made = None if run.baseline is None else run.baseline.comparison
    return Report(results=[], summary=run.summary(), shown=run.shown(), comparison=made, notes=tuple(run.notes))
