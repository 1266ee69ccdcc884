"""A CSV file is separated by what a caller says, which may be another than its first rows look like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import InputError, evaluate
from tests.cli.commands import evalcell, run

ROWS = "output^reference\na,b;c,d^a,b;c,d\nx^y\n"


@pytest.mark.parametrize(("said", "mark"), [("^", "^"), ("tab", "\t"), (";", ";")])
def test_the_columns_are_those_between_the_separators(tmp_path: Path, said: str, mark: str) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("output^reference\na,b^a,b\nx^y\n".replace("^", mark))
    report = evaluate("exact-match", rows, mapping={"actual": "output", "expected": "reference"}, csv_separator=said)
    assert [one.score for one in report.results] == [1.0, 0.0]
    assert report.notes == ()


def test_a_command_says_it_and_a_manifest_keeps_it(here: Path) -> None:
    (here / "rows.csv").write_text(ROWS)
    done = run("length.py", "rows.csv", "--csv-separator", "^", "-o", "run/", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["scored"] == 2
    manifest = json.loads((here / "run" / "manifest.json").read_text())
    assert "--csv-separator '^'" in manifest["command"]
    assert manifest["dataset"]["csv_separator"] == "^"
    (here / "evalcell.toml").write_text('dataset = "rows.csv"\nevaluator = "length.py"\ncsv_separator = "^"\n')
    assert evalcell("run", "--json").exit_code == 0


@pytest.mark.parametrize("wrong", ["", ",,", '"', "\n", "€"])
def test_what_separates_nothing_is_refused(here: Path, wrong: str) -> None:
    with pytest.raises(InputError, match="`csv_separator`: must be one character of ASCII"):
        evaluate("exact-match", "rows.csv", csv_separator=wrong)
    done = run("length.py", "data.jsonl", "--csv-separator", wrong)
    assert done.exit_code == 2
    assert "--csv-separator" in done.stderr
    assert "such as ; or |, or `tab`" in done.stderr
