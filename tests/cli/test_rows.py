"""Rows with their texts in the terminal, charts, and the line that makes the worst known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.cli.views.charts import WIDTH, charts, outcome_bar
from runner.engine.scoring.summary import Stats, Summary
from tests.cli.commands import evalcell, header, write_rows

SCORE = "def evaluate(output, reference):\n    return float(len(output))\n"
UP = 'output = {kind = "continuous", direction = "maximize"}'


@pytest.fixture
def rows(here: Path) -> Path:
    (here / "up.py").write_text(header(SCORE, f"[tool.evalcell]\n# {UP}"))
    write_rows(here / "rows.jsonl", [{"id": f"r{n}", "output": "x" * n, "reference": f"ref {n}"} for n in range(1, 9)])
    return here


def test_output_and_reference_stand_side_by_side(rows: Path) -> None:
    for width in (60, 120):
        lines = evalcell("run", "up.py", "rows.jsonl", "--worst", "2", COLUMNS=str(width)).stdout.splitlines()
        (at,) = [number for number, line in enumerate(lines) if line.startswith("r2 ")]
        assert lines[at].split() == ["r2", "scored", "score", "2"]
        assert lines[at + 1].split() == ["output", "reference"]
        assert lines[at + 2].split() == ["xx", "ref", "2"]
        assert lines[at + 1].index("reference") == lines[at + 2].index("ref 2") == pytest.approx(width / 2, abs=4)
        assert all(len(line) <= width for line in lines)
        assert not any(line.startswith("r3 ") for line in lines)


def test_json_is_shown_by_what_differs(rows: Path) -> None:
    write_rows(rows / "json.jsonl", [{"output": '{"a": 1, "b": [2]}', "reference": {"a": 1, "b": [3], "c": 4}}])
    text = evalcell("run", "up.py", "json.jsonl").stdout
    lines = [line.split() for line in text.splitlines()]
    assert ["b[0]", "2", "3"] in lines
    assert ["c", "(nothing)", "4"] in lines
    assert not any(line[:1] == ["a"] for line in lines)


def test_a_long_path_is_broken_between_its_parts(rows: Path) -> None:
    deep = {"calls": [{"arguments": {"flights": [{"flight_number": 1}]}}]}
    other = {"calls": [{"arguments": {"flights": [{"flight_number": 2}]}}]}
    write_rows(rows / "deep.jsonl", [{"output": deep, "reference": other}])
    lines = evalcell("run", "up.py", "deep.jsonl", COLUMNS="80").stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("  calls[0]")]
    assert [line.split() for line in lines[at : at + 2]] == [
        ["calls[0].arguments", "1", "2"],
        [".flights[0].flight_number"],
    ]


def test_which_rows_and_how_many(rows: Path) -> None:
    def shown(*options: str) -> list[str]:
        lines = evalcell("run", "up.py", "rows.jsonl", *options).stdout.splitlines()
        return [line.split()[0] for line in lines if line.startswith("r") and "scored  score" in line]

    assert shown() == ["r1", "r2", "r3", "r4", "r5"]
    assert shown("--show", "best", "--worst", "2") == ["r8", "r7"]
    assert shown("--show", "failed") == shown("--worst", "0") == []
    assert shown("-o", "x.jsonl", "--worst", "1") == ["r1"]


def test_without_a_direction_the_line_to_add_is_shown(rows: Path) -> None:
    (rows / "plain.py").write_text(SCORE)
    result = evalcell("run", "plain.py", "rows.jsonl")
    assert "The lowest scores (assumed: higher is better)\n" in result.stdout
    block = [f"  # {line}" for line in ("/// script", "[tool.evalcell]", UP, "///")]
    assert "\n".join(block) in result.stdout
    (rows / "plain.py").write_text("\n".join(line.strip() for line in block) + "\n" + SCORE)
    assert "The worst rows\n" in evalcell("run", "plain.py", "rows.jsonl").stdout, "with the line it does so"
    (rows / "plain.py").write_text("def evaluate(output):\n    return 'long' if len(output) > 4 else 'short'\n")
    text = evalcell("run", "plain.py", "rows.jsonl").stdout
    assert '# output = {kind = "categorical", labels = {"short" = 1, "long" = 0}}' in text


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        *(
            (one, True)
            for one in ("word_error_rate", "wer", "editDistance", "levenshtein", "perplexity", "rmse", "loss")
        ),
        *((one, True) for one in ("toxicity_score", "hasViolation", "hallucination_score", "over_refusal_rate")),
        *((one, False) for one in ("overlap", "levenshtein_ratio", "edit_similarity", "answer_score", "computer")),
        *(
            (one, False)
            for one in (
                "refusal_quality",
                "refusal",
                "no_violation",
                "hallucination_free",
                "error_handling",
                "non_toxic_share",
            )
        ),
    ],
)
def test_the_direction_of_an_error_or_a_distance_is_to_minimize(rows: Path, name: str, lower: bool) -> None:
    (rows / "plain.py").write_text(f"def {name}(output, reference):\n    return float(len(output))\n")
    text = evalcell("run", f"plain.py:{name}", "rows.jsonl", COLUMNS="200").stdout
    assert f'direction = "{"minimize" if lower else "maximize"}"}}' in text
    other = 'or "maximize" where higher is better' if lower else 'or "minimize" where lower is better'
    assert other in text


def test_the_line_to_add_scores_the_label_that_says_that_all_is_well(rows: Path) -> None:
    (rows / "plain.py").write_text("def evaluate(output):\n    return len(output) > 4\n")
    labels = '# output = {kind = "categorical", labels = {"True" = 1, "False" = 0}}'
    lines = [json.dumps({"id": text, "output": text}) for text in ("short", "a", "longer")]
    for number in (0, 1):
        (rows / "few.jsonl").write_text("\n".join([*lines[number:], *lines[:number]]))
        assert labels in evalcell("run", "plain.py", "few.jsonl").stdout
    for only in ("longer", "a"):  # the other label is in no row
        (rows / "few.jsonl").write_text(json.dumps({"output": only}))
        assert labels in evalcell("run", "plain.py", "few.jsonl").stdout
    (rows / "plain.py").write_text("def evaluate(output):\n    return 'wrong'\n")
    assert 'labels = {"wrong" = 0}' in evalcell("run", "plain.py", "few.jsonl").stdout
    (rows / "plain.py").write_text("def has_violation(output):\n    return len(output) > 4\n")
    text = evalcell("run", "plain.py:has_violation", "few.jsonl", COLUMNS="200").stdout
    assert 'labels = {"False" = 1, "True" = 0}' in text
    assert "with 1 for the label that is good" in text
    (rows / "plain.py").write_text("def evaluate(output):\n    return 'toxic' if len(output) > 4 else 'neutral'\n")
    (rows / "few.jsonl").write_text("\n".join(lines))
    text = evalcell("run", "plain.py", "few.jsonl", COLUMNS="200").stdout
    assert 'labels = {"neutral" = 1, "toxic" = 0}' in text
    assert "with 1 for the label that is good" in text


def test_nothing_in_a_row_reaches_the_terminal(rows: Path) -> None:
    hostile = "\x1b[31m[bold]\u202e\x07"
    write_rows(rows / "rows.jsonl", [{"id": hostile, "output": hostile, "reference": {hostile: hostile}}])
    text = evalcell("run", "up.py", "rows.jsonl").stdout
    assert not set(text) & set("\x1b\x07\u202e")
    assert "[bold]" in text


def test_outcomes_are_a_bar() -> None:
    bar = outcome_bar(Summary(rows=1000, scored=700, abstained=299, failed=1)).plain
    assert len(bar) == WIDTH
    assert (bar.count("▒"), bar.count("░")) == (1, 0)
    assert bar.count("█") == pytest.approx(28, abs=1)


def test_scores_are_a_histogram_and_labels_are_bars(rows: Path) -> None:
    text = evalcell("run", "up.py", "rows.jsonl").stdout
    lines = text.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("scores ")]
    assert lines[at].count("█") == 16, "eight scores of twenty bins, two characters each"
    assert lines[at + 3].split() == ["1", "8"]
    named = dict(charts(Stats(count=3, labels={"a" * 99: 30, "b": 1}, other_labels=2)))
    assert [*named] == ["labels", ""]
    assert charts(Stats()) is not None
    assert list(charts(Stats())) == []
