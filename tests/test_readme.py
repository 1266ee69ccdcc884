"""What the README shows is run: its script and its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.commands import evalcell

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = {
    "evalcell run json-similarity demo": 0,
    "evalcell run same.py answers.csv": 2,
    "evalcell run same.py answers.csv --map output=prediction --map reference=gold": 0,
}
ELSEWHERE = {"evalcell serve"}
"""Goes on until it is stopped: tests/server/page starts it as a user does, and looks at the page in a browser."""


def blocks(language: str) -> list[str]:
    every = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
    return [text for named, text in every if named == language]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 180


def test_the_commands_are_the_ones_that_are_run() -> None:
    shown = {line.partition("  #")[0].strip() for block in blocks("") for line in block.splitlines()}
    assert {line for line in shown if line.startswith("evalcell")} == COMMANDS.keys() | ELSEWHERE


def test_make_has_the_targets_that_the_readme_names() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"^make (\S+)", README, re.MULTILINE)) == {"demo", "test"} <= set(targets)


@pytest.mark.parametrize(("command", "code"), COMMANDS.items())
def test_a_command_ends_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int) -> None:
    monkeypatch.chdir(tmp_path)
    (script,) = blocks("python")
    Path("same.py").write_text(script, "utf-8")
    quickstart = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    (answers,) = re.findall(r'^```csv title="answers.csv"\n(.*?)^```$', quickstart, flags=re.DOTALL | re.MULTILINE)
    Path("answers.csv").write_text(answers, "utf-8")
    result = evalcell(*shlex.split(command)[1:])
    assert result.exit_code == code, result.output
