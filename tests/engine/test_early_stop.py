"""Verdicts before the last row, held against simulations: docs/decisions/0091-stop-when-sure.md, small and seeded."""

from __future__ import annotations

import random
from statistics import median

import pytest

from benchmarks.stop_when_sure import BAD, CONFIG, FREE, GOOD, dataset, first_sure, first_sure_of_gate, whole
from runner.core.errors import InputError
from runner.core.types import Categorical, Freeform, OutputConfig, Result
from runner.engine.scoring.failure_limits import parse_most
from runner.engine.scoring.gates import parse_gate
from runner.engine.sequential.bets import ALPHA, Bets, Looks
from runner.engine.sequential.gate_watch import GateWatch, claims_of

ABSTAINED = GOOD.model_copy(update={"outcome": "abstained", "score": None})
FAILED = GOOD.model_copy(update={"outcome": "failed", "score": None})


def shuffled(good: int, of: int, draw: random.Random) -> list[Result]:
    rows = [GOOD] * good + [BAD] * (of - good)
    draw.shuffle(rows)
    return rows


@pytest.mark.rotating("simulations", "engine")
@pytest.mark.parametrize("family", ["0/1", "ties", "normal", "rare", "tail"])
def test_a_look_at_every_pair_is_wrong_in_5_percent_at_most(family: str) -> None:
    draw = random.Random(f"small {family}")
    assert sum(bool(first_sure(family, 0, draw)[0]) for _ in range(60)) <= 6  # 5 % and three standard errors


@pytest.mark.rotating("simulations", "engine")
@pytest.mark.parametrize(("times", "most"), [(2, 350), (4, 150)])
@pytest.mark.parametrize("family", ["0/1", "normal"])
def test_a_true_loss_is_seen_in_a_part_of_the_rows(family: str, times: int, most: int) -> None:
    draw = random.Random(f"small {times} {family}")
    found = [first_sure(family, times, draw) for _ in range(25)]
    assert {verdict for verdict, _ in found} == {"worse"}
    assert median(row for _, row in found) <= most


@pytest.mark.rotating("simulations", "engine")
@pytest.mark.parametrize(("good", "most"), [(850, 300), (950, 300), (895, 1000), (905, 1000)])
def test_a_gate_is_right_before_the_last_row(good: int, most: int) -> None:
    draw, wrong, rows_read = random.Random(f"small {good}"), 0, []
    for _ in range(25):
        rows = shuffled(good, 1000, draw)
        decision, row, _ = first_sure_of_gate("mean>=0.9", rows, ALPHA)
        wrong += decision != whole("mean>=0.9", rows)
        rows_read.append(row)
    assert wrong <= 4
    assert median(rows_read) <= most


def test_arithmetic_never_differs_from_the_whole_gate() -> None:
    draw = random.Random("arithmetic, small")
    for _ in range(700):
        rows = dataset(draw)
        text = f"mean{draw.choice(['>=', '>', '<', '<='])}{draw.choice([0, 0.1, 1 / 3, 0.5, 0.7, 0.9, 1])}"
        assert first_sure_of_gate(text, rows, None)[0] == whole(text, rows), text


def test_rows_that_abstain_leave_a_gate_as_it_is_and_rows_that_fail_keep_it_from_passing() -> None:
    gates = [parse_gate("mean>=0.5", {"": CONFIG}, required=True)]
    watch = GateWatch(claims_of(gates, {"": CONFIG}, None, None), None, 10, None)
    assert [watch.add(row) for row in (*[ABSTAINED] * 4, BAD, BAD, BAD)] == [None] * 7
    assert watch.add(BAD) == "failed"  # 2 rows are left, of 6 with a score
    allowed = parse_most("1")
    watch = GateWatch(claims_of(gates, {"": CONFIG}, allowed, None), allowed, 4, None)
    # 3 of 4 are good, which is enough; one more row may fail by arithmetic, and that is allowed.
    assert [watch.add(row) for row in (GOOD, GOOD, GOOD)] == [None, None, "passed"]
    watch = GateWatch(claims_of(gates, {"": CONFIG}, None, None), None, 4, ALPHA)
    assert [watch.add(row) for row in (GOOD, FAILED, GOOD, GOOD)] == [None] * 4
    watch = GateWatch(claims_of([], {}, parse_most("25%"), None), parse_most("25%"), 8, None)
    # A run that scored nothing says so, and is no failed one.
    assert [watch.add(row) for row in (FAILED, FAILED, FAILED, GOOD)] == [None, None, None, "failed"]


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("mean>=0.9", Freeform()),
        ("mean>=0.9", FREE),
        ("median>=0.9", CONFIG),
        ("mean==0.5", CONFIG),
        ("ci_low>=0.1", Categorical(labels={"a": 1.0})),
    ],
)
def test_a_gate_that_cannot_be_sure_early_is_refused(text: str, config: OutputConfig) -> None:
    gate = parse_gate(text, {"": config}, required=True)
    with pytest.raises(InputError, match="cannot be sure of"):
        claims_of([gate], {"": config}, None, None)


def test_an_interval_holds_the_mean_and_looks_are_few() -> None:
    draw, inside = random.Random(3), 0
    for _ in range(40):
        bets = Bets(0.5, 40, 200)
        rows = [float(draw.random() < 0.8) for _ in range(200)]
        for value in rows[: draw.randint(20, 200)]:
            bets.add(value)
        low, high = bets.interval(40) or (1.0, 0.0)
        inside += low <= sum(rows) / 200 <= high
    assert inside >= 37
    changes = [1.0, *[0.9] * 399]
    found = [Looks(400).look(row, changes[:row], 0.0) for row in (80, 160, 161, 400)]
    assert found == [None, "above", None, "above"]
