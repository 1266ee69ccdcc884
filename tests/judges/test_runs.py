"""Runs whose scripts ask judges by clients of their own: rows, the summary, records, and going on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import JudgeSettings, UnsupportedConfigError, evaluate
from runner.core.errors import InputError
from sandboxes.judges.budget import SpentError, TotalBudget
from sandboxes.judges.grant import JudgeBudget
from tests.judges.judge import KEY, VARIABLE, fake_judge, host_of
from tests.judges.test_door import ASKING

SWALLOWS = (
    ASKING
    + """
def evaluate(output):
    try:
        return json.loads(json.loads(ask(output))["choices"][0]["message"]["content"])["score"]
    except Exception:
        return 0
"""
)


@pytest.fixture
def judge() -> Iterator[Any]:
    with fake_judge() as judge:
        yield judge


def rows(*models: str) -> list[dict[str, str]]:
    return [{"id": str(number), "output": model} for number, model in enumerate(models)]


def settings(judge: Any, **more: Any) -> JudgeSettings:
    return JudgeSettings(judge=f"{host_of(judge)}/v1", **more)  # type: ignore[arg-type]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SWALLOWS)
    return str(path)


def test_a_failure_is_never_a_score(judge: Any, script: str) -> None:
    report = evaluate(script, rows("judge", "error-500", "judge+x"), judges=settings(judge, judge_timeout=1))
    assert [result.outcome for result in report.results] == ["scored", "lost", "scored"]
    assert "did not answer" in str(report.results[1].error)
    assert report.summary.judges is not None
    assert (report.summary.judges.calls, report.summary.judges.failed) == (2, 1)


def test_rows_that_are_alike_pay_once(judge: Any, script: str) -> None:
    report = evaluate(script, rows(*(f"say-x+{number}" for number in range(4))), judges=settings(judge))
    assert {result.score for result in report.results} == {0}
    assert len(judge.requests) == 4


def test_what_keeps_this_machine_from_asking_is_no_score(
    judge: Any, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(socket, "getaddrinfo", no_thread)
    (one,) = evaluate(script, rows("judge"), judges=settings(judge)).results
    assert (one.outcome, "could not be asked" in str(one.error)) == ("lost", True), one


def test_a_spent_budget_loses_rows(judge: Any, script: str) -> None:
    report = evaluate(script, rows(*["judge"] * 8), judges=settings(judge, budget="requests=5"))
    assert sorted(result.outcome for result in report.results) == ["lost"] * 3 + ["scored"] * 5
    assert report.summary.judges is not None
    assert (report.summary.judges.requests, report.summary.judges.refused) == (5, 3)
    assert len(judge.requests) == 5


def test_a_replay_gives_the_same_rows(judge: Any, script: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    first = evaluate(script, rows("judge", "say-1", "judge+y"), judges=settings(judge, record=record), repeat=2)
    asked = len(judge.requests)
    again = evaluate(script, rows("judge", "say-1", "judge+y"), judges=settings(judge, replay=record), repeat=2)

    def plain(results: Any) -> list[dict[str, Any]]:
        return [result.model_dump(exclude={"duration_ms", "waiting_ms"}) for result in results]

    assert plain(again.results) == plain(first.results)
    assert len(judge.requests) == asked == 6
    assert again.summary.judges is not None
    assert again.summary.judges.replayed == 6


def test_a_run_goes_on_without_paying_twice(judge: Any, script: str, tmp_path: Path) -> None:
    folder = f"{tmp_path}/run/"
    evaluate(script, rows("judge", "count"), judges=settings(judge), output=folder, limit=1)
    record = Path(folder) / "judge.jsonl"
    (line,) = map(json.loads, record.read_text().splitlines())
    assert line["row"] == "0"
    # As if it had been killed after the second answer, and before its row was written.
    evaluate(script, rows("judge", "count"), judges=settings(judge, record=tmp_path / "other"))
    lines = (tmp_path / "other").read_text().splitlines()
    (second,) = (line for line in lines if json.loads(line)["row"] == "1")
    with record.open("a") as end:
        end.write(f"{second}\n")
    asked = len(judge.requests)
    report = evaluate(script, rows("judge", "count"), judges=settings(judge), output=folder, limit=2, resume=True)
    assert len(judge.requests) == asked
    assert report.summary.judges is not None
    assert report.summary.judges.replayed == 1
    manifest = json.loads((Path(folder) / "manifest.json").read_text())
    assert manifest["judges"]["hosts"] == [host_of(judge)]
    evaluate(script, rows("judge", "count"), judges=settings(judge), output=folder, overwrite=True)
    assert len(judge.requests) == asked + 2
    assert len(record.read_text().splitlines()) == 2


def test_no_key_is_in_what_is_written(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    (tmp_path / "script.py").write_text(ASKING + "def evaluate(output):\n    print(x := ask(output))\n    return x\n")
    with fake_judge(require_key=KEY) as judge:
        asking = settings(judge, secret=f"{VARIABLE}@{host_of(judge)}")
        folder, report = f"{tmp_path}/run/", str(tmp_path / "report.html")
        found = evaluate(script, rows("echo", "judge"), judges=asking, output=folder, report=report)
        assert found.summary.rows == 2
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 5
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    assert KEY not in found.summary.model_dump_json()


def test_what_cannot_ask_says_so(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UnsupportedConfigError, match="OPENAI_API_KEY is not set"):
        evaluate(script, rows("judge"), judges=JudgeSettings(judge="openai"))  # type: ignore[arg-type]
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"output": "judge"}\n')
    with pytest.raises(InputError, match="join the files"):
        evaluate(
            script,
            str(tmp_path / "?.jsonl"),
            output=f"{tmp_path}/parts/",
            judges=JudgeSettings(judge="http://127.0.0.1:1"),  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("stream", [False, True])
def test_a_changed_script_pays_only_for_changed_prompts(
    stream: bool, judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    asked = []
    for number, user in enumerate(("output", "output", "output * 2")):
        source = f"def evaluate(output): return {number} + len(ask('judge', user={user}, stream={stream}))\n"
        (tmp_path / "script.py").write_text(ASKING + source)
        record = tmp_path / f"record{number}"
        report = evaluate(
            tmp_path / "script.py", rows("a", "b", "a"), judges=settings(judge, record=record), cache=True
        )
        assert [one.outcome for one in report.results] == ["scored"] * 3
        assert len(record.read_text().splitlines()) == 3  # with what was kept
        asked.append(len(judge.requests))
    assert asked == [3, 3, 6]


@pytest.mark.rotating("a record on a full disk", "judges")
def test_a_record_that_takes_no_more_is_never_a_score(judge: Any, script: str, tmp_path: Path) -> None:
    """The limit of a file's size, of a process of its own, stands for a disk that is full."""
    code = f"""
import resource, signal
from runner import JudgeSettings, evaluate
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
rows = [{{"id": str(number), "output": "judge"}} for number in range(4)]
judges = JudgeSettings(judge={f"{host_of(judge)}/v1"!r}, record={str(tmp_path / "record")!r}, in_flight=1)
for one in evaluate({script!r}, rows, judges=judges).results:
    print(one.outcome, one.error and one.error.message)
"""
    told = subprocess.check_output([sys.executable, "-B", "-c", code], text=True, timeout=120).splitlines()
    assert [line.split()[0] for line in told].count("lost") >= 1, told
    assert all("File too large" in line for line in told if line.startswith("lost"))
    lines = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    assert len([line for line in lines if "failed" not in line]) == [line.split()[0] for line in told].count("scored")


def test_a_budget_that_cannot_be_counted_is_spent(tmp_path: Path) -> None:
    (tmp_path / "sums").touch()
    file = os.open(tmp_path / "sums", os.O_RDONLY)
    budget = TotalBudget(JudgeBudget(requests=5), file)
    with pytest.raises(SpentError, match="cannot be written"):
        budget.add(1, 0, 0.0, bounded=True)
    budget.add(-1, 0, 0.0)
    os.close(file)
