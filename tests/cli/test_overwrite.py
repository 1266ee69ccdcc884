"""A folder that has rows is not overwritten without a word; a run of the first rows goes on with more of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate, evaluate_all, evaluate_project
from runner.core.errors import OutputError, OverwriteError, ResumeError
from sandboxes import SandboxConfig
from tests.cli.commands import evalcell, run, write_rows
from tests.cli.test_process import COMMAND, ENV, start, wait_for_rows

SCRIPT = "SEEN = []\ndef evaluate(output):\n    SEEN.append(output)\n    return {'score': len(SEEN), 'label': output}\n"
ROWS = [{"id": f"r{n}", "output": f"x{n}"} for n in range(30)]
ONE = SandboxConfig(jobs=1)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("seen.py").write_text(SCRIPT)
    write_rows(Path("rows.jsonl"), ROWS)
    for name in "ab":
        write_rows(Path(f"some-{name}.jsonl"), [{**row, "id": f"{name}{row['id']}"} for row in ROWS])
    return tmp_path


def rows(folder: str) -> list[dict[str, Any]]:
    files = sorted(Path(folder).glob("parts/*/results.jsonl")) or [Path(folder, "results.jsonl")]
    return [{**json.loads(line), "duration_ms": 0} for file in files for line in file.read_text().splitlines()]


def summary(folder: str) -> dict[str, Any]:
    manifest = json.loads(Path(folder, "manifest.json").read_text())
    return {
        **manifest["summary"],
        "seconds": 0,
        "rows_per_second": 0,
        **manifest["dataset"],
        "state": manifest["state"],
    }


@pytest.mark.parametrize("dataset", ["rows.jsonl", "some-*.jsonl"])
def test_rows_stay_until_it_is_said(dataset: str) -> None:
    words = ["seen.py", dataset, "-j", "1", "-o", "run/"]
    assert evalcell("run", *words).exit_code == 0
    before = rows("run")
    done = evalcell("run", *words, "--limit", "3")
    assert (done.exit_code, done.stdout) == (2, "")
    typed = f"evalcell run {shlex.join(words)} --limit 3"
    assert done.stderr == (
        "evalcell: -o run has rows of an earlier run; add --resume to go on with it or --overwrite to start anew, or "
        f"choose another folder\nRun this to go on with it:\n  {typed} --resume\n"
        f"Run this to start anew, without the rows that are there:\n  {typed} --overwrite\n"
    )
    assert rows("run") == before
    assert evalcell("run", *words, "--limit", "3", "--overwrite").exit_code == 0
    assert rows("run") == before[:3]
    both = evalcell("run", *words, "--resume", "--overwrite")
    assert (both.exit_code, "give one of them" in both.stderr) == (2, True)


@pytest.mark.parametrize("sandbox", ["wasm", "process"])
@pytest.mark.parametrize("repeat", ["1", "2"])
def test_more_rows_of_the_dataset_go_on(sandbox: str, repeat: str) -> None:
    words = ["seen.py", "rows.jsonl", "--sandbox", sandbox, "--repeat", repeat, "--seed", "1"]
    assert run(*words, "-o", "all/", "-q").exit_code == 0
    for limit in ("10", "10", "20", "99"):
        done = run(*words, "-o", "part/", "--resume", "--limit", limit)
        assert done.exit_code == 0, done.stderr
    assert "goes on after" not in done.stderr or sandbox == "process" or "after 20 rows" in done.stderr
    assert run(*words, "-o", "part/", "--resume", "-q").exit_code == 0
    assert rows("part") == rows("all")
    assert summary("part") | {"limit": None} == summary("all")
    fewer = run(*words, "-o", "part/", "--resume", "--limit", "29")
    assert fewer.exit_code == 2
    assert "part/ cannot be resumed: it has 30 rows already, and `limit` is 29; undo that, or give" in fewer.stderr
    assert "give --overwrite in place of --resume to start anew" in fewer.stderr
    finished = run(*words, "-o", "part/", "--resume", "--limit", "30")
    assert "part/ is finished, with 30 rows: nothing is scored again" in finished.stderr


def test_more_rows_in_parts() -> None:
    words = ["seen.py", "some-*.jsonl", "-j", "1", "-q"]
    assert evalcell("run", *words, "-o", "all/").exit_code == 0
    for limit in (["--limit", "10"], ["--limit", "30"], ["--limit", "45"], ["--limit", "60"], []):
        done = evalcell("run", *words, "-o", "part/", "--resume", *limit)
        assert done.exit_code == 0, done.stderr
        assert len(rows("part")) == int([*limit, "60"][1]) if limit else 60
    assert rows("part") == rows("all")
    figures = {"limit": None, "path": None, "stamp": None}
    assert summary("part") | figures == summary("all") | figures
    fewer = evalcell("run", *words, "-o", "part/", "--resume", "--limit", "10")
    assert (fewer.exit_code, "it has 60 rows already, and `limit` is 10" in fewer.stderr) == (2, True), fewer.stderr


def test_python_says_it_too() -> None:
    first = evaluate("seen.py", ROWS[:10], output="run/", sandbox=ONE)
    with pytest.raises(OverwriteError, match="add `resume` to go on with it or `overwrite` to start anew"):
        evaluate("seen.py", ROWS, output="run/", sandbox=ONE)
    assert issubclass(OverwriteError, OutputError)
    report = evaluate("seen.py", ROWS, output="run/", sandbox=ONE, resume=True)
    assert (report.summary.rows, len(rows("run"))) == (30, 30)
    assert [one.score for one in report.results[:10]] == [one.score for one in first.results]
    assert evaluate("seen.py", ROWS[:5], output="run/", sandbox=ONE, overwrite=True).summary.rows == 5
    assert len(rows("run")) == 5
    with pytest.raises(ResumeError, match=r"it has 5 rows already, and `limit` is 4"):
        evaluate("seen.py", ROWS, output="run/", sandbox=ONE, resume=True, limit=4)
    assert evaluate("seen.py", ROWS, output="run/", sandbox=ONE, resume=True, limit=7).summary.rows == 7
    evaluate_all({"a": "seen.py"}, "rows.jsonl", output="several/", sandbox=ONE)
    with pytest.raises(OverwriteError, match='output="several/a" has rows'):
        evaluate_all({"a": "seen.py"}, "rows.jsonl", output="several/", sandbox=ONE)
    evaluate_all({"a": "seen.py"}, "rows.jsonl", output="several/", sandbox=ONE, overwrite=True)
    evaluate("seen.py", "some-*.jsonl", output="parts/", sandbox=ONE)
    with pytest.raises(OverwriteError):
        evaluate("seen.py", "some-*.jsonl", output="parts/", sandbox=ONE)
    evaluate("seen.py", "some-*.jsonl", output="parts/", sandbox=ONE, overwrite=True)


def test_a_file_says_it_for_each_day() -> None:
    text = 'dataset = "rows.jsonl"\nevaluator = "seen.py"\njobs = 1\noutput = "run/"\n'
    Path("evalcell.toml").write_text(text)
    assert evalcell("run", "-q").exit_code == 0
    again = evalcell("run")
    assert again.exit_code == 2
    assert "-o run has rows of an earlier run" in again.stderr
    assert "`overwrite = true` in evalcell.toml starts it anew each time" in again.stderr
    assert "\n  evalcell run --overwrite\n" in again.stderr
    with pytest.raises(OverwriteError, match="overwrite = true"):
        evaluate_project()
    for words in (["--overwrite"], ["--resume"]):
        assert evalcell("run", "-q", *words).exit_code == 0
    evaluate_project(overwrite=True)
    Path("evalcell.toml").write_text(text + "overwrite = true\nlimit = 3\n")
    assert evalcell("run", "-q").exit_code == 0
    assert len(rows("run")) == 3
    Path("evalcell.toml").write_text(text + "overwrite = true\n")
    resumed = evalcell("run", "--resume")
    assert (resumed.exit_code, "run/ goes on after 3 rows" in resumed.stderr) == (0, True), resumed.stderr


def test_what_is_no_run_s_is_not_replaced_either() -> None:
    Path("site").mkdir()
    Path("site/manifest.json").write_text('{"name": "my app"}')
    done = run("seen.py", "rows.jsonl", "-o", "site/")
    assert (done.exit_code, "manifest.json in it is none of a run; add --overwrite" in done.stderr) == (2, True)
    assert Path("site/manifest.json").read_text() == '{"name": "my app"}'
    Path("site/manifest.json").unlink()
    Path("site/results.jsonl").write_text("")  # as of a run that was stopped before its first row
    assert run("seen.py", "rows.jsonl", "-o", "site/", "-q").exit_code == 0
    assert run("seen.py", "rows.jsonl", "-o", "one.jsonl", "-q").exit_code == 0
    assert run("seen.py", "rows.jsonl", "-o", "one.jsonl", "-q").exit_code == 0  # a single file, as always


def test_another_run_may_have_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked at an empty folder; the other has ended meanwhile."""
    from runner.results.output.folder import ResultsFolder

    assert run("seen.py", "rows.jsonl", "-o", "other/", "-q").exit_code == 0
    before = Path("other/results.jsonl").read_bytes()
    make = ResultsFolder._make

    def late(folder: Any) -> Any:
        shutil.copytree("other", "run")
        return make(folder)

    monkeypatch.setattr(ResultsFolder, "_make", late)
    done = run("seen.py", "rows.jsonl", "-o", "run/")
    assert (done.exit_code, "has rows of an earlier run" in done.stderr) == (2, True), done.output
    assert Path("run/results.jsonl").read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("more", [[], ["--resume"], ["--overwrite"]], ids=["anew", "resume", "overwrite"])
def test_an_interrupt_prints_the_command_that_goes_on(here: Path, more: list[str]) -> None:
    Path("slow.py").write_text("import time\ndef evaluate(output):\n    time.sleep(0.03)\n    return 1.0\n")
    write_rows(Path("many.jsonl"), ROWS * 10)
    process = start(here, "run", "slow.py", "many.jsonl", "-j", "1", "-o", "my run/", *more)
    wait_for_rows(here / "my run" / "results.jsonl", 5)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    found = re.search(r"^go on with it: (evalcell .*)$", said, re.MULTILINE)
    assert found, said
    assert found[1] == "evalcell run slow.py many.jsonl -j 1 -o 'my run/' --resume"
    words = [*COMMAND, *shlex.split(found[1])[1:], "--limit", "9000"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=ENV)
    assert done.returncode == 0, done.stderr
    assert re.search(r"my run/ goes on after \d+ rows", done.stderr), done.stderr
    assert len(rows("my run")) == 300
