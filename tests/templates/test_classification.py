"""`aggregate` of the template classification: what scikit-learn says of the whole dataset."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import templates
from runner import SandboxConfig, evaluate
from runner.engine.scoring.summary import Summary
from runner.inputs.evaluators.load import parse_evaluator
from runner.runs.report import Report
from tests.skips import need

BESIDE = '''

from sklearn import metrics

of_template = aggregate


def aggregate(results):
    """The template's figures of each group of rows, and beside them what scikit-learn says of one long list."""
    figures = {}
    for group in dict.fromkeys(row["id"].partition("-")[0] for row in results):
        rows = [row for row in results if row["id"].startswith(group + "-")]
        figures |= {f"{group} {name}": value for name, value in of_template(rows).items()}
        sides = ("output", "reference")
        found, wanted = ([one for row in rows for one in labels(row["arguments"][side])] for side in sides)
        if len(found) != len(wanted):
            continue
        figures[f"{group} sklearn accuracy"] = metrics.accuracy_score(wanted, found)
        for average in ("macro", "weighted"):
            for name in ("precision", "recall", "f1"):
                score = getattr(metrics, f"{name}_score")(wanted, found, average=average, zero_division=0)
                figures[f"{group} sklearn {average}_{name}"] = score
    return figures
'''
SOURCE = templates.source("classification")


def report(pairs: dict[str, list[tuple[Any, Any]]], source: str = SOURCE + BESIDE) -> Report:
    need("process")
    rows = [
        {"id": f"{group}-{at}", "output": found, "reference": wanted}
        for group, every in pairs.items()
        for at, (found, wanted) in enumerate(every)
    ]
    return evaluate(parse_evaluator(source, "x"), rows, sandbox=SandboxConfig(backend="process", jobs=2))


def drawn(kind: str, labels: list[Any]) -> list[tuple[Any, Any]]:
    draw = random.Random(kind)
    found = [draw.choice(labels) for _ in range(120)]
    return [(one, one if draw.random() < 0.5 else draw.choice(labels)) for one in found]


def demo() -> list[tuple[Any, Any]]:
    path = templates.demo("classification")
    assert path is not None
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [(row["output"], row["reference"]) for row in rows]


def agree(summary: Summary, group: str) -> None:
    expected = {name: value for name, value in summary.aggregates.items() if name.startswith(f"{group} sklearn ")}
    assert len(expected) == 7
    for name, value in expected.items():
        assert summary.aggregates[name.replace(" sklearn ", " ")] == pytest.approx(value, abs=1e-12), name


@pytest.mark.rotating("templates", "templates")
def test_the_figures_are_those_of_scikit_learn_on_the_whole_dataset() -> None:
    flat = drawn("lists", ["x", "y", "z"])
    lists = [tuple(map(list, zip(*flat[at : at + 3], strict=True))) for at in range(0, len(flat), 3)]
    groups: dict[str, list[Any]] = {
        "demo": demo(),
        "text": drawn("text", ["a", "b", "é", "d"]),
        "numbers": drawn("numbers", [0, 1, 2, 7]),
        "booleans": drawn("booleans", [True, False]),
        "lists": lists,
        "missing": [("a", "a"), ("b", "b"), (None, "a"), ("b", ""), ("a", None)],
    }
    summary = report(groups).summary
    assert (summary.aggregate_error, summary.failed) == (None, 0)
    for group in list(groups)[:-1]:
        agree(summary, group)
    # Of 5 pairs 2 are right; a is once found where it is, once where nothing is, and once not found.
    named = {name.removeprefix("missing "): v for name, v in summary.aggregates.items() if name.startswith("missing ")}
    assert named["accuracy"] == pytest.approx(2 / 5)
    assert named["macro_precision"] == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert named["macro_recall"] == pytest.approx((1 / 2 + 1) / 2)


@pytest.mark.rotating("templates", "templates")
def test_labels_of_two_kinds_have_no_figures() -> None:
    summary = report({"mixed": [("a", "a"), (1, 1)]}, SOURCE).summary
    assert summary.scored == 2
    assert summary.aggregate_error is not None
    assert "labels that are text cannot be compared" in summary.aggregate_error.message
