"""`from evalcell import evaluate`: the same names as those of the package `runner`, and never another's `runner`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import evalcell
import runner


def test_the_names_are_those_of_the_runner() -> None:
    assert sorted(evalcell.__all__) == sorted(runner.__all__)
    assert [name for name in runner.__all__ if getattr(evalcell, name) is not getattr(runner, name)] == []
    assert {*runner.__all__} <= {*dir(evalcell)}


def test_a_name_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(ImportError, match="cannot import name 'score'"):
        exec("from evalcell import score")


def test_it_imports_no_more_than_is_asked_for(tmp_path: Path) -> None:
    done = python("import sys, evalcell; print(sorted(n for n in sys.modules if n.startswith('runner.')))", tmp_path)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("name", ["runner.py", "runner/__init__.py"])
def test_a_runner_of_the_user_is_named_and_does_not_run(tmp_path: Path, name: str) -> None:
    own = tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("print('ran')")
    done = python("from evalcell import evaluate", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {own.resolve()} hides the package `runner`, which evalcell consists of; rename your module"
    )


def test_a_folder_without_modules_hides_nothing(tmp_path: Path) -> None:
    for name in ("runner", "evalcell"):
        (tmp_path / name).mkdir()
    done = python("from evalcell import evaluate; print(evaluate.__name__)", tmp_path)
    assert done.stdout == "evaluate\n", done.stderr


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
