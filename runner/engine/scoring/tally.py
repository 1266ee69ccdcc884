"""Adds up results to a summary; what parts of the rows add up to can be joined, and gives the same."""

from __future__ import annotations

import heapq
import sys
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, repeat
from math import fsum, isfinite, isinf, sqrt
from typing import NamedTuple

from runner.core.types import Continuous, ErrorKind, Finite, Outcome, OutputConfig, Result, bounds_of, config_of
from runner.engine.scoring.histogram import Histogram, histogram
from runner.engine.scoring.interval import Interval, clip, wilson
from runner.engine.scoring.summary import EXTRACTION_MARK, ErrorCount, GroupStats, Stats, Summary, passes
from sandboxes.record import Record

_LABELS = 100  # distinct labels counted by name; a script may make a new one each row
_LABEL_CHARS = 100
_NAMED = 64  # outputs that scripts of a dialect name themselves
_COUNTED = 10_000  # different scores that are counted; most evaluators give fewer
_CHUNK = 1 << 16  # scores sorted at once; keeps the median of millions of rows flat in memory


class ScoreSums(Record):
    """The scores of a part of the rows, for those that join them with the rows before."""

    counted: list[tuple[Finite, int]]
    """The first different scores, in the order of their rows, and how often each occurs."""
    others: str = ""
    """All other scores, in any order: 8 bytes each, little-endian, in base64."""


class ScoreDistribution:
    """
    Exact statistics of finite floats. The first 10,000 distinct values are counted, all others are stored.

    They are stored in sorted chunks, because sorting a million at once takes four times their memory.
    """

    def __init__(self) -> None:
        self.count = 0
        self.low: float | None = None
        self.high: float | None = None
        self._counted: dict[float, int] = {}
        self._sorted: list[array[float]] = []
        self._open: array[float] = array("d")

    def add(self, score: float, times: int = 1) -> None:
        self.count += times
        if score in self._counted:  # as of most rows
            self._counted[score] += times
            return
        self.low = score if self.low is None or score < self.low else self.low
        self.high = score if self.high is None or score > self.high else self.high
        if len(self._counted) < _COUNTED:
            self._counted[score] = times
            return
        for _ in range(times):
            self._open.append(score)
            if len(self._open) == _CHUNK:
                self._sorted.append(array("d", sorted(self._open)))
                self._open = array("d")

    def sums(self) -> ScoreSums:
        others = array("d", chain(*self._sorted, self._open))
        if sys.byteorder == "big":
            others.byteswap()
        return ScoreSums(counted=[*self._counted.items()], others=b64encode(others.tobytes()).decode())

    def join(self, later: ScoreSums) -> None:
        """
        Add the scores of the rows that follow. Each statistic is then the same to the last bit as of all rows at once.

        The same scores are counted: those that a part does not count are beyond the first 10,000 different ones here
        too. Raises ValueError for what `sums` did not write.
        """
        others = array("d")
        others.frombytes(b64decode(later.others, validate=True))
        if sys.byteorder == "big":
            others.byteswap()
        for score, times in later.counted:
            self.add(score, times)
        for score in others:
            self.add(score)

    def mean(self) -> float | None:
        if self.low is None or self.high is None:
            return None
        try:
            return fsum(self._all()) / self.count
        except OverflowError:  # the sum is beyond a float, the mean is not
            return min(self.high, max(self.low, 2 * fsum(score / self.count / 2 for score in self._all())))

    def median(self) -> float | None:
        if not self.count:
            return None
        ordered = heapq.merge(_repeated(sorted(self._counted.items())), *self._sorted, sorted(self._open))
        middle = list(islice(ordered, (self.count - 1) // 2, self.count // 2 + 1))
        low, high = middle[0], middle[-1]
        average = (low + high) / 2
        return low / 2 + high / 2 if isinf(average) else average

    def interval(self, bounds: tuple[float, float] | None) -> dict[str, float]:
        """
        Return the ends of the interval on the mean, by the names of their fields; none for fewer than two scores.

        `bounds` are those of scores, where they are declared.
        """
        if self._counted.keys() <= {0.0, 1.0} and self.count:
            low, high = wilson(self._counted.get(1.0, 0), self.count)
            return {"ci_low": low, "ci_high": high}
        mean = self.mean()
        if self.count < 2 or mean is None or self.low is None or self.high is None:
            return {}
        unit = max(self.high - mean, mean - self.low) or 1.0  # the squares of very large floats are none
        stored = chain.from_iterable((*self._sorted, self._open))
        squares = fsum(count * ((score - mean) / unit) ** 2 for score, count in self._counted.items())
        squares += fsum(((score - mean) / unit) ** 2 for score in stored)
        error = unit * sqrt(squares / (self.count - 1) / self.count)
        found = Interval(mean, error, self.count - 1, self.count)
        if not isfinite(found.high - found.low):
            return {}
        return dict(zip(("ci_low", "ci_high"), clip(found.low, found.high, bounds), strict=True))

    def histogram(self, config: OutputConfig | None, span: tuple[float, float] | None = None) -> Histogram | None:
        if self.low is None or self.high is None:
            return None
        low, high = span or (self.low, self.high)
        if isinstance(config, Continuous) and config.lower_bound is not None and config.upper_bound is not None:
            low, high = config.lower_bound, config.upper_bound
        return histogram(self._counted, (*self._sorted, array("d", sorted(self._open))), low, high)

    def _all(self) -> Iterator[float]:
        return chain(_repeated(self._counted.items()), *self._sorted, self._open)


def _repeated(counted: Iterable[tuple[float, int]]) -> Iterator[float]:
    return chain.from_iterable(repeat(score, count) for score, count in counted)


class OutputSums(Record):
    """What `Tally` has of one output."""

    scores: ScoreSums
    passed: int
    labels: dict[str, int]
    """In the order of their first rows."""
    other_labels: int


class TallySums(Record):
    """What `Tally` has of a part of the rows, for one that joins it with the rows before."""

    about: tuple[str, str, str] | None
    """The evaluator, its version and the sandbox. None: there were no rows."""
    outcomes: dict[Outcome, int]
    errors: tuple[ErrorCount, ...]
    """In the order of their first rows."""
    outputs: dict[str, OutputSums]
    extracted: int = 0


Labels = Callable[[str], Iterable[str]]
"""The labels of an output of a part's rows, in their order, from its results."""


class _About(NamedTuple):
    evaluator: str
    version: str
    sandbox: str


class Tally:
    """Adds up results one by one. Needs at most 8 bytes per score; everything else is bounded."""

    def __init__(self, outputs: Mapping[str, OutputConfig] | None = None) -> None:
        self._outcomes: Counter[Outcome] = Counter()
        self._extracted = 0
        self._errors: dict[ErrorKind, tuple[int, str, str]] = {}
        configs: Mapping[str, OutputConfig | None] = outputs or {"": None}
        self._configs = configs
        self._outputs = {name: _Output(config) for name, config in configs.items()}
        self._first = next(iter(self._outputs.values()))
        self._open = [*configs] == [""]
        """Scripts of a dialect name their outputs themselves."""
        self._seen: Result | _About | None = None

    def add(self, result: Result) -> None:
        """Count one result."""
        if self._seen is None:
            self._seen = result
        self._outcomes[result.outcome] += 1
        self._extracted += result.explanation is not None and result.explanation.endswith(EXTRACTION_MARK)
        if result.error is not None:
            kind = result.error.kind
            count, example, message = self._errors.get(kind, (0, result.id, result.error.message))
            self._errors[kind] = (count + 1, example, message)
        elif self._open or len(self._outputs) == 1 or not result.outputs:
            self._first.add(result.score, result.label)
            if self._open and result.outputs:
                self._add_named(result)
        else:
            self._add_named(result)

    def _add_named(self, result: Result) -> None:
        for name, score in result.outputs.items():
            if (output := self._output(name)) is not None:
                output.add(score.score, score.label)

    def _output(self, name: str) -> _Output | None:
        if name not in self._outputs and self._open and name and len(self._outputs) <= _NAMED:
            self._outputs[name] = _Output(config_of(self._configs, name))
        return self._outputs.get(name)

    def summary(self, seconds: float | None = None) -> Summary:
        """Return the summary so far. `seconds`: the wall-clock time of the run."""
        rows = sum(self._outcomes.values())
        errors = sorted(self._errors.items(), key=lambda item: -item[1][0])
        seen = self._seen
        stats = {name: output.stats() for name, output in self._outputs.items()}
        return Summary(
            **dict(next(iter(stats.values()))),
            evaluator=seen.evaluator if seen else "",
            version=seen.version if seen else "",
            sandbox=seen.sandbox if seen else "",
            rows=rows,
            scored=self._outcomes["scored"],
            abstained=self._outcomes["abstained"],
            failed=self._outcomes["failed"],
            lost=self._outcomes["lost"],
            outputs={name: found for name, found in stats.items() if name},
            extracted=self._extracted,
            errors=tuple(
                ErrorCount(kind=kind, count=count, example=example, message=message)
                for kind, (count, example, message) in errors
            ),
            seconds=None if seconds is None else round(seconds, 3),
            rows_per_second=round(rows / seconds, 1) if seconds else None,
        )

    def span(self) -> tuple[float, float] | None:
        """Return the lowest and the highest score of the first output so far; None without one."""
        return self._first.span()

    def group(self, span: tuple[float, float] | None) -> GroupStats:
        """Return the figures of these rows as one group of several, whose scores are between the ends of `span`."""
        return GroupStats(
            **dict(self._first.stats(span)),
            rows=self._outcomes.total(),
            scored=self._outcomes["scored"],
            abstained=self._outcomes["abstained"],
            failed=self._outcomes["failed"],
            lost=self._outcomes["lost"],
        )

    def labels(self) -> list[str]:
        """Return those of the first output so far."""
        return self._first.labels()

    def sums(self) -> TallySums:
        """Return what there is so far, for `join`."""
        seen = self._seen
        return TallySums(
            about=(seen.evaluator, seen.version, seen.sandbox) if seen else None,
            outcomes=dict(self._outcomes),
            errors=tuple(
                ErrorCount(kind=kind, count=count, example=example, message=message)
                for kind, (count, example, message) in self._errors.items()
            ),
            outputs={name: output.sums() for name, output in self._outputs.items()},
            extracted=self._extracted,
        )

    def join(self, later: TallySums, labels: Labels) -> None:
        """
        Add the rows that follow, as if each had been added.

        `labels` is asked where a part has so many different ones that it did not count all by name.

        Raises:
            ValueError: For what `sums` of it did not write.
        """
        known = {"", *list(later.outputs)[: _NAMED + 1]} if self._open else self._outputs.keys()
        if later.outputs.keys() != known:
            raise ValueError("the outputs are others")
        if self._seen is None and later.about is not None:
            self._seen = _About(*later.about)
        self._outcomes.update(later.outcomes)
        self._extracted += later.extracted
        for error in later.errors:
            count, example, message = self._errors.get(error.kind, (0, error.example, error.message))
            self._errors[error.kind] = (count + error.count, example, message)
        for name, output in later.outputs.items():
            if (own := self._output(name)) is not None:
                own.join(output, partial(labels, name))


def labels_of(rows: Iterable[Result], name: str, outputs: Mapping[str, OutputConfig]) -> Iterator[str]:
    """Yield the labels of one of the outputs, as `Tally` counts them."""
    first = next(iter(outputs), "")
    for row in rows:
        if row.error is not None:
            continue
        if name in row.outputs:
            label = row.outputs[name].label
        elif len(outputs) < 2 or not row.outputs:
            label = row.label if name == first else None
        else:
            label = None
        if label is not None:
            yield label


def label_key(label: str) -> str:
    """Return the label as `Stats.labels` has it."""
    return label if len(label) <= _LABEL_CHARS else label[: _LABEL_CHARS - 1] + "…"


class _Output:
    def __init__(self, config: OutputConfig | None) -> None:
        self._config = config
        self._judged = config is not None and config.threshold is not None
        self._scores = ScoreDistribution()
        self._passed = 0
        self._labels: dict[str, int] = {}
        self._others = 0

    def add(self, score: float | None, label: str | None) -> None:
        if score is not None:
            self._scores.add(score)
            if self._judged:
                self._passed += bool(passes(score, self._config))
        if label is None:
            return
        if label in self._labels:  # as most, and none of these is cut
            self._labels[label] += 1
        else:
            self._label(label)

    def _label(self, label: str, times: int = 1) -> None:
        key = label_key(label)
        if key in self._labels or len(self._labels) < _LABELS:
            self._labels[key] = self._labels.get(key, 0) + times
        else:
            self._others += times

    def labels(self) -> list[str]:
        return list(self._labels)

    def sums(self) -> OutputSums:
        return OutputSums(
            scores=self._scores.sums(), passed=self._passed, labels=dict(self._labels), other_labels=self._others
        )

    def join(self, later: OutputSums, labels: Callable[[], Iterable[str]]) -> None:
        self._scores.join(later.scores)
        self._passed += later.passed
        if later.other_labels and not self._labels.keys() <= later.labels.keys():
            # Some of those that it has no name for may have one here.
            for label in labels():
                self._label(label)
            return
        for label, times in later.labels.items():
            self._label(label, times)
        self._others += later.other_labels

    def span(self) -> tuple[float, float] | None:
        low, high = self._scores.low, self._scores.high
        return None if low is None or high is None else (low, high)

    def stats(self, span: tuple[float, float] | None = None) -> Stats:
        scores, config = self._scores, self._config
        judged = config is not None and config.threshold is not None and config.direction != "none"
        return Stats(
            count=scores.count,
            mean=scores.mean(),
            median=scores.median(),
            min=scores.low,
            max=scores.high,
            **scores.interval(bounds_of(config)),
            threshold=config.threshold if config else None,
            direction=config.direction if config else "none",
            passed=self._passed if judged else None,
            labels=dict(sorted(self._labels.items(), key=lambda item: -item[1])),
            other_labels=self._others,
            histogram=scores.histogram(config, span),
        )
