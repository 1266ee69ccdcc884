"""pass@k and pass^k of rows that are scored several times: whether one of k tries passes, and whether all do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb, fsum, sqrt

from runner.core.types import OutputConfig, Result
from runner.engine.scoring.interval import Interval, clip, wilson
from runner.engine.scoring.summary import RepeatPass, passes

_ALL = 5
_SOME = (10, 20, 50, 100, 200, 500)


class RepeatPasses:
    """
    Counts how many of the `repeat` results of each row pass: by the threshold, or where scores are 0 and 1 by these.

    Rows without a score in each result do not count.
    """

    def __init__(self, config: OutputConfig | None, repeat: int) -> None:
        self._config = config
        self.repeat = repeat
        self.counts: Counter[int] | None = Counter()
        """Rows by the results that pass. None: nobody knows what passes."""

    def add(self, results: Sequence[Result]) -> None:
        """Take the results of a row."""
        scores = [result.score for result in results if result.score is not None and result.outcome == "scored"]
        if self.counts is None or len(scores) < self.repeat:
            return
        verdicts = [passes(score, self._config) for score in scores]
        if None in verdicts:
            best = 0.0 if self._config is not None and self._config.direction == "minimize" else 1.0
            if not {*scores} <= {0.0, 1.0}:
                self.counts = None
                return
            verdicts = [score == best for score in scores]
        self.counts[verdicts.count(True)] += 1

    def join(self, later: Mapping[int, int] | None) -> None:
        """Add the rows that follow."""
        if later is None:
            self.counts = None
        elif self.counts is not None:
            self.counts.update(later)

    def figures(self) -> tuple[RepeatPass, ...]:
        """Return pass@k and pass^k, for k from 1 to the number of repeats; for some of many."""
        counts, repeat = self.counts, self.repeat
        if not counts:
            return ()
        tries = [k for k in (*range(1, _ALL + 1), *_SOME) if k < repeat] + [repeat]
        return tuple(_pass(k, counts, repeat) for k in tries)


def _pass(k: int, counts: Mapping[int, int], repeat: int) -> RepeatPass:
    one = _mean({c: 1 - _share(repeat - c, repeat, k) for c in counts}, counts)
    every = _mean({c: _share(c, repeat, k) for c in counts}, counts)
    return RepeatPass(
        k=k,
        pass_at=one[0],
        pass_at_ci_low=one[1],
        pass_at_ci_high=one[2],
        pass_all=every[0],
        pass_all_ci_low=every[1],
        pass_all_ci_high=every[2],
    )


def _share(some: int, of: int, k: int) -> float:
    """
    The share of all choices of k out of so many that are among some of them: C(some, k) / C(of, k).

    Source: Chen 2021, arXiv 2107.03374, which has pass@k as 1 less that of the failures; Yao 2024, arXiv 2406.12045,
    has pass^k as that of the passes.
    """
    return comb(some, k) / comb(of, k)


def _mean(values: Mapping[int, float], counts: Mapping[int, int]) -> tuple[float, float | None, float | None]:
    """The mean over rows, and the ends of its interval over rows: Wilson's where each is 0 or 1, else Student's."""
    rows = sum(counts.values())
    if {*values.values()} <= {0.0, 1.0}:
        ones = sum(counts[c] for c, value in values.items() if value)
        return (ones / rows, *wilson(ones, rows))
    mean = fsum(value * counts[c] for c, value in values.items()) / rows
    if rows < 2:
        return mean, None, None
    squares = fsum((value - mean) ** 2 * counts[c] for c, value in values.items())
    found = Interval(mean, sqrt(squares / (rows - 1) / rows), rows - 1, rows)
    return (mean, *clip(found.low, found.high, (0.0, 1.0)))
