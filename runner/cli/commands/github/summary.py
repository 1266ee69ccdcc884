"""What a step of GitHub Actions shows: the report as Markdown, wherever a job says that it shows one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from runner.results.reports.content import Part
from runner.results.reports.step_summary import VARIABLE, append_step_summary


def tell_step(contents: Callable[[], Sequence[Part]]) -> None:
    """Append the report to the step's summary, if it has one; what prevents that is no more than a warning."""
    if not (path := os.environ.get(VARIABLE)):
        return
    from runner.cli.views import render
    from runner.results.reports.markdown import markdown_report  # only in such a job

    if why := append_step_summary(path, markdown_report(contents())):
        render.err().say(render.text(f"note: {why}", "yellow"))
