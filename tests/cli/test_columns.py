"""A dataset with columns of its own names: one message, with the whole command to run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.commands import evalcell, write_rows

SAME = "def evaluate(output, reference):\n    return float(output == reference)\n"


@pytest.fixture
def own(here: Path) -> Path:
    (here / "same.py").write_text(SAME)
    (here / "my rows.csv").write_text("id,question,prediction,gold\n1,q,a,a\n2,q,b,a\n")
    return here


def next_command(stderr: str) -> list[str]:
    """The words of the command in the last line, without `evalcell`."""
    *_, how, line = stderr.splitlines()
    assert how.startswith("Run this, ")
    first, *words = shlex.split(line)
    assert first == "evalcell"
    return words


def test_the_command_that_is_printed_works(own: Path) -> None:
    result = evalcell("run", "same.py", "my rows.csv", "-o", "my results.csv", "--limit", "1", "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert not (own / "my results.csv").exists()
    first, *_ = result.stderr.splitlines()
    assert first == (
        "evalcell: my rows.csv has no column for `output`, `reference`; "
        "the columns are `id`, `question`, `prediction`, `gold`"
    )
    words = next_command(result.stderr)
    assert words == [
        *["run", "same.py", "my rows.csv", "-o", "my results.csv", "--limit", "1", "--json"],
        *["--map", "output=prediction", "--map", "reference=gold"],
    ]
    assert '"mean": 1.0' in evalcell(*words).stdout


@pytest.mark.parametrize("form", [["--map", "output=predicton"], ["--map=output=predicton"]])
def test_a_mapping_that_was_wrong_is_replaced(own: Path, form: list[str]) -> None:
    result = evalcell("run", *form, "--map", "reference=gold", "-q", "--", "same.py", "my rows.csv")
    assert "no column `predicton` (did you mean `prediction`?), which `output` is mapped to" in result.stderr
    words = next_command(result.stderr)
    assert words == [
        "run",
        "--map",
        "reference=gold",
        "-q",
        "--map",
        "output=prediction",
        "--",
        "same.py",
        "my rows.csv",
    ]
    assert evalcell(*words).exit_code == 0


def test_what_is_not_likely_is_left_to_the_person(own: Path) -> None:
    (own / "my rows.csv").write_text("a,answer\n1,2\n")
    result = evalcell("run", "same.py", "my rows.csv")
    assert "Run this, with the right COLUMN:\n" in result.stderr
    assert next_command(result.stderr)[3:] == ["--map", "output=answer", "--map", "reference=COLUMN"]
    result = evalcell("run", "contains", "my rows.csv")
    assert "evaluate needs `words` (" in result.stderr
    assert next_command(result.stderr)[3:] == ["--map", "text=answer", "--set", "words=VALUE"]


@pytest.mark.parametrize("command", [["check"], ["parity", "--sandbox", "wasm", "--sandbox", "fake"]])
def test_other_commands_say_the_same(own: Path, command: list[str]) -> None:
    result = evalcell(*command, "same.py", "my rows.csv")
    assert result.exit_code == 2
    assert result.stdout == ""
    words = next_command(result.stderr)
    assert words == [*command, "same.py", "my rows.csv", "--map", "output=prediction", "--map", "reference=gold"]
    assert evalcell(*words).exit_code != 2


def test_standard_input_is_looked_at_too(own: Path) -> None:
    write_rows(own / "rows.jsonl", [{"answer": "a", "gold": "a"}] * 3)
    rows = (own / "rows.jsonl").read_text()
    words = next_command(evalcell("run", "same.py", "-", input=rows).stderr)
    assert words == ["run", "same.py", "-", "--map", "output=answer", "--map", "reference=gold"]
    assert "3: 3 scored" in evalcell(*words, input=rows).stdout


def test_nothing_in_a_name_reaches_the_terminal(own: Path) -> None:
    (own / "my rows.csv").write_text('"prediction\x1b[31m","gold $(touch x)"\na,a\n')
    result = evalcell("run", "same.py", "my rows.csv")
    assert "\x1b" not in result.stderr
    words = next_command(result.stderr)
    assert words[-1] == "reference=gold $(touch x)"
    assert "1: 1 scored" in evalcell(*words).stdout
