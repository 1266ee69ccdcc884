"""What a summary counts, and what it rests on."""

from __future__ import annotations

import json
import random
import statistics
import tracemalloc

import pytest

from runner.core.types import Categorical, Continuous, ErrorKind, Freeform, OutputConfig, Result, ResultError, Score
from runner.engine.scoring.interval import interval
from runner.engine.scoring.summary import Summary, passes
from runner.engine.scoring.tally import Tally


def result(score: float | None = None, label: str | None = None, **more: object) -> Result:
    made = {"id": "r", "number": 1, "evaluator": "e", "version": "v", "sandbox": "s", "outcome": "scored"}
    return Result.model_validate(made | {"score": score, "label": label} | more)


def failed(kind: ErrorKind, id: str) -> Result:
    outcome = "lost" if kind == "lost" else "failed"
    return result(id=id, outcome=outcome, error=ResultError(kind=kind, message=f"{kind} of {id}"))


def summed(*results: Result, outputs: dict[str, OutputConfig] | None = None) -> Summary:
    tally = Tally(outputs)
    for one in results:
        tally.add(one)
    return tally.summary(2.0)


def test_nothing_is_summed_up_as_nothing() -> None:
    summary = Tally().summary()
    assert (summary.rows, summary.count, summary.mean, summary.seconds) == (0, 0, None, None)
    assert summary.pass_rate is None
    assert json.loads(summary.model_dump_json())["rows"] == 0


def test_figures_rest_on_the_scored_rows_alone() -> None:
    summary = summed(
        result(1.0),
        result(2.0),
        result(6.0),
        result(None, "good"),
        result(None, "invalid", outcome="abstained"),
        failed("raised", "a"),
        failed("lost", "b"),
    )
    assert (summary.rows, summary.scored, summary.abstained, summary.failed, summary.lost) == (7, 4, 1, 1, 1)
    stats = summary
    assert (stats.count, stats.mean, stats.median, stats.min, stats.max) == (3, 3.0, 2.0, 1.0, 6.0)
    assert stats.labels == {"good": 1, "invalid": 1}
    assert (summary.seconds, summary.rows_per_second) == (2.0, 3.5)
    assert (summary.evaluator, summary.version, summary.sandbox) == ("e", "v", "s")


def test_errors_are_counted_by_kind_each_with_its_first_row() -> None:
    summary = summed(failed("timeout", "a"), failed("raised", "b"), failed("raised", "c"))
    assert [(e.kind, e.count, e.example, e.message) for e in summary.errors] == [
        ("raised", 2, "b", "raised of b"),
        ("timeout", 1, "a", "timeout of a"),
    ]


MANY = pytest.param(200_001, marks=pytest.mark.rotating("bounds of work and memory", "data"))


@pytest.mark.parametrize("count", [1, 2, 999, 1000, MANY])
def test_mean_and_median_are_exact_for_any_number_of_scores(count: int) -> None:
    numbers = random.Random(count)
    scores = [numbers.uniform(-1, 1) * 10 ** numbers.randint(-5, 5) for _ in range(count)]
    stats = summed(*(result(s) for s in scores))
    assert stats.mean == statistics.fmean(scores)
    assert stats.median == statistics.median(scores)
    assert (stats.min, stats.max, stats.count) == (min(scores), max(scores), count)


def test_scores_at_the_end_of_the_range_do_not_overflow() -> None:
    stats = summed(result(1.7e308), result(1.7e308), result(1.6e308), result(1.6e308))
    assert stats.mean == pytest.approx(1.65e308)
    assert stats.median == pytest.approx(1.65e308)


@pytest.mark.rotating("bounds of work and memory", "data")
@pytest.mark.parametrize(("different", "each"), [(150_000, 8), (100, 0)])
def test_a_score_costs_at_most_8_bytes(different: int, each: int) -> None:
    tally = Tally()
    tracemalloc.start()
    for n in range(150_000):
        tally.add(result(float(n % different), "x"))
    tally.summary()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000 * each + 6_000_000


def test_different_labels_are_bounded_and_long_ones_cut() -> None:
    stats = summed(*(result(None, f"label {n}") for n in range(150)), result(None, "label 3"))
    assert len(stats.labels) == 100
    assert stats.other_labels == 50
    assert next(iter(stats.labels.items())) == ("label 3", 2)
    [label] = summed(result(None, "x" * 100_000)).labels
    assert len(label) == 100


@pytest.mark.parametrize(
    ("direction", "passed"),
    [("maximize", [False, True, True]), ("minimize", [True, True, False]), ("none", [None, None, None])],
)
def test_at_the_threshold_passes_in_either_direction(direction: str, passed: list[bool | None]) -> None:
    config = Continuous.model_validate({"direction": direction, "threshold": 0.5})
    assert [passes(s, config) for s in (0.4, 0.5, 0.6)] == passed
    stats = summed(*(result(s) for s in (0.4, 0.5, 0.6)), outputs={"": config})
    assert stats.passed == (None if passed[0] is None else 2)
    assert stats.pass_rate == (None if passed[0] is None else 2 / 3)


def test_each_of_several_outputs_has_its_own_figures() -> None:
    outputs: dict[str, OutputConfig] = {
        "a": Continuous(threshold=0.5),
        "b": Categorical(labels={"x": 1.0, "y": None}),
        "c": Freeform(),
    }
    both = {"a": Score(score=0.7), "b": Score(label="x", score=1.0), "c": Score(label="z")}
    summary = summed(result(0.7, outputs=both), failed("raised", "q"), outputs=outputs)
    assert {name: s.count for name, s in summary.outputs.items()} == {"a": 1, "b": 1, "c": 0}
    assert summary.outputs["a"].passed == 1
    assert summary.outputs["b"].labels == {"x": 1}
    assert summary.count == summary.outputs["a"].count


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [
        ([0.2, 0.4, 0.6, 0.8], 0.0891483, 0.9108517),  # 0.5 and 3.18245 times 0.2581989 / 2
        ([1.0] * 3 + [0.0] * 7, 0.1077912674, 0.6032218525),  # Wilson, as in test_interval
        ([0.5] * 5, 0.5, 0.5),
    ],
)
def test_the_mean_has_an_interval(scores: list[float], low: float, high: float) -> None:
    found = summed(*map(result, scores))
    assert found.ci_low == pytest.approx(low, abs=1e-6)
    assert found.ci_high == pytest.approx(high, abs=1e-6)


def test_the_interval_of_many_different_scores_is_that_of_a_list() -> None:
    scores = [n * 0.618 % 1 for n in range(30_000)]
    found, expected = summed(*map(result, scores)), interval(scores)
    assert expected is not None
    assert found.ci_low == pytest.approx(expected.low)
    assert found.ci_high == pytest.approx(expected.high)


@pytest.mark.parametrize("scores", [[], [0.5], [1.7e308, -1.7e308]])
def test_the_mean_may_have_no_interval(scores: list[float]) -> None:
    found = summed(*map(result, scores))
    assert (found.ci_low, found.ci_high) == (None, None)
