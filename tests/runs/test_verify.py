"""Are the rows of a finished run what its script gives? Run again from what the folder holds."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from runner import JudgeSettings, evaluate, verify
from tests.cli.commands import evalcell, write_rows
from tests.judges.judge import fake_judge, host_of
from tests.judges.test_runs import SWALLOWS

HELPER = "import random\ndef grade(text):\n    return len(text) + random.random()\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("words.py").write_text(HELPER)
    Path("grade.py").write_text("from words import grade\ndef evaluate(output):\n    return grade(output)\n")
    write_rows(Path("data.jsonl"), [{"id": f"r{n}", "output": "x" * (n % 7)} for n in range(40)])
    evaluate("grade.py", "data.jsonl", seed=3, repeat=2, output="run/")
    return tmp_path


def test_a_run_is_equal_without_its_script_and_a_statement_says_so(here: Path) -> None:
    for name in ("grade.py", "words.py"):
        Path(name).unlink()  # the folder has them
    done = evalcell("verify", "run/", "--sample", "25%", "--attest", "said.json", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["sample"], found["equal"], found["different"]) == (10, 20, 0)
    said = json.loads(Path("said.json").read_text())
    results = sha256(Path("run/results.jsonl").read_bytes()).hexdigest()
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["subject"] == [{"name": "results.jsonl", "digest": {"sha256": results}}]
    assert said["predicate"]["result"] == "PASSED"
    assert {one["name"] for one in said["predicate"]["configuration"]} == {"dataset", "script", "script file words.py"}
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["results"] == {"sha256": results}


@pytest.mark.rotating("verifying", "engine")
def test_a_row_that_differs_is_named(here: Path) -> None:
    path, manifest = Path("run/results.jsonl"), Path("run/manifest.json")
    lines = path.read_text().splitlines()
    row = json.loads(lines[10])
    lines[10] = json.dumps(row | {"score": row["score"] + 1})
    path.write_text("\n".join(lines) + "\n")
    done = evalcell("verify", "run", "--sample", "100%")
    assert (done.exit_code, "results.jsonl has another content" in done.stderr) == (3, True)
    # Whoever changes a row changes the digest, too.
    stated = json.loads(manifest.read_text()) | {"results": {"sha256": sha256(path.read_bytes()).hexdigest()}}
    manifest.write_text(json.dumps(stated))
    done = evalcell("verify", "run", "--sample", "100%")
    assert (done.exit_code, "r5" in done.stdout, "line 11" in done.stdout) == (1, True, True), done.stderr


@pytest.mark.rotating("verifying", "engine")
def test_what_is_not_what_it_was_is_no_verdict(here: Path) -> None:
    done = evalcell("verify", "run", "--sample", "0")
    assert (done.exit_code, "a sample of no rows tells nothing" in done.stderr) == (2, True)
    Path("data.jsonl").rename("moved.jsonl")
    done = evalcell("verify", "run")
    assert (done.exit_code, "--dataset FILE" in done.stderr) == (2, True), done.stderr
    assert evalcell("verify", "run", "--dataset", "moved.jsonl", "--sample", "3").exit_code == 0
    with Path("moved.jsonl").open("a") as end:
        end.write('{"id": "more", "output": ""}\n')
    done = evalcell("verify", "run", "--dataset", "moved.jsonl")
    assert (done.exit_code, "dataset has another content" in done.stderr) == (3, True)
    Path("run/manifest.json").unlink()
    done = evalcell("verify", "run")
    assert (done.exit_code, "--resume" in done.stderr) == (3, False)
    shutil.copytree("run", "runs/run")
    done = evalcell("verify", "runs")
    assert (done.exit_code, "runs holds several runs; verify each of them: runs/run/" in done.stderr) == (3, True)
    Path("run/request.json").unlink()
    done = evalcell("verify", "run")
    assert (done.exit_code, "run has no request.json" in done.stderr) == (3, True)
    done = evalcell("verify", "data")
    assert (done.exit_code, "there is no folder data" in done.stderr) == (2, True)


@pytest.mark.rotating("verifying", "engine")
def test_a_run_that_stopped_is_verified_in_its_own_order(here: Path) -> None:
    evaluate("exact-match", [{"id": str(n), "output": "a", "reference": "a"} for n in range(5)], output="none/")
    write_rows(Path("same.jsonl"), [{"id": str(n), "output": str(n % 9 > 0), "reference": "True"} for n in range(300)])
    evaluate("exact-match", "same.jsonl", require="mean>=0.7", stop_when_sure=True, output="stop/")
    assert json.loads(Path("stop/manifest.json").read_text())["state"] == "stopped"
    assert evalcell("verify", "stop", "--sample", "100%").exit_code == 0
    done = evalcell("verify", "none")
    assert (done.exit_code, "were no file" in done.stderr) == (2, True)


@pytest.mark.rotating("verifying", "store")
def test_a_run_that_the_store_keeps_is_verified_by_its_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(here / "state"))
    done = evalcell("run", "grade.py", "data.jsonl", "--seed", "3", "--save")
    assert done.exit_code == 0, done.stderr
    for name in ("grade.py", "words.py"):
        Path(name).unlink()  # the store has them
    done = evalcell("verify", "latest", "--sample", "25%", "--json")
    assert (done.exit_code, json.loads(done.stdout)["equal"]) == (0, 10), done.stderr
    found = verify("latest", sample=3)
    assert (found.sample, found.equal, found.verdict) == (3, 3, "equal: 3 rows of 40 give the same again")
    Path("data.jsonl").rename("moved.jsonl")
    assert verify("latest", sample=3, dataset="moved.jsonl").equal == 3
    done = evalcell("verify", "latest")
    assert (done.exit_code, "--dataset FILE" in done.stderr) == (2, True), done.stderr
    assert {*found.digests} == {"results.jsonl", "dataset", "script", "script file words.py"}
    assert evalcell("run", "exact-match", "moved.jsonl", "--map", "reference=output", "--save").exit_code == 0
    assert verify("latest", sample=3).equal == 3  # no row has the column of a parameter that may be left out
    Path("old.csv").write_text("id,output,reference\n1,caf\u00e9,caf\u00e9\n", "cp1252")
    assert evalcell("run", "exact-match", "old.csv", "--encoding", "cp1252", "--save").exit_code == 0
    Path("tree.json").write_text('{"data": {"rows": [{"output": "a", "reference": "b"}]}}')
    assert verify("latest").equal == 1  # the store keeps how the file was read
    assert evalcell("run", "exact-match", "tree.json", "--rows", "data.rows", "--save").exit_code == 0
    assert verify("latest").equal == 1


@pytest.mark.rotating("a judge", "judges")
def test_what_a_judge_said_is_replayed_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SWALLOWS)
    write_rows(Path("data.jsonl"), [{"id": str(n), "output": "judge"} for n in range(4)])
    with fake_judge() as judge:
        settings = JudgeSettings(judge=f"{host_of(judge)}/v1")  # type: ignore[arg-type]
        evaluate("script.py", "data.jsonl", judges=settings, output="run/")
        assert len(judge.requests) == 4
    shutil.move("run", "other")  # the judge is gone, and so is the script
    Path("script.py").unlink()
    done = evalcell("verify", "other", "--sample", "100%", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["equal"] == 4
    assert "judge.jsonl" in json.loads(done.stdout)["digests"]
