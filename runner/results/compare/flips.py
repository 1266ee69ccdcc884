"""The rows of two runs that flipped: which they are, and some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, get_args

from runner.results.compare.pairs import Compared
from runner.results.compare.side import Side
from runner.results.compare.types import Flip
from runner.results.compare.verdict import difference

MOST = 100
"""Rows of a page."""
FLIPS: tuple[Flip, ...] = get_args(Flip)
Pair = tuple[int, int]


class FlipPage(NamedTuple):
    """Which of the rows that flipped: those of one kind, or all; `first` are left out."""

    flip: Flip | None = None
    first: int = 0
    rows: int = 20

    def of(self, found: Mapping[Flip, Sequence[Pair]]) -> list[tuple[Flip, Pair]]:
        """Those of the page."""
        kinds = FLIPS if self.flip is None else (self.flip,)
        every = chain.from_iterable(((flip, pair) for pair in found.get(flip, ())) for flip in kinds)
        return list(islice(every, self.first, self.first + min(self.rows, MOST)))

    def total(self, counts: Mapping[Flip, int]) -> int:
        """Of all pages."""
        return sum(counts.values()) if self.flip is None else counts.get(self.flip, 0)


def find_flips(compared: Compared, sides: tuple[Side, Side]) -> dict[Flip, list[Pair]]:
    """The pairs that flipped, by kind: those that changed most first, else in the order of the base."""
    base, new = sides
    a, b = base.outputs[""], new.outputs[""]
    sign = {"maximize": 1, "minimize": -1}.get(compared.comparison.direction, 0)
    found: dict[Flip, list[Pair]] = {flip: [] for flip in FLIPS}
    changes: dict[Pair, float] = {}
    for pair in compared.pairs:
        at, place = pair
        one, other = a.scores[at], b.scores[place]
        scored = [score == score for score in (one, other)]  # NaN is no score
        if base.outcomes[at] != new.outcomes[place] or scored[0] != scored[1]:
            found["outcome"].append(pair)
            continue
        change = difference(one, other) if scored[0] else 0.0
        if change:
            changes[pair] = abs(change)
            found["changed" if not sign else "better" if sign * change > 0 else "worse"].append(pair)
        elif a.labels[at] != b.labels[place]:
            found["label"].append(pair)
    for flip in ("worse", "changed", "better"):
        found[flip].sort(key=lambda pair: -changes[pair])
    return {flip: pairs for flip, pairs in found.items() if pairs}
