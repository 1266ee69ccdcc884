"""A CSV file is separated by what a caller says, which may be another than its first rows look like."""

from __future__ import annotations

import csv
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


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--csv-separator", ";"), "2;share;0.25"),
        (("--decimal-comma",), "2;share;0,25"),
        (("--decimal-comma", "--csv-separator", "tab"), "2\tshare\t0,25"),
        ((), "2,share,0.25"),
    ],
)
def test_results_have_the_separator_and_decimals_of_a_spreadsheet(
    here: Path, options: tuple[str, ...], line: str
) -> None:
    """And evalcell reads them again as any others."""
    (here / "share.py").write_text("def evaluate(output):\n    return {'label': 'a;b|c', 'score': len(output) / 4}\n")
    rows = [{"id": 1, "output": "abcd", "weight": 1.5}, {"id": 2, "output": "a", "weight": -0.25}]
    (here / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("share.py", "rows.jsonl", *options, "--keep", "weight", "-o", "out.csv", "-o", "plain.jsonl")
    assert done.exit_code == 0, done.stderr
    separator, point = line[1], "," if "," in line[-3:] else "."
    with (here / "out.csv").open(newline="") as file:
        table = list(csv.DictReader(file, delimiter=separator))
    assert [row["score"] for row in table] == [f"1{point}0", f"0{point}25"]
    assert [row["weight"] for row in table] == [f"1{point}5", f"-0{point}25"]
    compared = json.loads(evalcell("compare", "plain.jsonl", "out.csv", "--direction", "maximize", "--json").stdout)
    assert (compared["base_mean"], compared["new_mean"], compared["ties"]) == (0.625, 0.625, 2)
