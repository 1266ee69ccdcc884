"""
The pytest plugin: `NAME.cases.jsonl` beside an evaluator as tests, and the fixture `evalcell`.

pytest imports this file in each of its runs, so it imports nothing of evalcell before that is needed.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.runs.report import Report

_SUFFIX = ".cases.jsonl"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect worked examples that have an evaluator beside them, or that the command line names."""
    if not file_path.name.endswith(_SUFFIX):
        return None
    from runner.runs.pytest_plugin.examples import ExamplesFile, evaluators

    found = evaluators(file_path, file_path.name.removesuffix(_SUFFIX))
    if not found and not parent.session.isinitpath(file_path):
        return None  # somebody else's file
    return ExamplesFile.from_parent(parent, path=file_path, evaluators=found)


@pytest.fixture
def evalcell(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """
    Return `evalcell.evaluate`, which shows the summary and the worst rows if the test fails.

    Takes and raises what `evaluate` does: `report = evalcell("same.py", "data.jsonl")`.
    """
    from functools import wraps

    from runner.runs.api.run import evaluate
    from runner.runs.pytest_plugin.report import report_text

    @wraps(evaluate)
    def run(*args: object, **keywords: object) -> Report:
        report = evaluate(*args, **keywords)  # type: ignore[arg-type]
        # pytest shows a section only with a test that fails.
        request.node.add_report_section("call", "evalcell", report_text(report))
        return report

    return run
