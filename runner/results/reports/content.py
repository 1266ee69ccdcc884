"""What a report is made of, gathered while a run goes on, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from runner.core.types import Case, Outcome, OutputConfig, Result
from runner.engine.scoring.overview import Verdict, verdict
from runner.engine.scoring.shown_rows import ShownRows, label_text, safe
from runner.engine.scoring.summary import Stats, Summary, passes
from runner.results.output.manifest import State

if TYPE_CHECKING:  # most runs compare nothing
    from runner.results.compare.types import Comparison

FAILED_ROWS = 1000
"""Failed rows of which a report has the place and the message."""
LISTED_ROWS = 10_000
"""Rows of which a report has the id, the outcome, the score and the label."""

SHOWN_ROWS = {".md": 50, ".html": 200}
"""Rows with their texts, by kind of report."""

_ID = 160
_MESSAGE = 600
_LABEL = 60
_LISTED_ID = 80
_REMARK = 80
_WORDS = {"done": "done", "failed": "a gate failed", "no verdict": "no verdict"}
_LINE = re.compile(r":(\d{1,15})\Z")


class FailedRow(NamedTuple):
    """A row that failed or was lost. All texts are single lines, safe to print, and bounded."""

    number: int
    id: str
    line: int | None
    """Its line in the dataset; None for what has no lines."""
    outcome: Outcome
    kind: str
    message: str


class ListedRow(NamedTuple):
    """One row in short."""

    number: int
    id: str
    outcome: Outcome
    passed: bool | None
    score: float | None
    label: str
    remark: str
    """The beginning of its error or explanation."""


class Ending(NamedTuple):
    """A verdict, and in words how the run came to it."""

    verdict: Verdict
    words: str


@dataclass(frozen=True, eq=False, repr=False)  # to make these methods takes time at each start
class RunContent:
    """One run, as a report shows it."""

    name: str
    """What tells it from others in the same report: the evaluator's name."""
    summary: Summary
    shown: ShownRows
    state: State = "finished"
    error: str | None = None
    """What a failed run failed with."""
    source: str = ""
    """The dataset's path, or that of the results."""
    notes: Sequence[str] = ()
    failed: Sequence[FailedRow] = ()
    """The first of them."""
    listed: Sequence[ListedRow] = ()
    """The first of all rows."""
    details: tuple[tuple[str, str], ...] = field(default=())
    """More facts about the run, as names and values."""
    comparison: Comparison | None = None
    """That with its baseline. JUnit and code quality have its gate, if it has one, and not itself."""

    @property
    def verdict(self) -> Ending:
        """How the run ended."""
        if self.state != "finished":
            return Ending("no verdict", self.state)
        found = verdict(self.summary)
        words = "passed" if found == "done" and self.summary.gates else _WORDS[found]
        return Ending(found, words)


Part: TypeAlias = "RunContent | Comparison"
"""What a report may have."""


def with_comparisons(parts: Sequence[Part]) -> list[Part]:
    """Return the parts, and after each run its comparison with its baseline."""
    found: list[Part] = []
    for part in parts:
        found.append(part)
        if isinstance(part, RunContent) and part.comparison is not None:
            found.append(part.comparison)
    return found


def name_of(part: Part) -> str:
    """Return the name under which a report shows it."""
    if isinstance(part, RunContent):
        return part.name
    names = dict.fromkeys((*part.new.evaluators, *part.base.evaluators))
    return f"comparison of {next(iter(names), part.new.name)}"


def distinct(contents: Sequence[Part]) -> list[str]:
    """Return the names of the parts, with a number after one that an earlier run has."""
    counts: dict[str, int] = {}
    names = []
    for content in contents:
        name = name_of(content)
        counts[name] = count = counts.get(name, 0) + 1
        names.append(name if count == 1 else f"{name} ({count})")
    return names


def line_of(where: str) -> int | None:
    """Return the line of a row's place; None for what has no lines."""
    found = _LINE.search(where)
    return int(found[1]) if found else None


class ReportRows:
    """
    Gathers rows for reports, one by one.

    The first of the `outputs` says which scores pass. `failed` and `listed` say whether these rows are needed; what is
    not needed costs nothing.
    """

    def __init__(self, outputs: Mapping[str, OutputConfig | Stats], *, failed: bool, listed: bool) -> None:
        self._config = next(iter(outputs.values()), None)
        self.wanted = failed or listed
        """False: no result needs to be added."""
        self._places = failed
        self._lists = listed
        self._lines: dict[int, int] = {}
        self.failed: list[FailedRow] = []
        self.listed: list[ListedRow] = []

    def located(self, cases: Iterable[Case]) -> Iterable[Case]:
        """Return the cases; their lines are remembered until their results are added."""
        return self._remember(cases) if self._places else cases

    def _remember(self, cases: Iterable[Case]) -> Iterator[Case]:
        for case in cases:
            # Read in another thread than the one that adds results; each touches a key of its own.
            if (line := line_of(case.where)) is not None:
                self._lines[case.number] = line
            yield case

    def add(self, result: Result, line: int | None = None) -> None:
        """Add one result."""
        line = self._lines.pop(result.number, line)
        if self._places and result.error is not None and len(self.failed) < FAILED_ROWS:
            self.failed.append(
                FailedRow(
                    number=result.number,
                    id=safe(result.id, _ID),
                    line=line,
                    outcome=result.outcome,
                    kind=result.error.kind,
                    message=safe(result.error.message, _MESSAGE),
                )
            )
        if self._lists and len(self.listed) < LISTED_ROWS:
            self.listed.append(
                ListedRow(
                    number=result.number,
                    id=safe(result.id, _LISTED_ID),
                    outcome=result.outcome,
                    passed=None if result.score is None else passes(result.score, self._config),
                    score=result.score,
                    label=label_text(result.label or "", _LABEL),
                    remark=safe(result.error.message if result.error else result.explanation or "", _REMARK),
                )
            )
