"""`--report`: files whose suffix decides, and the summary of a step of GitHub Actions."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
import yaml

from runner import OutputError, SandboxConfig, evaluate
from runner.core.doors import speaking
from tests.cli.commands import evalcell, run

ONE = SandboxConfig(jobs=1)


def test_reports_are_written_beside_the_results(here: Path) -> None:
    (here / "data.jsonl").write_text('{"output": "x"}\n\n{"output": 5}\n')
    names = ("r.xml", "r.md", "r.codequality.json", "r.jsonl")
    options = [word for name in names[:3] for word in ("--report", name)]
    done = run("length.py", "data.jsonl", *options, "-o", names[3], "--worst", "1", "--require", "rows>=2")
    assert done.exit_code == 0, done.output
    assert [line for line in done.stdout.splitlines() if line.startswith("written")] == [
        f"written: {name}" for name in ("r.jsonl", "r.xml", "r.md", "r.codequality.json")
    ]
    (row,) = [case for case in xml.parse(here / "r.xml").iter("testcase") if case.get("file")]
    assert (row.get("name"), row.get("file"), row.get("line")) == ("row 2: 2", "data.jsonl", "3")
    # The report has more rows than the terminal.
    assert "not shown: 1 row that failed" in done.stdout
    assert (here / "r.md").read_text().count("<b>row ") == 2
    assert '"begin": 3' in (here / "r.codequality.json").read_text()
    assert not [name for name in os.listdir(here) if name.endswith("unfinished")]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("r.json", "--report r.json: the suffix decides the format; end it with one of: .html, .md, .xml, "),
        ("no/r.md", "--report no/r.md: there is no directory no; create it first"),
        ("folder.md", "--report folder.md is not a regular file"),
        ("data.md", "--report data.md would overwrite what the run reads"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_run(here: Path, path: str, words: str) -> None:
    (here / "folder.md").mkdir()
    (here / "data.md").symlink_to("data.jsonl")
    done = run("length.py", "data.jsonl", "--report", path)
    assert done.exit_code == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    with pytest.raises(OutputError):
        evaluate("length.py", "data.jsonl", report=path)


def test_python_writes_the_same(here: Path) -> None:
    assert run("length.py", "data.jsonl", "--report", "a.codequality.json").exit_code == 0
    with speaking("options"):
        evaluate("length.py", "data.jsonl", report=Path("b.codequality.json"), sandbox=ONE, limit=4)
    assert (here / "a.codequality.json").read_text() == (here / "b.codequality.json").read_text()
    with pytest.raises(OutputError, match="by the same run"):
        evaluate("length.py", "data.jsonl", report=["c.md", "c.md"])


def test_a_run_that_fails_leaves_a_report_that_says_so(here: Path, lossy: None) -> None:
    done = run("length.py", "data.jsonl", "--sandbox", "lossy", "--allow-network", "--report", "r.xml")
    assert done.exit_code == 3
    (error,) = xml.parse(here / "r.xml").iter("error")
    assert error.get("message") == "it cannot start here; wait for the cable"


def test_a_step_of_github_shows_the_report(here: Path) -> None:
    assert run("length.py", "data.jsonl", "-q", GITHUB_STEP_SUMMARY=str(here / "step.md")).exit_code == 0
    assert (here / "step.md").read_text().startswith("<!-- evalcell:length -->\n")
    assert run("length.py", "data.jsonl", "-q", GITHUB_STEP_SUMMARY=str(here / "step.md")).exit_code == 0
    assert (here / "step.md").read_text().count("<!--") == 2


@pytest.mark.parametrize("kind", ["missing", "fifo", "folder", "long"])
def test_a_step_whose_summary_cannot_be_written_ends_as_before(here: Path, kind: str) -> None:
    path = here / "step"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "missing":
        path = path / "x"
    else:
        path = here / ("x" * 300)
    done = run("length.py", "data.jsonl", "-q", "--require", "rows>9", GITHUB_STEP_SUMMARY=str(path))
    assert done.exit_code == 1
    assert [line.partition(" /")[0] for line in done.stderr.splitlines()[:1]] == ["note: GITHUB_STEP_SUMMARY"]


def test_the_job_for_gitlab_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "ci.md").read_text("utf-8")
    (text,) = [text for text in re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "junit:" in text]
    (job,) = yaml.safe_load(text).values()
    monkeypatch.chdir(tmp_path)
    assert evalcell("init", "evals").exit_code == 0
    for line in job["script"][1:]:
        name, *words = shlex.split(line)
        assert name == "evalcell"
        assert evalcell(*words).exit_code == 0
    every = [*job["artifacts"]["paths"], *job["artifacts"]["reports"].values()]
    assert all((tmp_path / name).exists() for name in every)
    assert len(every) == 4
