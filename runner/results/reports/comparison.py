"""A comparison in words and numbers, before any markup."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core.text import printable
from runner.engine.scoring.gates import figure
from runner.engine.scoring.shown_rows import labels_apart
from runner.results.compare.types import Comparison, Difference

_AGGREGATES = 50

CHIPS = {"better": "done", "no worse": "done", "worse": "failed", "not enough evidence": "no verdict"}
"""The verdict of a gate that each verdict of a comparison is coloured as."""


def signed_number(value: float | None) -> str:
    """Return a difference with its sign, in four digits."""
    return "" if value is None else f"{value:+.4g}" if value else "0"


def interval(found: Difference) -> str:
    """Return the interval of the difference, or nothing."""
    if found.ci_low is None or found.ci_high is None:
        return ""
    return f"{signed_number(found.ci_low)} to {signed_number(found.ci_high)}"


def verdict(found: Difference) -> str:
    """Return the verdict, or that there is none."""
    return found.verdict or "no verdict"


def sentence(made: Comparison) -> str:
    """Return the comparison in one line."""
    if made.mean_difference is None:
        return made.reason or "there is nothing to compare"
    between = interval(made)
    found = (
        f"the mean went from {_mean(made.base_mean)} to {_mean(made.new_mean)}: {signed_number(made.mean_difference)}"
    )
    found += f" (95 % interval {between})" if between else ""
    return f"{found}; {made.reason}" if made.reason else found


def facts(made: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the figures beside the verdict, by name."""
    yield "base mean", _mean(made.base_mean)
    yield "new mean", _mean(made.new_mean)
    yield "difference", signed_number(made.mean_difference)
    yield "95 % interval", interval(made)
    words = "higher / lower" if made.direction == "none" else "better / worse"
    yield f"{words} / equal", f"{made.wins:,} / {made.losses:,} / {made.ties:,}"
    yield "rows scored in both", f"{made.compared:,} of {made.pairs:,}"
    if made.unseen is not None:
        yield "smallest detectable difference", f"{made.unseen:.4g}"
    if made.needed is not None and made.asked:
        yield f"rows needed to see {figure(made.asked)}", f"{made.needed:,}"
    if made.bounds is not None:
        yield (
            "if what failed were worst / best",
            f"{signed_number(made.bounds.worst)} / {signed_number(made.bounds.best)}",
        )
    for name, values in list(made.aggregates.items())[:_AGGREGATES]:
        old, new = (_mean(value) or "none" for value in values)
        yield f"{printable(name, 60)} of all rows", f"{old} → {new}"


def lines(made: Comparison) -> list[str]:
    """Return what did not pair or is another on the two sides, and notes."""
    from runner.results.compare.runs import unlike

    found = unlike(made)
    missing = []
    if made.failed:
        missing.append(f"{made.failed:,} failed or were lost on a side")
    if made.abstained:
        missing.append(f"{made.abstained:,} have no score on one side")
    if missing:
        found.append(f"of {made.pairs:,} pairs {' and '.join(missing)} and are not counted")
    return [*found, *made.notes]


COLUMNS = ("pairs", "base", "new", "difference", "95 % interval")
"""What `cells` has of a part of the comparison."""


def cells(part: Difference) -> list[str]:
    """Return the figures of a row in such a table."""
    means = [_mean(mean) for mean in (part.base_mean, part.new_mean)]
    return [f"{part.compared:,}", *means, signed_number(part.mean_difference), interval(part)]


def tables(made: Comparison) -> Iterator[tuple[str, dict[str, Difference]]]:
    """Yield figures for parts of the comparison, each table with the name of what it is by."""
    if made.outputs:
        yield "output", made.outputs
    if made.by:
        yield made.by_column or "column", made.by


def labels(made: Comparison, most: int) -> Iterator[tuple[str, str, int]]:
    """Yield the first changes of labels, told apart where they look alike: before, now, and in how many rows."""
    some = made.labels[:most]
    words = iter(labels_apart([label for one in some for label in (one.base, one.new)], 80))
    for one in some:
        yield next(words), next(words), one.rows


def _mean(value: float | None) -> str:
    return "" if value is None else figure(value)
