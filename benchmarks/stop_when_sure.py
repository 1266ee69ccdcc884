"""
The figures of docs/decisions/0091-stop-when-sure.md: `python -m benchmarks.stop_when_sure [SHARE]`, for all samples a
minute and a half, for a share of 0.1 some ten seconds. Nothing is run but the rules; every sample is seeded.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from math import fsum, sqrt
from statistics import median
from time import process_time

from runner.core.types import Continuous, Result
from runner.engine.scoring.gates import parse_gate
from runner.engine.sequential.bets import ALPHA
from runner.engine.sequential.gate_watch import GateWatch, claims_of
from runner.results.compare.pair_watch import PairWatch

ROWS = 1000
CONFIG = Continuous(lower_bound=0, upper_bound=1)
FREE = Continuous()
Draw = Callable[[random.Random, float], float]


def _tails(draw: random.Random, loss: float) -> float:
    value = (draw.expovariate(1) - 1) / 8 - loss / 0.15
    return value if draw.random() < 0.15 else 0.0


def _ties(draw: random.Random, loss: float) -> float:
    value = draw.betavariate(1, 3) - 0.25 - loss / 0.15
    return value if draw.random() < 0.15 else 0.0


def _binary(draw: random.Random, loss: float) -> float:
    changed, where = max(0.1, loss), draw.random()
    return -1.0 if where < (changed + loss) / 2 else 1.0 if where < changed else 0.0


FAMILIES: dict[str, tuple[Draw, float]] = {
    "0/1": (_binary, sqrt(0.1)),
    "ties": (_ties, sqrt(0.15 * 3 / 80)),
    "normal": (lambda draw, loss: draw.gauss(-loss, 0.2), 0.2),
    "rare": (lambda draw, loss: -0.95 if draw.random() < 0.05 + loss else 0.05, sqrt(0.05 * 0.95)),
    "tail": (_tails, sqrt(0.15) / 8),
}
"""Differences of pairs as in decision 0019, in -1 to 1, and their standard deviation. A loss is a true difference."""


def first_sure(family: str, times: float, draw: random.Random, config: Continuous = CONFIG) -> tuple[str, int]:
    """Return the verdict on a sample with a loss of so many smallest detectable ones, and the row of it."""
    sample, spread = FAMILIES[family]
    loss = times * 2.8 * spread / sqrt(ROWS)
    watch = PairWatch(config, "maximize", 0.0, ROWS, 1)
    for row in range(1, ROWS + 1):
        change = max(-1.0, min(1.0, sample(draw, loss)))
        if (verdict := watch.add(0.0, change)) is not None:
            return verdict, row
    return "", ROWS


def result(score: float) -> Result:
    """Return a row with a score."""
    return Result(id="", number=1, evaluator="", version="", sandbox="", outcome="scored", score=score)


BAD, GOOD = result(0.0), result(1.0)


def first_sure_of_gate(text: str, rows: list[Result], alpha: float | None) -> tuple[str, int, str]:
    """Return what a gate says first, the row of it, and the rule."""
    gates = [parse_gate(text, {"": CONFIG}, required=True)]
    watch = GateWatch(claims_of(gates, {"": CONFIG}, None, None), None, len(rows), alpha)
    for number, row in enumerate(rows, 1):
        watch.add(row)
        if (decision := watch.claims[0].decision) is not None:
            return decision, number, watch.claims[0].rule
    return whole(text, rows), len(rows), "the last row"


def whole(text: str, rows: list[Result]) -> str:
    """Return what a gate says of all rows."""
    gate = parse_gate(text, {"": CONFIG}, required=True)
    scores = [row.score or 0.0 for row in rows]
    return "failed" if gate.broken_by(fsum(scores) / len(scores)) else "passed"


def main(share: float) -> None:
    """Print all tables."""
    print("pairs, a look at every row to 1,000: wrong verdicts without a true difference (bar 5 %)")
    for config, name in ((CONFIG, "bets on pairs"), (FREE, "five looks, no bounds")):
        for family in FAMILIES:
            draw = random.Random(f"null {family}")
            found = [first_sure(family, 0, draw, config)[0] for _ in range(round(1000 * share))]
            print(f"  {name}, {family}: {sum(map(bool, found)) / len(found):.1%}")
    print("true losses of 2 and 4 smallest detectable ones: seen, median row (bars 35 %, 15 % of the rows)")
    for times in (2, 4):
        for family in FAMILIES:
            draw = random.Random(f"{times} {family}")
            tries = [first_sure(family, times, draw) for _ in range(round(300 * share))]
            seen = sum(verdict == "worse" for verdict, _ in tries) / len(tries)
            print(f"  {times} x, {family}: {seen:.0%} at row {median(row for _, row in tries):.0f}")
    print("mean>=0.9 of 1,000 rows of 0/1: wrong (bar 5 % a side), median row (bar 300 at 0.85 and 0.95)")
    for good in (500, 800, 850, 880, 895, 905, 920, 950, 980, 1000):
        draw = random.Random(f"gate {good}")
        sure = []
        for _ in range(round(500 * share)):
            rows = [GOOD] * good + [BAD] * (ROWS - good)
            draw.shuffle(rows)
            sure.append((*first_sure_of_gate("mean>=0.9", rows, ALPHA), whole("mean>=0.9", rows)))
        wrong = sum(decision != truth for decision, _, _, truth in sure) / len(sure)
        print(f"  {good / ROWS}: wrong {wrong:.1%}, median row {median(row for _, row, _, _ in sure):.0f}")
    draw, different, last = random.Random("arithmetic"), 0, 0
    count = round(10_000 * share)
    for _ in range(count):
        rows = dataset(draw)
        text = f"mean{draw.choice(['>=', '>', '<', '<='])}{draw.choice([0.1, 0.25, 1 / 3, 0.5, 0.7, 0.9, 1, 0])}"
        decision, row, _ = first_sure_of_gate(text, rows, None)
        different += decision != whole(text, rows)
        last += row == len(rows)
    print(f"arithmetic: {different} of {count:,} datasets differ from the whole gate (bar 0); {last} at the last row")
    draw, watch = random.Random(1), PairWatch(CONFIG, "maximize", 0.0, 10**9, 1)
    changes = [draw.choice((-1.0, *[0.0] * 20, 1.0)) for _ in range(50_000)]
    began = process_time()
    for change in changes:
        watch.add(0.0, change)
        watch.verdict = None
    print(f"cost of a pair: {(process_time() - began) / len(changes) * 1e6:.1f} us (bar 6)")
    rows = [GOOD if draw.random() < 0.9 else BAD for _ in range(50_000)]
    gates = [parse_gate("mean>=0.9", {"": CONFIG}, required=True)]
    both = GateWatch(claims_of(gates, {"": CONFIG}, None, None), None, len(rows), 1e-300)
    began = process_time()
    for one in rows:
        both.add(one)
    print(f"cost of a row with a gate: {(process_time() - began) / len(rows) * 1e6:.1f} us (bar 6)")


def dataset(draw: random.Random) -> list[Result]:
    """Return rows with scores of one kind or another."""
    count = draw.randint(1, 60)
    kind = draw.choice(("0/1", "tenths", "any"))
    good = draw.random()
    scores: dict[str, Callable[[], float]] = {
        "0/1": lambda: float(draw.random() < good),
        "tenths": lambda: draw.randint(0, 10) / 10,
        "any": draw.random,
    }
    return [result(scores[kind]()) for _ in range(count)]


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
