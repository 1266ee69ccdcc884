"""Columns that a run needs, looked for before it begins; the likeliest are named, never taken."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import InputError, InputMapping, SandboxConfig, evaluate, parity, stream
from runner.core.errors import ColumnsError
from runner.core.types import Result
from runner.inputs.datasets.required_columns import ROWS, SIZE
from runner.inputs.evaluators.column import Column, column_text, parse_source
from runner.inputs.evaluators.column_suggestions import likely_columns

BOTH = "def evaluate(output, reference):\n    return float(output == reference)\n"
FAKE = SandboxConfig(backend="fake")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "same.py"
    path.write_text(BOTH)
    return str(path)


def refused(evaluator: str, dataset: Any, **more: Any) -> ColumnsError:
    with pytest.raises(ColumnsError) as caught:
        evaluate(evaluator, dataset, **more)
    assert str(caught.value).isprintable()
    return caught.value


@pytest.mark.parametrize(
    ("columns", "output", "reference"),
    [
        ("prediction gold", "prediction", "gold"),
        ("id question response ground_truth", "response", "ground_truth"),
        ("question answer ideal", "answer", "ideal"),
        ("question response answer", "response", "answer"),
        ("question answer", "answer", None),
        ("Model output|Expected output", "Model output", "Expected output"),
        ("modelOutput referenceAnswer", "modelOutput", "referenceAnswer"),
        ("inputs.question outputs.output reference.answer", "outputs.output", "reference.answer"),
        ("prompt completion label", "completion", "label"),
        ("text model_output target", "model_output", "target"),
        ("generated_sql gold_sql", "generated_sql", "gold_sql"),
        ("x y z", None, None),
    ],
)
def test_people_call_columns_by_many_names(columns: str, output: str | None, reference: str | None) -> None:
    names = columns.split("|" if "|" in columns else None)
    found = likely_columns({"output": "output", "reference": "reference"}, names)
    assert (found.get("output"), found.get("reference")) == (output, reference)


def test_a_parameter_of_ones_own_name_and_a_slip_of_the_pen() -> None:
    wanted = {"gold": "gold", "completion": "completion", "question": "question"}
    assert likely_columns(wanted, ["reference", "output", "input"]) == {
        "gold": "reference",
        "completion": "output",
        "question": "input",
    }
    assert likely_columns({"output": "gpt_anser"}, ["answer", "gpt_answer"]) == {"output": "gpt_answer"}


@given(st.lists(st.text(max_size=30), max_size=30), st.lists(st.text(max_size=20), max_size=12, unique=True))
def test_no_column_is_likely_for_two_parameters(columns: list[str], parameters: list[str]) -> None:
    found = likely_columns(dict(zip(parameters, parameters, strict=True)), columns)
    assert len(set(found.values())) == len(found)
    assert set(found.values()) <= set(columns)


@given(st.text(min_size=1, max_size=60))
def test_any_column_can_be_written_and_is_found_again(name: str) -> None:
    text = column_text(name)
    assert text.isprintable()
    source = parse_source(text)
    row = {"output": 1, "reference": 2, "input": 3, "id": "4", "metadata": {"x": 5}}
    document = row if name in row else row | {"metadata": {name: 6}}
    assert source.value(document) == row.get(name, 6)


def test_a_bare_name_is_a_column_and_anything_else_a_path() -> None:
    for text in ("prediction", "Model answer", "a-b", "ä", "(x)", "is it?"):
        assert isinstance(parse_source(text), Column), text
    for text in ("$.prediction", "output.text", "output[0]", "*", "$", ".output"):
        assert not isinstance(parse_source(text), Column), text


def test_python_is_told_the_whole_call(script: str) -> None:
    rows = [{"answer": "a", "ideal": "a"}]
    error = refused(script, rows, limit=3, gates=["mean<1"], mapping=InputMapping(paths={"output": "anser"}))
    call = (
        f"evaluate({script!r}, rows, limit=3, gates=['mean<1'], mapping={{'output': 'answer', 'reference': 'ideal'}})"
    )
    assert "no column for `reference`, and no column `anser` (did you mean `answer`?), which `output`" in str(error)
    assert "the columns are `answer`, `ideal`; " in str(error)
    assert str(error).endswith(f"call {call}, if these columns are the right ones")
    [result] = eval(call, {"evaluate": evaluate, "rows": rows}).results
    assert result.score == 1.0


def test_python_takes_plain_names(script: str) -> None:
    rows = [{"answer": "a", "deep": {"gold": "a"}}]
    [result] = evaluate(script, rows, mapping={"output": "answer", "reference": "metadata.deep.gold"}).results
    assert result.score == 1.0
    wrong: Any = {"limit": 3}
    with pytest.raises(InputError, match=r"not \('limit', 3\); a value is given by InputMapping\(literals="):
        evaluate(script, rows, mapping=wrong)


def test_parity_and_stream_are_refused_too(script: str) -> None:
    rows = [{"answer": "a", "gold": "b"}]
    with pytest.raises(
        ColumnsError, match=r"call parity\('.*same\.py', rows, other='.*', mapping=\{'output': 'answer', "
    ):
        parity(script, rows, other=script)

    async def collect() -> list[Result]:
        return [result async for result in stream(script, rows)]

    with pytest.raises(ColumnsError, match=r"call stream\('.*same\.py', rows, mapping=\{'output': 'answer', "):
        asyncio.run(collect())


def test_rows_that_wait_for_the_callers_loop_may_be_streamed(script: str) -> None:
    async def collect() -> list[float | None]:
        ready = threading.Event()
        asyncio.get_running_loop().call_later(0.01, ready.set)

        def rows() -> Iterator[dict[str, str]]:
            ready.wait()
            yield {"output": "a", "reference": "a"}

        return [result.score async for result in stream(script, rows(), sandbox=FAKE)]

    assert len(asyncio.run(collect())) == 1


def test_what_is_optional_is_not_demanded(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("def evaluate(output, reference=None, least=1):\n    return 1.0\n")
    [result] = evaluate(script, [{"output": "a"}], sandbox=FAKE).results
    assert result.outcome == "scored"
    error = refused(str(script), [{"answer": "a", "gold": "b", "least": 3}])
    assert error.paths == {"output": "answer", "reference": "gold"}, "said, as it would be of use"
    assert "no column for `output`;" in str(error)
    # But a path that was asked for must be there.
    assert refused(str(script), [{"output": "a"}], mapping={"least": "most"}).paths["least"] == "COLUMN"


def test_a_parameter_that_a_header_declares_may_be_given_a_value(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    header = '# /// script\n# [tool.evalcell.parameters]\n# words = {type = "string"}\n# ///\n'
    script.write_text(f"{header}def evaluate(output, words):\n    return 1.0\n")
    error = refused(str(script), [{"output": "a"}])
    assert (error.paths, error.values) == ({}, ("words",))
    assert "mapping=InputMapping(paths={}, literals={'words': VALUE})), with the right VALUE" in str(error)
    assert evaluate(str(script), [{"output": "a", "words": "b"}], sandbox=FAKE).summary.scored == 1


def test_single_rows_without_a_field_fail_as_rows(script: str, tmp_path: Path) -> None:
    lines = [{"output": "a"}] * (ROWS - 1) + [{"output": "a", "reference": "a"}]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for dataset in (path, lines):
        report = evaluate(script, dataset, sandbox=FAKE, max_failed="100%")
        assert (report.summary.rows, report.summary.failed) == (ROWS, ROWS - 1)
        assert [result.number for result in report.results] == list(range(1, ROWS + 1))
    path.write_text("".join(json.dumps(line) + "\n" for line in [lines[0], *lines]))
    assert f"rows.jsonl, in its first {ROWS} rows, has no column for `reference`" in str(refused(script, path))


def test_a_first_row_that_is_broken_hides_no_column(script: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{\n{"output": 1, "reference": 1}\n')
    assert [result.outcome for result in evaluate(script, path, sandbox=FAKE).results] == ["failed", "scored"]
    path.write_text('{\n{"answer": 1}\n')
    assert refused(script, path).paths == {"output": "answer", "reference": "COLUMN"}
    path.write_text("{\n{\n")
    assert evaluate(script, path, sandbox=FAKE).summary.failed == 2


def test_a_csv_header_says_it_all(script: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("prediction,gold\n")
    assert refused(script, path).paths == {"output": "prediction", "reference": "gold"}
    path.write_text('output,metadata\na,"{""gold"": ""a""}"\n')
    assert refused(script, path).paths == {"reference": "gold"}
    assert evaluate(script, path, mapping={"reference": "gold"}, sandbox=FAKE).summary.scored == 1


def test_columns_without_a_meaning_are_metadata(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text("def evaluate(output, metadata):\n    return 1.0\n")
    path = tmp_path / "rows.csv"
    path.write_text("output,n\na,1\n")
    assert evaluate(script, path, sandbox=FAKE).summary.scored == 1
    path.write_text("output\na\n")
    assert refused(str(script), path).paths == {"metadata": "COLUMN"}


@pytest.mark.rotating("long tests", "data")
def test_a_parquet_schema_is_looked_at(script: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    names = [*(f"other {n}" for n in range(300)), "prediction", "gold"]
    parquet.write_table(pa.table({name: ["a"] for name in names}), path)
    assert refused(script, path, mapping={"output": "prediction"}).paths["reference"] == "COLUMN"
    mapping = {"output": "prediction", "reference": "gold"}
    assert evaluate(script, path, mapping=mapping).summary.mean == 1.0
    parquet.write_table(pa.table({name: ["a"] for name in names[-2:]}), path)
    assert refused(script, path).paths == mapping


def test_a_path_that_belongs_below_metadata_is_written_so(script: str) -> None:
    error = refused(script, [{"answer": {"text": "a"}, "reference": "a"}], mapping={"output": "answer.text"})
    assert error.paths == {"output": "$.metadata.answer.text"}
    meant = "nothing at `$.answer.text` (did you mean `$.metadata.answer.text`?), which `output` is mapped to"
    assert meant in str(error)


GERMAN = {"ticket_id": "1", "frage": "q", "modellantwort": "a", "goldantwort": "a"}
DEEP = {"answer": {"text": ["a"]}, "gold": "a", "usage": {"tokens": 3}}


@pytest.mark.parametrize(
    ("row", "mapping", "path"),
    [
        (GERMAN, {"output": "Antwort"}, "modellantwort"),
        (GERMAN, {"output": "Antwort", "reference": "goldantwort"}, "modellantwort"),
        (GERMAN, {"output": "MODELLANTWORT", "reference": "goldantwort"}, "modellantwort"),
        (DEEP, {"output": "answr.text", "reference": "gold"}, "$.metadata.answer.text"),
        (DEEP, {"output": "$.answer.txt[0]", "reference": "gold"}, "$.metadata.answer.text[0]"),
        (DEEP, {"output": "metadata.answr.Text", "reference": "gold"}, "$.metadata.answer.text"),
        (DEEP, {"output": "answr", "reference": "gold"}, "answer"),
    ],
)
def test_there_is_one_guess_and_it_is_the_best(script: str, row: Any, mapping: dict[str, str], path: str) -> None:
    error = refused(script, [row], mapping=mapping)
    assert error.paths["output"] == path
    assert str(error).count("did you mean") == 1
    assert f"(did you mean `{path}`?), which `output` is mapped to" in str(error)
    assert evaluate(script, [row], mapping=mapping | error.paths, sandbox=FAKE).summary.scored == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"id": "tickt_id"}, "has no `tickt_id` for the id (did you mean `ticket_id`?)"),
        ({"keep": "Frage"}, "has no `Frage` to keep (did you mean `frage`?)"),
        ({"keep": "usge.tokns"}, "has no `$.usge.tokns` to keep (did you mean `$.metadata.usage.tokens`?)"),
    ],
)
@pytest.mark.parametrize("file", [True, False])
def test_columns_of_other_uses_are_guessed_once_too(
    script: str, tmp_path: Path, more: dict[str, Any], words: str, file: bool
) -> None:
    row = GERMAN | DEEP | {"output": "a", "reference": "a"}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError) as caught:
        evaluate(script, path if file else [row], **more)
    assert f"{words}; the columns are " in str(caught.value)
    assert "`metadata`" not in str(caught.value), "no column of the dataset has this name"


def test_a_row_that_lacks_the_end_of_a_path_is_told_what_is_meant(script: str) -> None:
    rows = [DEEP | {"reference": "a"}]
    [result] = evaluate(script, rows, mapping={"output": "metadata.answer.txt"}, max_failed="100%").results
    assert result.error is not None
    assert result.error.message.endswith("has the keys `text` (did you mean `$.metadata.answer.text`?)")


def test_names_that_an_enemy_made(script: str) -> None:
    rows = [{f"gold \x1b[31m{n}\n": "a" for n in range(5000)} | {"prediction.\u202e'\"": "a"}]
    error = refused(script, rows)
    assert len(str(error)) < 3000
    assert "and 4981 more" in str(error)
    rows = [{"prediction.\u202e'\"": "a", "gold \x1b[31m\n": "a"}]
    error = refused(script, rows)
    assert evaluate(script, rows, mapping=error.paths).summary.mean == 1.0


def test_what_is_held_to_look_further_is_bounded(script: str) -> None:
    read = 0

    def rows() -> Iterator[dict[str, str]]:
        nonlocal read
        for _ in range(ROWS):
            read += 1
            yield {"output": "x" * (SIZE // 4)}

    assert "in its first 5 rows" in str(refused(script, rows()))
    assert read == 5


def test_a_column_that_numbers_is_not_likely_by_a_part_of_its_name() -> None:
    assert likely_columns({"input": "input"}, ["question_id", "answer_index"]) == {}
    assert likely_columns({"input": "input"}, ["question_id", "the_question"]) == {"input": "the_question"}
