"""Values and labels that differ and look the same are told apart where they are shown."""
# ruff: noqa: RUF001

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import evaluate
from runner.engine.scoring.look_alikes import tell_apart
from tests.cli.commands import run
from tests.inputs.reading import written

SAME = "def evaluate(output, reference):\n    return float(output == reference)\n"
PAIRS = [
    ("x", "x ", '"x"', '"x "'),
    ("", " ", '""', '" "'),
    ("a\r\nb", "a\nb", r'"a\r\nb"', r'"a\nb"'),
    ("a b", "a\u00a0b", '"a b"', r'"a\xa0b"'),
    ("a b", "a  b", '"a b"', '"a  b"'),
    ("é", "e\u0301", '"é"', r'"e\u0301"'),
    ("ab", "a\u200bb", '"ab"', r'"a\u200bb"'),
    ("pass", "pаss", '"pass"', r'"p\u0430ss"'),
    ("fin", "ﬁn", '"fin"', r'"\ufb01n"'),
    ("it's", "it’s", '"it\'s"', r'"it\u2019s"'),
    ("Привет", "Привет ", '"Привет"', '"Привет "'),
    ("x", "y", "x", "y"),
    ("é", "e", "é", "e"),
    ("x ", "x ", "x ", "x "),
]


@pytest.mark.parametrize(("one", "other", "shown", "others"), PAIRS)
def test_what_looks_alike_is_marked(one: str, other: str, shown: str, others: str) -> None:
    assert tell_apart([one, other]) == [shown, others]
    assert tell_apart([other, one, "else"]) == [others, shown, "else"]


@pytest.mark.parametrize(("one", "other", "shown", "others"), PAIRS[:-1])
def test_rows_are_shown_so(tmp_path: Path, one: str, other: str, shown: str, others: str) -> None:
    script = written(tmp_path, "em.py", SAME)
    (row,) = evaluate(script, [{"output": one, "reference": other}], sandbox="process").shown.rows
    assert row.arguments == {"output": shown, "reference": others}


def test_a_number_and_its_text(tmp_path: Path) -> None:
    script = written(tmp_path, "em.py", SAME)
    (row,) = evaluate(script, [{"output": 42, "reference": "42"}], sandbox="process").shown.rows
    assert row.arguments == {"output": "42", "reference": '"42"'}
    (nested,) = evaluate(script, [{"output": {"a": "é"}, "reference": {"a": "e\u0301"}}], sandbox="process").shown.rows
    assert (nested.differences[0].output, nested.differences[0].reference) != ('"é"', '"é"')
    assert r"\u0301" in nested.differences[0].reference


def test_labels(tmp_path: Path) -> None:
    script = written(tmp_path, "label.py", "def evaluate(output):\n    return output\n")
    rows = written(tmp_path, "d.jsonl", "".join(json.dumps({"output": one}) + "\n" for one in ("x ", "x\n", "y")))
    done = run(str(script), str(rows), "--sandbox", "process", "--require", "label:x>=1")
    assert done.exit_code == 1
    told = " ".join(done.stderr.split())
    assert r'label gave labels that look alike and count apart, "x ", "x\n": make them alike in the script' in told
    assert '"x "  ' in done.output
    assert r'"x\n"' in done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0.5", '"0.5" in row 1: that is a label, and no score; return float(…), or'),
        ("50%", '"50%" in row 1: that is a label, and no score; return float(text.strip().rstrip("%")) / 100, or'),
        ("nan", '"nan" in row 1: that is a label, and no score; return float(…), or'),
    ],
)
def test_numbers_as_text_name_a_row_and_the_way(tmp_path: Path, text: str, said: str) -> None:
    script = written(tmp_path, "label.py", "def evaluate(output):\n    return output\n")
    rows = written(tmp_path, "d.jsonl", json.dumps({"output": text}) + "\n")
    assert said in " ".join(run(str(script), str(rows), "--sandbox", "process").stderr.split())
