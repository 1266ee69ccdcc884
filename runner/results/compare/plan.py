"""How many rows show a difference, and how large a one so many rows show, before they are scored."""

from __future__ import annotations

from math import isfinite, sqrt

from runner.core.errors import InputError
from runner.core.text import rows_of
from runner.engine.scoring.gates import figure
from runner.engine.scoring.interval import detectable, upper_spread
from runner.results.compare.types import Comparison
from sandboxes.base import Model

MOST_ROWS = 10**9


class RowPlan(Model):
    """What a number of rows can show. Differences are between the means of two runs of the same rows."""

    spread: float
    """The standard deviation of a row's difference that it reckons with."""
    source: str
    """What the spread is taken from, in words."""
    difference: float | None = None
    """The true difference that is to be seen."""
    rows_needed: int | None = None
    """How many rows show it in 80 % of all samples. None: no difference was asked for, or not even a billion do."""
    rows: int | None = None
    """The rows that there are."""
    smallest_detectable: float | None = None
    """The smallest true difference that these show."""

    def sentences(self) -> list[str]:
        """Return what it says, in words."""
        told = [f"spread of a row's difference: {figure(self.spread)}, {self.source}"]
        if self.difference is not None:
            needed = f"more than {MOST_ROWS:,} rows" if self.rows_needed is None else rows_of(self.rows_needed)
            told.append(f"to see a difference of {figure(self.difference)} in 80 of 100 samples: {needed}")
        if self.rows is not None and self.smallest_detectable is not None:
            verb = "shows" if self.rows == 1 else "show"
            told.append(f"{rows_of(self.rows)} {verb} a difference of {figure(self.smallest_detectable)} or more")
        return told


def plan_rows(
    pilot: Comparison | None = None,
    *,
    difference: float | None = None,
    rows: int | None = None,
    changed: float | None = None,
    span: float | None = None,
    output: str | None = None,
) -> RowPlan:
    """
    Tell how many rows show a difference between two runs, and how large a difference so many rows show.

    Both are of a comparison as `compare_runs` makes it: two-sided at 95 %, and seen in 80 % of all samples. The spread
    of a pilot is taken at its upper 80 % limit (Browne 1995, Statist. Med. 14, 1933-1940), since that of few rows is
    often too small. Without a pilot it is the largest that there can be: of 0/1 scores the root of the share of rows
    that change, else half of the span of a difference (Popoviciu 1935).

    Args:
        pilot: Two runs of some rows, as `compare_runs` compared them.
        difference: The true difference of the means that is to be seen, above 0.
        rows: How many rows there are. None: those of the pilot.
        changed: Without a pilot, for scores of 0 and 1: the share of rows whose score will change, 0 to 1.
        span: Without a pilot, for other scores: the largest score that there can be less the smallest.
        output: The named output of the pilot. None: the only or first.

    Raises:
        InputError: Too little is known, or a value cannot be used.

    Example:
        >>> from evalcell import plan_rows
        >>> plan_rows(difference=0.02, changed=0.1).rows_needed
        1964
    """
    for name, value in (("difference", difference), ("rows", rows), ("changed", changed), ("span", span)):
        if value is not None and not (isfinite(value) and value > 0):
            raise InputError(f"{name} must be a number above 0; it is {value}")
    if [pilot is not None, changed is not None, span is not None].count(True) != 1:
        raise InputError("name one that the spread follows from: a pilot, the share of rows that change, or the span")
    if pilot is not None:
        spread, source = _of_pilot(pilot, output)
        rows = rows or pilot.compared
    elif output is not None:
        raise InputError("an output is one of a pilot; name two runs")
    elif changed is not None:
        if changed > 1:
            raise InputError(f"changed is a share of rows, 0 to 1; it is {changed}")
        spread, source = sqrt(changed), f"the largest where {changed:.4g} of the rows change between 0 and 1"
    else:
        assert span is not None
        spread, source = span, f"the largest of scores that are at most {span:.4g} apart"
    if difference is None and rows is None:
        raise InputError("name the difference that is to be seen, or how many rows there are")
    return RowPlan(
        spread=spread,
        source=source,
        difference=difference,
        rows_needed=None if difference is None else _rows_for(difference, spread),
        rows=rows,
        smallest_detectable=None if rows is None or rows < 2 else detectable(spread / sqrt(rows), rows - 1),
    )


def _of_pilot(pilot: Comparison, output: str | None) -> tuple[float, str]:
    if output is not None and output not in pilot.outputs:
        names = ", ".join(pilot.outputs) or "none that is named"
        raise InputError(f"the pilot has no output {output!r}; its outputs: {names}")
    figures = pilot if output is None else pilot.outputs[output]
    if figures.spread is None or figures.changed < 2:
        raise InputError(
            f"{rows_of(figures.changed)} of the pilot changed, which tells no spread; score more rows, or name the "
            "share of rows that change, or the span of scores, in its place"
        )
    independent, seen = figures.changed, f"{rows_of(figures.compared)} of the pilot"
    if figures.clusters is not None:
        if figures.clusters < 2:
            raise InputError("all rows of the pilot are in one cluster, which tells no spread; score rows of others")
        independent, seen = min(independent, figures.clusters), f"{figures.clusters:,} clusters of the pilot"
    found = upper_spread(figures.spread, independent - 1)
    return found, f"the upper 80% limit of {figure(figures.spread)} in {seen}"


def _rows_for(difference: float, spread: float) -> int | None:
    """The fewest rows that show a difference; by halving, as more rows show smaller ones."""
    low, high = 2, MOST_ROWS
    if detectable(spread / sqrt(high), high - 1) > difference:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if detectable(spread / sqrt(middle), middle - 1) <= difference else (middle + 1, high)
    return low
