"""Ids that name several rows, or one row in two ways: said when a run ends, and where two runs are compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import Comparison, NotComparableError, compare_datasets, compare_runs, evaluate
from runner.results.reports.comparison import lines
from runner.results.reports.runs import read_parts
from tests.cli.commands import evalcell, run, write_rows
from tests.inputs.reading import written

ONE = "def evaluate(output):\n    return float(len(output))\n"


def results(folder: Path, name: str, ids: list[str]) -> Path:
    path = folder / name
    write_rows(path, [{"id": id, "score": float(number)} for number, id in enumerate(ids)])
    return path


@pytest.mark.parametrize(
    ("old", "new"), [("1", "1.0"), ("001", "1"), ("-7.50", "-07.5"), ("Row 1", "row 1 "), ("٣", "٣ ")]
)
def test_ids_in_two_forms_are_shown_with_the_step(tmp_path: Path, old: str, new: str) -> None:
    base = results(tmp_path, "base.jsonl", [old, "a", "b"])
    made = compare_runs(base, results(tmp_path, "new.jsonl", ["a", "b", new]))
    both = f"{json.dumps(old, ensure_ascii=False)} and {json.dumps(new, ensure_ascii=False)}"
    words = f"{both}; an id is text: write it the same way in both datasets, or name another column of ids"
    assert made.pairs == 2
    assert words in " ".join(made.notes)
    assert words in " ".join(lines(made))  # of reports, and of a server's page
    with pytest.raises(NotComparableError) as error:
        compare_runs(results(tmp_path, "one.jsonl", [old]), results(tmp_path, "other.jsonl", [new]))
    assert words in str(error.value)
    printed = evalcell("compare", str(base), str(tmp_path / "new.jsonl"))
    assert both in " ".join(printed.stdout.split())


def test_other_ids_are_no_forms_of_each_other(tmp_path: Path) -> None:
    base = results(tmp_path, "base.jsonl", ["x", "10", "1.01", "-1", "1e0", "0x1", "1.2.3"])
    made = compare_runs(base, results(tmp_path, "new.jsonl", ["x", "100", "1.1", "1", "1", "01.2.3"]))
    assert not any("two ways" in note for note in made.notes)
    with pytest.raises(NotComparableError, match=r"nothing in common \(`x` and `y`\); compare runs"):
        compare_runs(results(tmp_path, "a.jsonl", ["x"]), results(tmp_path, "b.jsonl", ["y"]))


def test_ids_that_are_repeated_are_said_in_a_run_and_in_a_comparison(tmp_path: Path) -> None:
    script = written(tmp_path, "one.py", ONE)
    for name, text in (("old", "x"), ("new", "xx")):
        write_rows(
            tmp_path / f"{name}.jsonl", [{"question": f"q{n % 7}", "output": text * (n % 3 + 1)} for n in range(30)]
        )
        report = evaluate(script, tmp_path / f"{name}.jsonl", id="question", output=tmp_path / f"{name}-results.jsonl")
        assert len(report.notes) == 1
        assert "23 rows repeat an id that an earlier row has" in report.notes[0]
        assert "take a column as id that tells rows apart" in report.notes[0]
    printed = run(str(script), str(tmp_path / "old.jsonl"), "--id", "question", "--report", str(tmp_path / "r.md"))
    assert "23 rows repeat an id" in printed.stderr
    assert "23 rows repeat an id" in (tmp_path / "r.md").read_text()
    made = compare_runs(tmp_path / "old-results.jsonl", tmp_path / "new-results.jsonl")
    assert made.pairs == 30
    assert [note for note in made.notes if "23 rows repeat an id of their dataset" in note] == list(made.notes)
    assert len(made.notes) == 2
    paths = [tmp_path / "old-results.jsonl", tmp_path / "new-results.jsonl"]
    parts = read_parts(paths, compare=True, tolerance=0.0, worst=5, failed=False, listed=False)
    (compared,) = (one for one in parts if isinstance(one, Comparison))
    assert any("23 rows repeat" in line for line in lines(compared))


def test_what_is_to_know_of_two_datasets_is_told_where_they_are_compared(tmp_path: Path) -> None:
    script = written(tmp_path, "one.py", ONE)
    one = written(tmp_path, "one.jsonl", '[{"id": 1, "output": "a"}, {"id": 2, "output": "b"}]')
    two = written(tmp_path, "two.csv", "id;output\n1;a\n2;bb\n")
    notes = compare_datasets(script, one, two).notes
    assert any(note.startswith(f"{one}: ") and "is one JSON array" in note for note in notes)
    assert any(note.startswith(f"{two}: ") and "separated by semicolons" in note for note in notes)
