"""The rows that a person should look at first, in bounded memory."""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from runner.results.summary import passes
from runner.text import printable
from runner.types import OutputConfig, Result

_CHARS = 160  # of a text that is kept


class Entry(NamedTuple):
    """One row as it is shown. All texts are single lines and safe to print."""

    id: str
    outcome: str
    passed: bool | None
    score: float | None
    label: str
    remark: str


class Worst:
    """Failed rows first, then those that abstained, then the worst scores by the config's direction."""

    def __init__(self, config: OutputConfig | None, keep: int = 10) -> None:
        self._config = config
        self._keep = keep
        self._rows: list[tuple[tuple[int, float, int], Entry]] = []
        self._added = 0

    def add(self, result: Result) -> None:
        """Add one result."""
        self._added += 1
        key = (*self._rank(result), self._added)
        if len(self._rows) < self._keep or key < self._rows[-1][0]:
            insort(self._rows, (key, self._entry(result)))
            del self._rows[self._keep :]

    @property
    def entries(self) -> list[Entry]:
        """The worst first."""
        return [entry for _, entry in self._rows]

    @property
    def ranked(self) -> bool:
        """True if the rows are ranked: some failed or abstained, or the config has a direction."""
        return self._directed or any(rank[0] < 2 for rank, _ in self._rows)

    @property
    def _directed(self) -> bool:
        return self._config is not None and self._config.direction != "none"

    def _rank(self, result: Result) -> tuple[int, float]:
        if result.outcome in ("failed", "lost"):
            return 0, 0.0
        if result.outcome == "abstained":
            return 1, 0.0
        if not self._directed or result.score is None or self._config is None:
            return 2, 0.0
        return 2, -result.score if self._config.direction == "minimize" else result.score

    def _entry(self, result: Result) -> Entry:
        error = result.error
        return Entry(
            id=safe(result.id),
            outcome=f"{result.outcome}: {error.kind}" if error and error.kind != "lost" else result.outcome,
            passed=None if result.score is None else passes(result.score, self._config),
            score=result.score,
            label=safe(result.label or ""),
            remark=safe(error.message if error else result.explanation or ""),
        )


def safe(text: str, limit: int = _CHARS) -> str:
    """The text on one line, without anything that a terminal would obey."""
    return printable(" ".join(text[: limit * 4].split()), limit)
