"""`evalcell init`: what it writes works, in a folder and in a repository."""

from __future__ import annotations

import os
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import evalcell
from tests.skips import need


def commands(workflow: dict[str, Any]) -> list[str]:
    return [step["run"] for step in workflow["jobs"]["score"]["steps"] if "run" in step]


@pytest.fixture(params=["py", "ts"])
def lang(request: pytest.FixtureRequest) -> str:
    """Each language that can be run here."""
    if request.param == "ts":
        need("deno")
    return str(request.param)


@pytest.mark.rotating("what init writes", "runner")
@pytest.mark.parametrize(
    "folder", ["evals", "quality of answers", "-x", "deep: [x]", "{script} é😀", "'x", "[x]", "null", "."]
)
def test_what_it_says_and_what_its_workflow_runs_work(here: Path, folder: str, lang: str) -> None:
    Path(".git").mkdir()
    result = evalcell("init", "--lang", lang, "--", folder)
    assert result.exit_code == 0, result.stderr
    told = [line.strip() for line in result.stdout.splitlines() if line.startswith("  ")]
    (path,) = Path(".github/workflows").iterdir()
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert len(told) == 2
    if not folder.startswith("-"):
        for command in told:
            assert evalcell(*shlex.split(command)[1:], "-q").exit_code == 0, command
    install, *others = commands(workflow)
    assert install == 'python -P -m pip install "$EVALCELL"'
    extra = {"py": "", "ts": "[deno]"}[lang]
    (package,) = (step["env"]["EVALCELL"] for step in workflow["jobs"]["score"]["steps"] if "env" in step)
    wheel = f"wheels/evalcell-{version('evalcell')}-py3-none-any.whl"
    assert package == f"evalcell{extra} @ file://${{{{ github.workspace }}}}/{wheel}"
    assert wheel in result.stdout
    os.chdir(workflow["jobs"]["score"]["defaults"]["run"]["working-directory"])
    for command in others:
        ran = evalcell(*shlex.split(command)[1:])
        assert ran.exit_code == 0, ran.stderr
    assert (here / workflow["jobs"]["score"]["steps"][-1]["with"]["path"]).is_file()


def test_a_folder_whose_name_github_would_run_is_refused(here: Path) -> None:
    Path(".git").mkdir()
    result = evalcell("init", "${{ github.token }}")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "GitHub takes ${{ … }} for an expression" in result.stderr
    assert not Path("${{ github.token }}").exists()


def test_outside_a_repository_the_workflow_is_in_the_folder(here: Path) -> None:
    result = evalcell("init")
    assert result.exit_code == 0
    assert Path("evals/.github/workflows/evalcell-evals.yml").is_file()
    assert "once this folder is the top of a git repository" in result.stdout


def test_what_is_there_is_left_and_nothing_is_added(here: Path) -> None:
    Path("evals").mkdir()
    Path("evals/rows.csv").write_text("mine")
    result = evalcell("init")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{Path('evals/rows.csv')} exists already" in result.stderr
    assert [path.name for path in Path("evals").iterdir()] == ["rows.csv"]


def test_where_a_file_cannot_be_written_none_is_left(here: Path) -> None:
    Path(".git").mkdir()
    Path(".github").write_text("a file")
    result = evalcell("init", "new")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert ".github" in result.stderr
    assert not Path("new").exists()


def test_a_folder_in_a_folder_that_is_not_there_is_told(here: Path) -> None:
    result = evalcell("init", "a b/c")
    assert result.exit_code == 2
    assert "make it first: mkdir -p 'a b'" in result.stderr
