"""What is said of rows that all end alike: the errors that a script hides, and what it was given where it raises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import evalcell, write_rows

ROWS = [
    {"id": f"r{n}", "output": f'{{"n": {n}}}', "sample": {"pred": n}, "gold": f"g{n}", "text": "t"} for n in range(4)
]
HIDES = """import json

def evaluate(output):
    try:
        return float(json.loads(output)["gold"] == "a")
    except Exception:
        return 0.0
"""
WAITS = HIDES.replace("def evaluate", "async def evaluate")
HELPS = """def read(sample):
    return sample["answer"]

def judge(sample):
    try:
        return read(sample) == "a"
    except (KeyError, TypeError):
        return None
"""
TOOL = """def judge(run, example):
    try:
        return {"key": "k", "score": int(run.outputs["answr"] == 1)}
    except Exception:
        return {"key": "k", "score": 0}
"""
LOOPS = "def evaluate(output):\n    return len([one for one in iter(output.split(','))]) * 0.5\n"


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", ROWS)
    return "rows.jsonl"


def notes(source: str, entry: str, *options: str) -> str:
    Path("script.py").write_text(source)
    done = evalcell("run", f"script.py{entry}", "rows.jsonl", *options)
    return done.stderr


@pytest.mark.parametrize("sandbox", ["wasm", "process"])
@pytest.mark.parametrize(
    ("source", "entry", "said"),
    [
        (HIDES, "", "line 5 hid KeyError: 'gold'"),
        (WAITS, "", "line 5 hid KeyError: 'gold'"),
        (HELPS, ":judge", "line 2 hid KeyError: 'answer'"),
        (TOOL, ":judge", "line 3 hid "),
    ],
)
def test_an_error_that_is_hidden_in_all_rows_is_named(
    rows: str, source: str, entry: str, said: str, sandbox: str
) -> None:
    options = ["--dialect", "langsmith"] if source is TOOL else []
    write_rows(Path(rows), [row | {"outputs": {"answer": row["gold"]}, "reference": {"a": 1}} for row in ROWS])
    assert said in notes(source, entry, "--sandbox", sandbox, *options)


def test_check_names_an_error_that_is_hidden_in_its_rows(rows: str) -> None:
    Path("script.py").write_text(HIDES)
    assert "line 5 hid KeyError: 'gold'" in evalcell("check", "script.py", rows).stderr


@pytest.mark.parametrize("source", [LOOPS, HIDES.replace("0.0", "len(output) % 7")])
def test_nothing_is_said_where_nothing_is_hidden_or_rows_differ(rows: str, source: str) -> None:
    if source is not LOOPS:
        write_rows(Path("rows.jsonl"), [row | {"output": "x" * n} for n, row in enumerate(ROWS, 1)])
    assert " hid " not in notes(source, "")


def test_a_script_that_raises_in_each_row_is_told_what_it_was_given(rows: str) -> None:
    said = notes('def judge(sample, text):\n    return sample["gold"] == text\n', ":judge")
    assert 'note: each row fails alike, at line 2, `return sample["gold"] == text`' in said
    assert '`sample` is an object, {"pred": 0}, from sample; `text` is a text, "t", from text' in said
    assert "try --map 'sample.pred=$.metadata.sample.pred' --map sample.gold=gold" in said
    tried = evalcell(
        "run",
        "script.py:judge",
        "rows.jsonl",
        "--map",
        "sample.pred=$.metadata.sample.pred",
        "--map",
        "sample.gold=gold",
    )
    assert tried.exit_code == 0


def test_no_column_is_blamed_for_what_the_sandbox_has_not(rows: str) -> None:
    source = "import multiprocessing\n\ndef judge(sample, text):\n    return multiprocessing.Manager().list()\n"
    assert "fails alike" not in notes(source, ":judge", "--sandbox", "process")


def test_one_error_is_shown_once(rows: str) -> None:
    Path("script.py").write_text("import no_such_module\n\ndef evaluate(output): return 1\n")
    shown = evalcell("run", "script.py", "rows.jsonl").stdout
    assert shown.count("the same error") == len(ROWS) - 1


def test_the_only_verdict_of_a_dict_is_its_result(rows: str) -> None:
    source = 'def judge(output): return {"valid": "1" in output, "error": [], "seen": output}\n'
    Path("script.py").write_text(source)
    done = evalcell("run", "script.py:judge", "rows.jsonl")
    assert done.exit_code == 0
    assert "mean 0.25" in done.stdout
