"""Values and labels that differ and look the same are told apart where they are shown."""
# ruff: noqa: RUF001

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from runner import compare_runs, evaluate
from runner.cli.views.compare_view import comparison_view
from runner.engine.scoring.look_alikes import tell_apart
from tests.cli.commands import evalcell, run
from tests.inputs.reading import written

SAME = "def evaluate(output, reference):\n    return float(output == reference)\n"
PAIRS = [
    ("x", "x ", '"x"', '"x "'),
    ("", " ", '""', '" "'),
    ("a\r\nb", "a\nb", r'"a\r\nb"', r'"a\nb"'),
    ("a b", "a\u00a0b", '"a b"', r'"a\xa0b"'),
    ("a b", "a  b", '"a b"', r'"a \x20b"'),
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


LABELS = "def evaluate(output):\n    return output\n"
ALIKE = {"x": '"x"', "x ": '"x "', "pass": '"pass"', "pаss": r'"p\u0430ss"', "é": '"é"', "e\u0301": r'"e\u0301"'}


def _labelled(folder: Path, name: str, labels: list[str]) -> Path:
    script = written(folder, "label.py", LABELS)
    rows = "".join(json.dumps({"id": f"r{n}", "output": one}) + "\n" for n, one in enumerate(labels))
    results = folder / f"{name}.jsonl"
    done = run(str(script), str(written(folder, "d.jsonl", rows)), "--sandbox", "process", "-o", str(results))
    assert done.exit_code == 0, done.output
    return results


def test_changes_of_labels_are_told_apart(tmp_path: Path) -> None:
    one, other = (
        list(ALIKE),
        [again for first, second in zip(*[iter(ALIKE)] * 2, strict=True) for again in (second, first)],
    )
    base, new = _labelled(tmp_path, "base", one), _labelled(tmp_path, "new", other)
    html, markdown = tmp_path / "r.html", tmp_path / "r.md"
    words = ("compare", str(base), str(new), "--ignore-input", "--report", str(html), "--report", str(markdown))
    done = evalcell(*words)
    assert done.exit_code == 3, done.output  # labels alone are no scores
    texts = [done.output, unescape(html.read_text()), unescape(markdown.read_text())]
    for text in texts:
        assert [shown for shown in ALIKE.values() if shown not in text] == []
    for count in (6, 2):  # the matrix of few labels, and without it
        base, new = _labelled(tmp_path, "base", one[:count]), _labelled(tmp_path, "new", other[:count])
        made = compare_runs(base, new, ignore_input=True)
        changes = {(each.base, each.new) for each in made.labels}
        assert changes == {(ALIKE[a], ALIKE[b]) for a, b in zip(one[:count], other[:count], strict=True)}


def test_labels_that_are_cut_alike_are_told_apart(tmp_path: Path) -> None:
    names = ["contradicts the question", "contradicts the answer", "none"]
    made = compare_runs(_labelled(tmp_path, "base", names), _labelled(tmp_path, "new", names[::-1]), ignore_input=True)
    shown = Console(width=160)
    with shown.capture() as text:
        shown.print(comparison_view(made, 160))
    assert all(name in text.get() for name in names)


def test_ids_that_look_alike_are_named(tmp_path: Path) -> None:
    def results(name: str, ids: list[str]) -> Path:
        lines = "".join(json.dumps({"id": id, "score": 1.0}) + "\n" for id in ids)
        return written(tmp_path, name, lines)

    done = evalcell(
        "compare", str(results("a.jsonl", ["q1", "q2", "q3"])), str(results("b.jsonl", ["q1", "q2\u200b", "q3 "]))
    )
    told = " ".join(done.output.split())
    assert r'"q2" and "q2\u200b"' in told
    assert '"q3" and "q3 "' in told


def test_shown_rows_have_the_labels_of_the_chart(tmp_path: Path) -> None:
    script = written(tmp_path, "label.py", LABELS)
    report = evaluate(script, [{"output": one} for one in ALIKE], sandbox="process", worst=1)
    assert [row.label for row in report.shown.rows] == ['"x"']
    every = evaluate(script, [{"output": one} for one in ALIKE], sandbox="process", worst=6)
    assert [row.label for row in every.shown.rows] == list(ALIKE.values())


def test_a_label_that_only_looks_like_a_declared_one(tmp_path: Path) -> None:
    config = (
        '# /// script\n# [tool.evalcell]\n# output = {kind = "categorical", labels = {pass = 1, fail = 0}}\n# ///\n'
    )
    script = written(tmp_path, "label.py", config + LABELS)
    (result,) = evaluate(script, [{"output": "pаss"}], sandbox="process").results
    assert result.error is not None
    assert r'the label "p\u0430ss" is none of `pass`, `fail` (did you mean `pass`?)' in result.error.message


def test_an_example_whose_label_looks_as_expected(tmp_path: Path) -> None:
    script = written(tmp_path, "label.py", LABELS)
    cases = written(tmp_path, "cases.jsonl", json.dumps({"output": "pаss", "expected": {"label": "pass"}}) + "\n")
    done = evalcell("test", str(script), str(cases), "--sandbox", "process")
    assert r'"p\u0430ss"' in done.output
