"""`evalcell parity`, in this process: what is compared, what is shown, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import evalcell, write_rows

BOTH = ["--sandbox", "wasm", "--sandbox", "process", "-j", "1"]
VERSION = '''"""Scores 1, but on Python {newer} or later."""
import sys
def evaluate(output):
    if output == "raise" and sys.version_info >= ({newer}):
        raise ValueError("new")
    if output == "same":
        return {{"label": "x", "score": 0.5, "explanation": "one"}}
    late = sys.version_info >= ({newer})
    return {{"label": "x", "score": 0.0 if late else 1.0, "explanation": "late" if late else "early"}}
'''


@pytest.fixture
def differing(here: Path) -> Path:
    """A folder with a script whose scores depend on the Python that runs it."""
    Path("version.py").write_text(VERSION.format(newer="3, 14"))
    write_rows(Path("three.jsonl"), [{"id": word, "output": word} for word in ("same", "differs", "raise")])
    return here


def words(text: str) -> str:
    return " ".join(text.split())


def test_two_sandboxes_agree_on_a_demo(here: Path) -> None:
    result = evalcell("parity", "json-distance", "demo", *BOTH, "--limit", "20", "--lang", "py")
    assert result.exit_code == 0, result.output
    assert "rows 20: 20 agree, 0 differ scores to 1e-09" in words(result.stdout)
    assert "wasm json-distance, python, version" in words(result.stdout)


def test_rows_that_differ_are_listed_field_by_field(differing: Path) -> None:
    result = evalcell("parity", "version.py", "three.jsonl", *BOTH)
    assert result.exit_code == 1, result.output
    shown = words(result.stdout)
    assert 'differs differs row 2 score wasm 0.0 process 1.0 explanation wasm "late" process "early"' in shown
    assert "differs raise row 3 outcome wasm failed: ValueError: new (line 5) process scored" in shown
    assert "rows 3: 1 agree, 2 differ differ in score 1, explanation 1, outcome 1" in shown
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_json_has_the_same_and_quiet_says_nothing(differing: Path) -> None:
    result = evalcell("parity", "version.py", "three.jsonl", *BOTH, "--json", "-q")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert [side["name"] for side in report["sides"]] == ["wasm", "process"]
    assert (report["rows"], report["same"], report["different"], report["lost"]) == (3, 1, 2, 0)
    assert report["fields"] == {"score": 1, "explanation": 1, "outcome": 1}
    assert report["differences"][0]["values"] == {"score": [0.0, 1.0], "explanation": ["late", "early"]}
    assert report["differences"][1]["errors"] == ["ValueError: new (line 5)", None]
    assert evalcell("parity", "version.py", "three.jsonl", *BOTH, "-q").output == ""


def test_scores_may_differ_by_the_tolerance(differing: Path) -> None:
    Path("a.py").write_text("def evaluate(output):\n    return 0.5\n")
    Path("b.py").write_text("def evaluate(output):\n    return 0.500001\n")
    pair = ["parity", "a.py", "three.jsonl", "--other", "b.py", "--sandbox", "wasm", "-j", "1"]
    assert evalcell(*pair).exit_code == 1
    result = evalcell(*pair, "--tolerance", "0.001")
    assert result.exit_code == 0
    assert "scores to 0.001" in words(result.stdout)


def test_two_scripts_are_named_by_what_tells_them_apart(differing: Path) -> None:
    Path("other.py").write_text("def evaluate(output):\n    return 'x'\n")
    result = evalcell("parity", "version.py", "three.jsonl", "--other", "other.py", "-j", "1", "--json")
    assert result.exit_code == 1
    assert [side["name"] for side in json.loads(result.stdout)["sides"]] == ["version in wasm", "other in wasm"]
    result = evalcell("parity", "version.py", "three.jsonl", "--other", "other.py", *BOTH, "--json")
    sides = json.loads(result.stdout)["sides"]
    assert [(side["name"], side["evaluator"]) for side in sides] == [("wasm", "version"), ("process", "other")]


def test_once_more_in_the_same_sandbox_finds_what_does_not_repeat(differing: Path) -> None:
    Path("dice.py").write_text("import random\ndef evaluate(output):\n    return random.random()\n")
    twice = ["parity", "dice.py", "three.jsonl", "--sandbox", "wasm", "--sandbox", "wasm", "-j", "1"]
    result = evalcell(*twice)
    assert result.exit_code == 1
    assert "wasm (1)" in result.stdout
    assert evalcell(*twice, "--seed", "7").exit_code == 0


def test_the_worked_examples_are_a_dataset(differing: Path) -> None:
    Path("plus.py").write_text("def evaluate(output, by):\n    return float(output + by)\n")
    rows = [{"output": n, "set": {"by": n}, "expected": {"score": 0}} for n in range(3)]
    write_rows(Path("plus.cases.jsonl"), [*rows, rows[0] | {"languages": ["typescript"]}])
    result = evalcell("parity", "plus.py", "cases", *BOTH)
    assert result.exit_code == 0, result.output
    assert "rows 3: 3 agree" in words(result.stdout)


def test_rows_that_fail_alike_are_counted_and_alone_are_no_success(differing: Path) -> None:
    Path("fails.py").write_text("def evaluate(output):\n    return len(output) // (output != 'same')\n")
    result = evalcell("parity", "fails.py", "three.jsonl", *BOTH)
    assert result.exit_code == 0, result.output
    assert "3 agree (1 of them failed in the same way), 0 differ" in result.stdout
    result = evalcell("parity", "fails.py", "three.jsonl", *BOTH, "--limit", "1")
    assert result.exit_code == 3
    assert "nothing was compared: every row failed in the same way: ZeroDivisionError" in result.stderr


@pytest.mark.usefixtures("lossy")
def test_a_lost_row_is_no_difference(differing: Path) -> None:
    result = evalcell("parity", "version.py", "three.jsonl", "--sandbox", "wasm", "--sandbox", "lossy", "-j", "1")
    assert result.exit_code == 3
    assert "rows 3: 0 agree, 0 differ, 3 lost" in words(result.stdout)


WRONG = [
    (
        ["three.jsonl"],
        "there is nothing to compare with; name two sandboxes (--sandbox), or another script (--other), or run",
    ),
    (["three.jsonl", "--sandbox", "wasm"], "there is nothing to compare with"),
    (["three.jsonl", *BOTH, "--sandbox", "wasm", "--other", "version.py"], "in two sandboxes at most"),
    (["-", *BOTH], "can be read only once"),
    (["/dev/null", *BOTH], "can be read only once"),
    (["nothing.jsonl", *BOTH], "no dataset nothing.jsonl"),
    (["cases", *BOTH], "no worked examples for version.py"),
    (["three.jsonl", *BOTH, "--with", "numpy"], "the wasm sandbox has no packages"),
    (["three.jsonl", *BOTH, "--lang", "ts"], "version.py is Python"),
    (["three.jsonl", *BOTH, "--set", "nope=1"], "has no parameter `nope`"),
    (["three.jsonl", "--sandbox", "wasm", "--sandbox", "nowhere"], "there is no sandbox named 'nowhere'"),
    (["three.jsonl", *BOTH, "--tolerance", "-1"], "--tolerance"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[m[:40] for _, m in WRONG])
def test_wrong_usage_is_2(differing: Path, arguments: list[str], message: str) -> None:
    result = evalcell("parity", "version.py", *arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert message in words(result.stderr)


def test_an_empty_dataset_is_3(differing: Path) -> None:
    Path("empty.jsonl").write_text("")
    result = evalcell("parity", "version.py", "empty.jsonl", *BOTH)
    assert result.exit_code == 3
    assert "nothing was compared: the dataset has no rows" in result.stderr
