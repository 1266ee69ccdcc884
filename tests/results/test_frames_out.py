"""Results as data frames, joined with the columns of the dataset that they carry."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

from runner import InputError, Report, SandboxConfig, evaluate

pa: Any = pytest.importorskip("pyarrow")
pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

ONE = SandboxConfig(jobs=1)
SCRIPT = """\
def evaluate(output):
    return {"score": len(output), "label": output or None, "explanation": None}
"""
ROWS: list[dict[str, Any]] = [
    {"id": "a", "output": "xy", "n": 1, "tags": ["p", "q"], "about": {"k": 1}, "mixed": 1, "label": "own"},
    {"id": "b", "output": None, "n": None, "tags": [], "about": {"k": 2}, "mixed": "two", "label": None},
    {"id": "c", "output": "z\ud800", "n": 3, "tags": None, "about": None, "mixed": [3], "label": "s\ud800"},
]
KINDS = ("to_pandas", "to_polars", "to_arrow")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "length.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def report(script: Path) -> Report:
    return evaluate(script, ROWS, sandbox=ONE, keep="all")


def rows(report: Report, kind: str) -> list[dict[str, Any]]:
    made = getattr(report, kind)()
    if kind == "to_pandas":
        found: list[dict[str, Any]] = made.astype(object).where(made.notna(), None).to_dict("records")
        return found
    found = made.to_dicts() if kind == "to_polars" else made.to_pylist()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_has_its_result_and_what_was_kept(report: Report, kind: str) -> None:
    first, second, third = rows(report, kind)
    assert (first["id"], first["outcome"], first["score"], first["label"]) == ("a", "scored", 2.0, "xy")
    assert (second["outcome"], second["score"], second["error_kind"]) == ("failed", None, "raised")
    assert second["error_message"].startswith("TypeError: ")
    assert [row["n"] for row in (first, second, third)] == [1, None, 3]
    assert (first["tags"], second["tags"], third["tags"]) == (["p", "q"], [], None)
    assert (first["about"], third["about"]) == ({"k": 1}, None)
    assert (first["row.label"], second["row.label"]) == ("own", None)
    mixed = [row["mixed"] for row in (first, second, third)]
    assert mixed == ([1, "two", [3]] if kind == "to_pandas" else ["1", "two", "[3]"])


def test_text_that_is_no_unicode_is_made_whole_where_it_must_be(report: Report) -> None:
    assert report.to_polars()["label"].to_list()[2] == report.to_arrow()["label"].to_pylist()[2] == "z\ufffd"
    assert report.to_arrow()["row.label"].to_pylist()[2] == "s\ufffd"


def test_the_columns_are_those_of_a_csv_file(script: Path, tmp_path: Path) -> None:
    report = evaluate(script, ROWS[:1], sandbox=ONE, keep=["n", "label"], output=tmp_path / "r.csv")
    with (tmp_path / "r.csv").open() as file:
        header = next(csv.reader(file))
    assert list(report.to_pandas().columns) == report.to_polars().columns == report.to_arrow().column_names == header


def test_types_do_not_depend_on_the_rows(script: Path) -> None:
    empty, failed = evaluate(script, [], sandbox=ONE), evaluate(script, [{"output": 1}], sandbox=ONE)
    for report in (empty, failed):
        assert report.to_arrow().schema.field("score").type == pa.float64()
        assert report.to_arrow().schema.field("label").type == pa.string()
        assert report.to_polars().schema["score"] == pl.Float64
        assert report.to_polars().schema["label"] == pl.String
        assert report.to_pandas()["score"].dtype == "float64"
    assert (len(empty.to_pandas()), len(failed.to_pandas())) == (0, 1)


def test_several_outputs_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "# /// script\n# [tool.evalcell.outputs]\n# size = {kind = 'continuous'}\n# word = {kind = 'freeform'}\n# ///\n"
        "def evaluate(output):\n    return {'size': len(output), 'word': output}\n"
    )
    [row] = rows(evaluate(path, [{"output": "abc"}], sandbox=ONE), "to_arrow")
    assert (row["size.score"], row["word.label"], row["size.label"]) == (3.0, "abc", None)


def test_a_frame_joined_with_its_results(script: Path) -> None:
    frame = pd.DataFrame({"output": ["a", "bcd"], "model": ["m1", "m2"], "n": [1.5, float("nan")]})
    made = evaluate(script, frame, sandbox=ONE, keep="all").to_pandas()
    pd.testing.assert_frame_equal(made[["output", "model", "n"]], frame)
    assert made.groupby("model")["score"].mean().to_dict() == {"m1": 1.0, "m2": 3.0}
    both = frame.join(made[["score"]])
    assert both["score"].tolist() == [1.0, 3.0]


def test_very_many_columns_are_bounded(script: Path) -> None:
    wide = [{"output": "a", **{f"c{row}_{n}": n for n in range(700)}} for row in range(2)]
    made = evaluate(script, wide, sandbox=ONE, keep="all").to_pandas()
    assert len(made.columns) < 1020
    assert '"c1_699": 699' in made["other columns"][1]


@pytest.mark.parametrize(
    ("kind", "library", "command"),
    [
        ("to_pandas", "pandas", "pip install pandas"),
        ("to_polars", "polars", "pip install polars"),
        ("to_arrow", "pyarrow", 'pip install "evalcell[parquet]"'),
    ],
)
def test_without_the_library_its_command_is_named(
    report: Report, kind: str, library: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError) as caught:
        getattr(report, kind)()
    assert str(caught.value) == f"{kind} needs {library}: {command}"
