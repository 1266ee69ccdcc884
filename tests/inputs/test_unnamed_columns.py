"""CSV as pandas, R, spreadsheets and `cat` write it: columns without a name, and headers within the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import evaluate
from runner.core.errors import DatasetError
from runner.inputs.datasets.dataset import open_dataset
from tests.inputs.reading import written


def evaluator(output: str, reference: str) -> float:
    return float(output == reference)


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("d.csv", ",output,reference\n0,a,a\n1,b,c\n", "column 1 has no name, and is left out; name it"),
        ("d.tsv", "\toutput\treference\n0\ta\ta\n1\tb\tc\n", "column 1 has no name, and is left out; name it"),
        ("d.csv", '"";"output";"reference"\n"1";"a";"a"\n"2";"b";"c"\n', "column 1 has no name"),
        ("d.csv", "output,reference,,\na,a,,\nb,c,,\n", "columns 3, 4 have no name, and are left out; no row has"),
        ("d.csv", "output,reference,,\na,a\nb,c,\n", "columns 3, 4 have no name"),
        ("d.csv", "output, ,reference\na,x,a\nb,y,c\n", "column 2 has no name"),
        ("d.csv", "output,reference\na,a\noutput,reference\nb,c\n", "the header stands 1 times more"),
        ("d.csv", ",output,reference\n0,a,a\n,output,reference\n0,b,c\n", "the header stands 1 times more"),
    ],
)
def test_what_has_no_name_is_left_out_with_a_note(tmp_path: Path, name: str, text: str, note: str) -> None:
    report = evaluate(evaluator, written(tmp_path, name, text))
    assert [result.score for result in report.results] == [1.0, 0.0]
    assert any(note in line for line in report.notes), report.notes


def test_a_header_within_one_column_is_no_row(tmp_path: Path) -> None:
    with open_dataset(written(tmp_path, "d.csv", "output\na\noutput\nb\n")) as dataset:
        assert [case.output for case in dataset] == ["a", "b"]
        assert any("the header stands 1 times more" in line for line in dataset.notes)


def test_a_header_in_another_order_ends_the_run(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", "output,reference\na,a\nreference,output\nb,b\n")
    with pytest.raises(DatasetError, match=r"d\.csv:3 is the header with its columns in another order"):
        evaluate(evaluator, path)


@pytest.mark.parametrize(
    ("row", "step"), [("1,a,b", "put ',' before the header"), ("a,b,", "put ',' behind the header")]
)
def test_one_field_more_in_each_row_names_the_way(tmp_path: Path, row: str, step: str) -> None:
    with open_dataset(written(tmp_path, "d.csv", f"output,reference\n{row}\n")) as dataset:
        (case,) = dataset
    assert case.broken is not None
    assert step in case.broken


def test_rows_of_empty_cells_are_told(tmp_path: Path) -> None:
    with open_dataset(written(tmp_path, "d.csv", "output,reference\na,b\n,\n")) as dataset:
        assert [case.output for case in dataset] == ["a", ""]
        assert any(line.startswith("1 row has empty cells alone") for line in dataset.notes)
