"""Values of columns that JSON has not: binary ones, maps, and lists that stand as text in a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner import InputMapping, evaluate, parity
from runner.core.errors import EvaluatorError
from runner.core.types import Case
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.evaluators.load import parse_evaluator
from runner.server.service.rows import looked_at
from tests.cli.commands import evalcell, run
from tests.inputs.reading import written

pa: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")
pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")
datasets: Any = pytest.importorskip("datasets")

PNG = b"\x89PNG\r\n\x1a\n" + b"\xff" * 40
KEYS = """
def evaluate(output, reference, metadata):
    return ",".join(sorted(metadata)) + ":" + str(metadata.get("image"))
"""
IMAGES = pa.table(
    {
        "output": ["a", "b"],
        "reference": ["a", "c"],
        "image": pa.array(
            [{"bytes": PNG, "path": "a.png"}, {"bytes": None, "path": "b.png"}],
            pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        ),
        "raw": [PNG, PNG],
        "many": pa.array([[PNG, b"text"], []], pa.list_(pa.binary())),
    }
)
FOUND = {"image": {"path": "a.png"}, "many": [None, "text"]}


def first(path: Path) -> tuple[Case, list[str]]:
    with open_dataset(path) as dataset:
        case, *_ = list(dataset)
        return case, dataset.notes


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_binary_values_of_a_file_are_left_out_with_one_note(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"images{suffix}"
    if suffix == ".parquet":
        parquet.write_table(IMAGES, path)
    else:
        with pa.ipc.new_file(path, IMAGES.schema) as writer:
            writer.write_table(IMAGES)
    case, notes = first(path)
    assert case.metadata == FOUND
    words = "`image.bytes`, `raw`, `many` is binary, which is left out: a script gets text, numbers, lists and objects"
    assert notes == [words]
    assert looked_at(path)[0] == 2  # what a server does with it

    script = written(tmp_path, "keys.py", KEYS)
    labels = ["image,many:{'path': 'a.png'}", "image,many:{'bytes': None, 'path': 'b.png'}"]
    report = evaluate(script, path, keep="all", output=tmp_path / "rows.csv")
    assert [one.label for one in report.results] == labels
    assert report.results[0].row["image"] == {"path": "a.png"}
    assert report.notes == (words,)
    printed = run(str(script), str(path), "--keep", "all", "-o", str(tmp_path / "rows.parquet"))
    assert printed.exit_code == 0
    assert printed.stderr.count("is binary") == 1


@pytest.mark.parametrize("kind", ["pandas", "polars", "table", "hugging-face", "dicts"])
def test_binary_values_in_python_are_left_out(tmp_path: Path, kind: str) -> None:
    rows = {
        "pandas": lambda: IMAGES.to_pandas(),
        "polars": lambda: pl.from_arrow(IMAGES),
        "table": lambda: IMAGES,
        "hugging-face": lambda: datasets.Dataset(IMAGES),
        "dicts": lambda: IMAGES.to_pylist(),
    }[kind]()
    report = evaluate(written(tmp_path, "keys.py", KEYS), rows)
    assert report.results[0].label == "image,many:{'path': 'a.png'}"
    assert report.summary.failed == 0
    assert any("is binary" in note for note in report.notes)


def test_pictures_of_pillow_are_binary_too(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    report = evaluate(written(tmp_path, "keys.py", KEYS), [{"output": "a", "reference": "a", "picture": image}])
    assert [one.label for one in report.results] == [":None"]


def test_a_binary_column_is_never_an_output(tmp_path: Path) -> None:
    """Where a parameter is mapped to it, neither a placeholder nor null is scored."""
    path = tmp_path / "images.parquet"
    parquet.write_table(IMAGES, path)
    equal = written(tmp_path, "equal.py", "def evaluate(output, reference):\n    return output == reference\n")
    report = evaluate(equal, path, mapping=InputMapping(paths={"output": "raw"}))
    assert report.summary.failed == 2
    assert "column 'raw': 48 bytes that are no UTF-8 text; map another column" in report.summary.errors[0].message
    both = written(tmp_path, "both.py", "def evaluate(output, metadata):\n    return output is None\n")
    assert evaluate(both, path, mapping=InputMapping(paths={"output": "raw"})).summary.failed == 2


@pytest.mark.parametrize("kind", ["file", "table", "reader"])
def test_a_map_is_an_object(tmp_path: Path, kind: str) -> None:
    values = pa.array([[("k", 1), ("m", None)], [("k", 2), ("k", 3)], []], pa.map_(pa.string(), pa.int64()))
    days = pa.array([[(0, [("x", "y")])], [], None], pa.map_(pa.date32(), pa.map_(pa.string(), pa.string())))
    table = pa.table(
        {
            "output": ["a", "b", "c"],
            "metadata": values,
            "days": days,
            "numbers": pa.array([[(1, True)], [], []], pa.map_(pa.int64(), pa.bool_())),
        }
    )
    path = tmp_path / "maps.parquet"
    parquet.write_table(table, path)
    rows = {"file": path, "table": table, "reader": table.to_reader()}[kind]
    script = written(
        tmp_path, "m.py", "def evaluate(output, metadata):\n    import json; return json.dumps(metadata)\n"
    )
    report = evaluate(script, rows)
    found = [json.loads(one.label or "null") for one in report.results]
    assert found[0] == {"days": {"1970-01-01": {"x": "y"}}, "numbers": {"1": True}, "k": 1, "m": None}
    assert [one["k"] for one in found[:2]] == [1, 3]
    assert found[2] == {"days": None, "numbers": {}}


LOOP = "def evaluate(output, references):\n    return float(any(output == one for one in references))\n"
ASKS = LOOP.replace("    return", "    assert isinstance(references, str)\n    return")
DECLARED = f'# /// script\n# [tool.evalcell.parameters]\n# references = {{type = "array"}}\n# ///\n{LOOP}'
OBJECT = '# /// script\n# [tool.evalcell.parameters]\n# references = {type = ["object", "null"]}\n# ///\n' + LOOP
TABLE = 'output,references\nab,"[""ab"", ""x""]"\na,"[""ab"", ""x""]"\n'
NOTE = (
    "the column `references` looks like JSON lists, and the script gets each as text; "
    'give json_columns=["references"], or declare the parameter as an array'
)
REFUSAL = r"`references` is a text that looks like a list, .* give json_columns=\[\"references\"\]"
MAP = InputMapping(paths={"references": "references"})


def test_a_list_in_a_cell_is_told_and_read_where_somebody_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", TABLE)
    plain, declared = written(tmp_path, "p.py", LOOP), written(tmp_path, "d.py", DECLARED)
    with pytest.raises(EvaluatorError, match=REFUSAL):
        evaluate(plain, path, mapping=MAP)
    asks = written(tmp_path, "a.py", ASKS)
    assert evaluate(asks, path, mapping=MAP).notes[0] == NOTE
    for script, more in (
        (declared, {}),
        (plain, {"json_columns": "references"}),
        (plain, {"json_columns": ["references"]}),
    ):
        report = evaluate(script, path, mapping=MAP, **more)
        assert [one.score for one in report.results] == [1.0, 0.0]
        assert report.notes == ()
    frame = pd.read_csv(path)
    with pytest.raises(EvaluatorError, match=REFUSAL):
        evaluate(plain, frame, mapping=MAP)
    assert evaluate(asks, frame, mapping=MAP).notes[0] == NOTE
    assert evaluate(plain, frame, mapping=MAP, json_columns="references").summary.mean == 0.5
    assert evaluate(declared, frame.to_dict("records"), mapping=MAP).summary.mean == 0.5
    with pytest.raises(EvaluatorError, match=REFUSAL):
        evaluate(plain, frame.to_dict("records"), mapping=MAP)
    lines = "".join(json.dumps(row) + "\n" for row in frame.to_dict("records"))
    with pytest.raises(EvaluatorError, match=REFUSAL):
        evaluate(plain, written(tmp_path, "d.jsonl", lines), mapping=MAP)
    assert evaluate(asks, written(tmp_path, "d.jsonl", lines), mapping=MAP).notes[0] == NOTE
    assert parity(plain, path, mapping=MAP, json_columns="references", twice=True).same == 2


def test_a_list_in_a_cell_on_the_command_line_and_in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "d.csv", TABLE)
    written(tmp_path, "p.py", LOOP)
    told = run("p.py", "d.csv", "--map", "references=references")
    assert told.exit_code == 2
    assert "`references` is a text that looks like a list" in " ".join(told.stderr.split())
    assert "--json-columns references" in " ".join(told.stderr.split())
    words = ("p.py", "d.csv", "--map", "references=references", "--json-columns", "references", "--json")
    assert json.loads(run(*words).stdout)["mean"] == 0.5
    assert json.loads(run(*words[:1], "-o", "run/", *words[1:]).stdout)["mean"] == 0.5
    assert "--json-columns references" in json.loads((tmp_path / "run/manifest.json").read_text())["command"]
    written(
        tmp_path,
        "evalcell.toml",
        'dataset = "d.csv"\nevaluator = "p.py"\nmap = {references = "references"}\njson_columns = "references"\n',
    )
    (of_project,) = json.loads(evalcell("run", "--json").stdout)["runs"].values()
    assert of_project["mean"] == 0.5
    missing = run("p.py", "d.csv", "--map", "references=references", "--json-columns", "reference")
    assert missing.exit_code == 2
    assert "has no `reference` to read as JSON (did you mean `references`?)" in missing.stderr


def test_cells_that_are_no_json_fail_their_rows_with_the_step(tmp_path: Path) -> None:
    path = written(tmp_path, "d.csv", 'output,references\na,"[\'a\', \'b\']"\na,\na,"{""a"": 1}"\n')
    plain, declared = written(tmp_path, "p.py", LOOP), written(tmp_path, "o.py", OBJECT)
    report = evaluate(plain, path, mapping=MAP, json_columns="references")
    first, second, third = report.results
    assert first.error is not None
    assert "d.csv:2: column 'references', \"['a', 'b']\": not JSON" in first.error.message
    assert "Python's lists are no JSON: write them with json.dumps" in first.error.message
    assert second.error is not None  # null
    assert third.score == 1.0
    found = evaluate(declared, path, mapping=MAP).results
    assert [one.outcome for one in found] == ["failed", "failed", "scored"]
    one = written(tmp_path, "one.csv", "output,references\na,\"['a', 'b']\"\n")
    with pytest.raises(
        EvaluatorError, match=r"begin the function with .*\nfrom ast import literal_eval\nreferences = "
    ):
        evaluate(plain, one, mapping=MAP)
    asks = written(tmp_path, "a.py", ASKS)
    assert "looks like Python lists" in evaluate(asks, one, mapping=MAP).notes[0]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (['["a"]', '["b"]', "[]", '["c"]', "d"], "JSON lists in 4 of the first 5 rows"),
        (["['a']", "[]", "['b']"], "Python lists, and"),
        (["[]", "['b']", '["a"]'], "Python lists, and"),
        (["['a']", "a", "['b']"], "Python lists in 2 of the first 3 rows"),
        (["[None, 'b']", "[1, None]"], "Python lists, and"),
        (['["a"]', "b"], None),
        (["a", "b", '["c"]'], None),
        (["[sic] a]", "[x]"], None),
    ],
)
def test_a_column_of_which_most_cells_are_lists_is_told(cells: list[str], kind: str | None) -> None:
    rows = [{"output": "a", "references": one} for one in cells]
    notes = evaluate(parse_evaluator(ASKS, "l.py"), rows, mapping=MAP).notes
    assert len(notes) == (kind is not None)
    for note in notes:
        assert f"the column `references` looks like {kind}" in note
        assert ("put those right" in note) == ("in " in str(kind).partition("lists")[2][:4])


def test_a_row_of_lists_as_text_is_shown_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "m.py", "def evaluate(output, reference):\n    return float(output[0] in reference)\n")
    written(tmp_path, "d.csv", 'output,reference\n"[""d1""]","[""d2""]"\n')
    told = run("m.py", "d.csv")
    assert "$[0]" not in told.stdout
    assert '["d2"]' in told.stdout
