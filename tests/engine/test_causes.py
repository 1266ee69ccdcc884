"""A run whose first rows fail for one and the same cause is stopped; nothing that was scored is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import FailedRowsError, evaluate, evaluate_all
from runner.core.types import Outcome, Result, ResultError
from runner.engine.scoring.causes import Causes
from runner.engine.scoring.failure_limits import parse_most
from tests.cli.commands import evalcell, run, write_rows
from tests.inputs.reading import written

HALF = "def evaluate(output):\n    return 1 / (output % 5 > 2)\n"  # 3 of 5 rows raise


def row(number: int, message: str | None) -> Result:
    error = None if message is None else ResultError(kind="raised", message=message)
    outcome: Outcome = "scored" if message is None else "failed"
    return Result(
        id=str(number), number=number, evaluator="e", version="v", sandbox="s", outcome=outcome, score=1.0, error=error
    )


def stop(messages: list[str | None], allowed: str | None = None, total: int | None = None) -> int | None:
    """The number of the row after which the run stops."""
    causes = Causes(None if allowed is None else parse_most(allowed), lambda: total)
    return next((n for n, message in enumerate(messages, 1) if causes.add(row(n, message), n)), None)


def test_more_than_half_of_the_first_hundred_for_one_cause() -> None:
    alike = [f"ValueError: 'text {n}' in row {n}, column {n:,}.{n}" for n in range(300)]
    assert stop([*alike]) == 51
    assert stop([*alike[:50], *[None] * 250]) is None
    assert stop([None] * 49 + [*alike]) == 100
    assert stop([None] * 50 + [*alike]) is None  # those after the first hundred say nothing
    assert stop([message for n in range(150) for message in (f"KeyError: '{n}'", "another", None)]) is None
    assert stop([None] * 300) is None


def test_what_is_allowed_to_fail_goes_on() -> None:
    alike: list[str | None] = ["ValueError: x"] * 300
    assert stop(alike, "100%") is None
    assert stop(alike, "300") is None
    assert stop(alike, "99") == 100
    assert stop(alike, "10") == 51
    assert stop(alike, "20%", 300) == 61
    assert stop(alike, "60%") == 61  # the number of all rows is not known
    assert stop(alike, "0") == 51


def test_a_run_stops_with_3_and_keeps_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "half.py", HALF)
    write_rows(tmp_path / "rows.jsonl", [{"output": n} for n in range(300)])
    stopped = run("half.py", "rows.jsonl", "-q", "-o", "run/")
    assert stopped.exit_code == 3
    assert stopped.stdout == ""
    assert "because 51 of them failed for one cause; as in row" in stopped.stderr
    assert "ZeroDivisionError" in stopped.stderr
    assert "--max-failed 100%" in stopped.stderr
    rows = (tmp_path / "run/results.jsonl").read_text().splitlines()
    assert 83 <= len(rows) < 300
    assert json.loads((tmp_path / "run/manifest.json").read_text())["state"] == "failed"

    assert run("half.py", "rows.jsonl", "-q", "-o", "run/", "--resume").exit_code == 3
    whole = run("half.py", "rows.jsonl", "-o", "run/", "--resume", "--max-failed", "60%", "--json")
    assert whole.exit_code == 0
    summary = json.loads(whole.stdout)
    assert (summary["rows"], summary["scored"], summary["failed"], summary["mean"]) == (300, 120, 180, 1.0)
    assert (tmp_path / "run/results.jsonl").read_text().splitlines()[: len(rows)] == rows
    written(tmp_path, "one.py", "def evaluate(output):\n    return 1\n")
    several = evalcell("run", "-e", "half.py", "-e", "one.py", "rows.jsonl", "-o", "both/", "-q")
    assert several.exit_code == 3
    assert len((tmp_path / "both/one/results.jsonl").read_text().splitlines()) == 300
    assert "half: stopped after" in several.stderr


def test_python_gets_the_rows_with_the_exception(tmp_path: Path) -> None:
    script = written(tmp_path, "half.py", HALF)
    rows = [{"output": n} for n in range(300)]
    with pytest.raises(FailedRowsError, match="failed for one cause") as stopped:
        evaluate(script, rows)
    report = stopped.value.report
    assert 83 <= report.summary.rows == len(report.results) < 300
    assert report.summary.failed > 50
    assert evaluate(script, rows, max_failed="100%").summary.scored == 120
    assert evaluate(script, rows[:60]).summary.failed == 36
    one = written(tmp_path, "one.py", "def evaluate(output):\n    return 1\n")
    with pytest.raises(FailedRowsError) as both:
        evaluate_all([script, one], rows)
    assert both.value.reports["one"].summary.scored == 300
    assert both.value.reports["half"].summary.rows < 300


def test_a_run_in_parts_stops_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "half.py", HALF)
    for name in "ab":
        write_rows(tmp_path / f"rows-{name}.jsonl", [{"output": n} for n in range(150)])
    words = ("half.py", "rows-*.jsonl", "-o", "run/", "-q")
    stopped = run(*words)
    assert stopped.exit_code == 3
    assert "failed for one cause" in stopped.stderr
    assert run(*words, "--resume", "--max-failed", "60%").exit_code == 0
    assert json.loads((tmp_path / "run/manifest.json").read_text())["summary"]["failed"] == 180
