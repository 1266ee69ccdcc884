"""Runs that stop when they are sure: where, what they write, and what they are no good for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from runner import JudgeSettings, evaluate, evaluate_all, stream
from runner.core.errors import NotComparableError
from runner.engine.scoring.summary import Summary
from tests.cli.commands import evalcell, write_rows
from tests.judges.judge import fake_judge, host_of
from tests.judges.test_door import ASKING

SCRIPT = """# /// script
# [tool.evalcell]
# output = {kind = "continuous", lower_bound = 0, upper_bound = 1, direction = "maximize"}
# ///
def evaluate(output):
    if output == "bad":
        raise ValueError("bad")
    return float(output)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("grade.py").write_text(SCRIPT)
    write_rows(Path("data.jsonl"), rows(18))
    write_rows(Path("worse.jsonl"), rows(4))
    return tmp_path


def rows(every: int, count: int = 400) -> list[dict[str, Any]]:
    """One of so many rows is no good."""
    return [{"id": f"r{n}", "output": "0" if n % every == 0 else "1"} for n in range(count)]


def manifest(folder: str = "run") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "manifest.json").read_text())
    return found


def lines(folder: str = "run") -> int:
    return len(Path(folder, "results.jsonl").read_text().splitlines())


def test_it_stops_at_one_row_whatever_the_workers_do_and_resume_finishes_it(here: Path) -> None:
    stops = []
    for jobs in ("1", "8"):
        args = ("grade.py", "data.jsonl", "--require", "mean>=0.8", "--stop-when-sure", "-o", "run/", "--json")
        done = evalcell("run", *args, "--overwrite", "-j", jobs, "--seed", "5")
        assert done.exit_code == 0, done.stderr
        summary = json.loads(done.stdout)
        stops.append((summary["stop"]["row"], summary["rows"], summary["mean"]))
        assert summary["stop"]["row"] == summary["rows"] < 200
        assert lines() == summary["stop"]["scored"]
        assert (manifest()["state"], manifest()["summary"]["stop"]["sure"]) == ("stopped", True)
    assert stops[0] == stops[1]
    refused = evalcell("run", "grade.py", "data.jsonl", "--baseline", "run/", "--fail-if-worse")
    assert (refused.exit_code, "stopped when its gates were sure" in refused.stderr) == (3, True)
    done = evalcell("run", *args, "--resume", "--seed", "5")
    assert done.exit_code == 0, done.stderr
    assert (manifest()["state"], lines(), json.loads(done.stdout)["stop"]) == ("finished", 400, None)
    whole = evaluate("grade.py", "data.jsonl", require="mean>=0.8").summary
    assert (whole.mean, whole.gates[0].verdict) == (json.loads(done.stdout)["mean"], "passed")


@pytest.mark.rotating("early stops", "engine")
def test_it_says_by_what_rule_at_what_risk_and_what_was_saved(here: Path) -> None:
    done = evalcell("run", "grade.py", "worse.jsonl", "--require", "mean>=0.9", "--stop-when-sure")
    words = " ".join(done.stdout.split())
    assert done.exit_code == 1
    assert "by bets on rows" in words
    assert "wrong in 5% of all cases at most; valid although every row was looked at" in words
    assert "rows saved" in words
    assert "required 'mean>=0.9' is not met: the value is" in done.stderr


@pytest.mark.rotating("early stops", "engine")
def test_a_comparison_stops_and_a_gate_among_several_has_a_part_of_the_risk(here: Path) -> None:
    evaluate("grade.py", "data.jsonl", output="base/")
    gates: Any = {"require": "mean>=0.2", "baseline": "base/", "fail_if_worse": 0.0, "stop_when_sure": True}
    report = evaluate("grade.py", "worse.jsonl", **gates)
    stop = report.summary.stop
    assert stop is not None
    assert (stop.sure, stop.tests, stop.alpha) == (True, 2, 0.05)
    assert report.comparison is not None
    assert (report.comparison.verdict, report.comparison.unpaired.only_base.count) == ("worse", 0)
    assert [gate.verdict for gate in report.summary.gates][-1] == "failed"
    # The same outputs have the same scores, for which no bet is needed.
    same = evaluate("grade.py", "data.jsonl", **gates)
    assert [gate.verdict for gate in same.summary.gates] == ["passed", "passed"]
    assert same.summary.rows == 400


@pytest.mark.rotating("early stops", "engine")
def test_evaluators_of_one_command_share_the_risk_of_failing(here: Path) -> None:
    two: Any = {"one": "grade.py", "two": "grade.py"}
    gates: Any = {"require": "mean>=0.8", "stop_when_sure": True, "seed": 5}
    alone = evaluate("grade.py", "data.jsonl", **gates).summary.stop
    both = [report.summary.stop for report in evaluate_all(two, "data.jsonl", **gates).values()]
    assert alone is not None
    # All pass wrongly only where one does: so a gate passes as soon as it does alone.
    assert [stop and (stop.row, stop.tests) for stop in both] == [(alone.row, 2)] * 2
    alone = evaluate("grade.py", "worse.jsonl", **gates).summary.stop
    worse = [report.summary.stop for report in evaluate_all(two, "worse.jsonl", **gates).values()]
    assert alone is not None
    first, second = [stop.row for stop in worse if stop is not None]
    assert first > second == alone.row  # the one that failed leaves its part
    two_runs = "run -e one=grade.py -e two=grade.py data.jsonl --require mean>=0.8 --stop-when-sure"
    words = " ".join(evalcell(*two_runs.split()).stdout.split())
    assert "wrong in 5% of all cases at most, over the 2 gates together (Holm)" in words


@pytest.mark.rotating("early stops", "engine")
def test_two_datasets_are_scored_side_by_side_until_it_is_sure(here: Path) -> None:
    done = evalcell("compare", "grade.py", "data.jsonl", "worse.jsonl", "--stop-when-sure", "--fail-if-worse", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["verdict"]) == (1, "worse")
    assert found["compared"] < 300
    assert any("by bets on pairs" in note for note in found["notes"])
    Path("free.py").write_text(SCRIPT.replace("lower_bound = 0, upper_bound = 1, ", ""))
    few = evalcell("compare", "free.py", "data.jsonl", "worse.jsonl", "--stop-when-sure", "--limit", "90")
    assert (few.exit_code, "declare lower_bound and upper_bound" in few.stderr) == (2, True)


@pytest.mark.rotating("early stops", "engine")
def test_only_a_verdict_is_asked_for_and_arithmetic_ends_the_run(here: Path) -> None:
    write_rows(Path("broken.jsonl"), [{"id": str(n), "output": "bad" if n % 99 == 1 else "1"} for n in range(4000)])
    quiet = evalcell("run", "grade.py", "broken.jsonl", "--max-failed", "3", "-q")
    assert (quiet.exit_code, "sure after 299 of 4,000 rows" in quiet.stderr) == (1, True), quiet.stderr
    both = evalcell("run", "-e", "one=grade.py", "-e", "two=grade.py", "broken.jsonl", "--max-failed", "3", "-q")
    assert (both.exit_code, both.stderr.count("sure after 299 of 4,000 rows")) == (1, 2), both.stderr
    # With results to write all rows are wanted.
    kept = evalcell("run", "grade.py", "broken.jsonl", "--max-failed", "3", "-q", "-o", "all.jsonl")
    assert (kept.exit_code, "41 failed of 4,000 rows" in kept.stderr) == (1, True), kept.stderr
    assert len(Path("all.jsonl").read_text().splitlines()) == 4000


@pytest.mark.rotating("early stops", "engine")
def test_a_stream_ends_when_it_is_sure_and_tells_the_summary(here: Path) -> None:
    told: list[Summary] = []

    async def results() -> int:
        settings: Any = {"require": "mean>=0.8", "stop_when_sure": True, "on_summary": told.append}
        return len([one async for one in stream("grade.py", "data.jsonl", **settings)])

    count = asyncio.run(results())
    (summary,) = told
    assert summary.stop is not None
    assert (count, summary.gates[0].verdict) == (summary.stop.row, "passed")


@pytest.mark.rotating("early stops", "engine")
def test_what_it_cannot_do_is_refused(here: Path) -> None:
    for args, words in (
        (["--stop-when-sure"], "there are none"),
        (["--stop-when-sure", "--require", "median>=0.5"], "cannot be sure of"),
    ):
        done = evalcell("run", "grade.py", "data.jsonl", *args)
        assert (done.exit_code, words in done.stderr) == (2, True), done.stderr
    evaluate("grade.py", "data.jsonl", require="mean>=0.8", stop_when_sure=True, output="run/")
    with pytest.raises(NotComparableError, match="has not all rows"):
        evaluate("grade.py", "data.jsonl", baseline="run/")
    done = evalcell("run", "grade.py", "data.jsonl", "-o", "run/", "--resume", "--limit", "300")
    assert (done.exit_code, "random order" in done.stderr) == (2, True), done.stderr


@pytest.mark.rotating("a judge", "judges")
def test_it_tells_the_calls_of_judges_that_were_not_made(here: Path) -> None:
    Path("asks.py").write_text(
        SCRIPT.partition("def ")[0]
        + ASKING
        + "def evaluate(output):\n"
        + '    return json.loads(json.loads(ask(output))["choices"][0]["message"]["content"])["score"]\n'
    )
    rows = [{"id": str(number), "output": "judge"} for number in range(100)]
    with fake_judge() as judge:
        judges = JudgeSettings(judge=(f"{host_of(judge)}/v1",), in_flight=4)
        stop = evaluate("asks.py", rows, judges=judges, require="mean<=0.98", stop_when_sure=True).summary.stop
        assert stop is not None
        assert (stop.sure, stop.judge_calls_saved) == (True, 100 - stop.scored)
        assert len(judge.requests) == stop.scored < 60
