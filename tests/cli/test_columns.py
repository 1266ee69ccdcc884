"""A dataset with columns of its own names: one message, with the whole command to run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

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


RAG: dict[str, Any] = {"question": "q", "answer": "a", "references": ["a"], "contexts": ["c"]}


@pytest.mark.parametrize("name", ["rag.jsonl", "rag.csv", "rag.json"])
def test_a_parameter_gets_the_column_of_its_very_name(here: Path, name: str) -> None:
    (here / "rag.py").write_text(
        "def evaluate(question, answer, references, contexts, k=1):\n    return (answer in references) * float(k)\n"
    )
    rows = [RAG, RAG | {"k": 3}, RAG | {"references": ["b"]}]
    if name.endswith("csv"):
        lines = [f"q,a,{'b' if row['references'] == ['b'] else 'a'},c,{row.get('k', 1)}\n" for row in rows]
        (here / name).write_text("question,answer,references,contexts,k\n" + "".join(lines))
    else:
        (here / name).write_text(json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows)))
    assert [row["score"] for row in scored("rag.py", name)] == [1.0, 3.0, 0.0]
    assert [row["score"] for row in scored("rag.py", name, "--set", "k=2")] == [2.0, 2.0, 0.0]
    assert [row["score"] for row in scored("rag.py", name, "--map", "references=question")] == [0.0, 0.0, 0.0]
    text = " ".join(evalcell("check", "rag.py", name).stdout.split())
    assert "contexts <- contexts (by name) k <- k (by name, else its default)" in text


def scored(*words: str) -> list[dict[str, Any]]:
    result = evalcell("run", *words, "--sandbox", "process", "-q", "-o", "r.jsonl", "--overwrite")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]


def test_a_value_that_a_column_of_the_name_has_and_a_declaration_has_not(here: Path) -> None:
    header = '# /// script\n# [tool.evalcell.parameters]\n# k = {type = "integer", default = 1}\n# ///\n'
    (here / "s.py").write_text(f"{header}def evaluate(output, k):\n    return 1.0\n")
    (here / "rows.csv").write_text("output,k\na,3\n")
    result = evalcell("run", "s.py", "rows.csv", "--sandbox", "fake")
    assert "`k` must be an integer, not '3'; put the row right, or map another with --map k=COLUMN" in result.stderr
    assert evalcell("run", "s.py", "rows.csv", "--sandbox", "fake", "--set", "k=3").exit_code == 0


def test_columns_that_a_run_lacks_and_does_not_need_are_not_demanded_to_save_it(here: Path) -> None:
    (here / "s.py").write_text("def evaluate(output, reference=None, k=1):\n    return 1.0\n")
    (here / "rows.jsonl").write_text('{"output": "a"}\n')
    result = evalcell("run", "s.py", "rows.jsonl", "--sandbox", "fake", "--save", "-q")
    assert result.exit_code == 0, result.stderr


def test_what_is_not_likely_is_left_to_the_person(own: Path) -> None:
    (own / "my rows.csv").write_text("a,answer\n1,2\n")
    result = evalcell("run", "same.py", "my rows.csv")
    assert "Run this, with the right COLUMN:\n" in result.stderr
    assert next_command(result.stderr)[3:] == ["--map", "output=answer", "--map", "reference=COLUMN"]
    result = evalcell("run", "contains", "my rows.csv")
    assert "evaluate needs `words` (" in result.stderr
    assert next_command(result.stderr)[3:] == ["--map", "output=answer", "--set", "words=VALUE"]


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
