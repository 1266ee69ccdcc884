"""The rows that a person should look at first, with what `evaluate` was given, in bounded memory."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from runner.core.settings import WORST
from runner.core.text import printable, shown_json
from runner.core.types import Direction, ErrorKind, Evaluator, Finite, JudgeExchange, Outcome, Result, Show
from runner.engine.scoring.diff import JsonDifference, json_differences
from runner.engine.scoring.look_alikes import tell_apart
from runner.engine.scoring.summary import passes
from sandboxes.base import Call
from sandboxes.record import Record

_TITLES: dict[Show, str] = {
    "worst": "The worst rows",
    "scored": "The worst scores",
    "best": "The best rows",
    "failed": "The first rows that failed",
    "abstained": "The first rows that abstained",
}
_VERDICTS = {"pass": 1, "fail": 0}
_TEXT = 1500  # characters of a text that is kept
_REMARK = 1000
_SHARE = 8
"""This part of the rows is for those that failed, and as much for those that abstained, however many are scored."""
_NAME = 160


class ShownRow(Record):
    """One row, with the first part of each text. All texts are single lines and safe to print."""

    id: str
    number: int
    outcome: Outcome
    kind: ErrorKind | None = None
    passed: bool | None = None
    """Whether the score is at the threshold or better. None without a threshold or a direction."""
    score: float | None = None
    label: str = ""
    remark: str = ""
    """The explanation, or the error."""
    arguments: dict[str, str] = Field(default_factory=dict)
    """What `evaluate` was given as output and reference, or as its first two parameters, around where they differ."""
    differences: tuple[JsonDifference, ...] = ()
    """Where these are JSON: the first places in which they differ."""
    exchanges: tuple[JudgeExchange, ...] = ()
    """What judges were asked, each text cut."""

    @property
    def verdict(self) -> str:
        """`passed` or `missed` by the threshold; without one, the outcome and the kind of its error."""
        if self.passed is not None:
            return "passed" if self.passed else "missed"
        return self.outcome if self.kind in (None, "lost") else f"{self.outcome}: {self.kind}"


class ShownRows(Record):
    """The rows to look at first, as `Summary` has the figures."""

    show: Show = "worst"
    ranked: bool = False
    """False if they are just the first rows: some are scored, and the output config has no direction."""
    directed: bool = False
    """True if the output config says which scores are better."""
    assumed: Direction | None = None
    """Where it does not: the direction by which these rows are ranked. Gates and verdicts take none for granted."""
    rows: tuple[ShownRow, ...] = ()

    @property
    def title(self) -> str:
        """Which rows these are."""
        if self.show == "worst" and self.rows and self.rows[0].outcome != "scored":
            return _TITLES["abstained" if self.rows[0].outcome == "abstained" else "failed"]
        if self.assumed is not None and self.show in ("worst", "scored", "best"):
            low = (self.assumed == "maximize") != (self.show == "best")
            better = "higher" if self.assumed == "maximize" else "lower"
            return f"The {'lowest' if low else 'highest'} scores (assumed: {better} is better)"
        first = not self.ranked or (self.show == "best" and not self.directed)
        return "The first rows" if first else _TITLES[self.show]


class RankedRow(Record):
    """A row to show, and its place among those of other parts of the rows."""

    key: tuple[int, Finite, int]
    row: ShownRow


class Worst:
    """
    Finds the rows to show among all results.

    `worst` is the worst scores by the output config's direction, or by one that is assumed, then the first rows that
    failed, then those that abstained; of many rows an eighth is left for each of these. `scored` is the worst scores
    alone, `best` the best.
    `failed` and `abstained` are the first such rows.
    """

    def __init__(self, evaluator: Evaluator | None, keep: int = WORST, show: Show = "worst") -> None:
        self._config = next(iter(evaluator.configs.values()), None) if evaluator else None
        self._parameters = evaluator.parameters if evaluator else ()
        self._keep = keep
        self._show = show
        self._assumed = assumed_direction(evaluator) if evaluator else "none"
        direction = self._config.direction if self._directed and self._config else self._assumed
        self._sign = {"maximize": 1.0, "minimize": -1.0, "none": 0.0}[direction] * (-1.0 if show == "best" else 1.0)
        """What makes the scores to be shown first the lowest; 0 if there are none such."""
        self._guessed = not self._directed and self._assumed == "minimize"
        """Whether the function's name alone says it: a row that has a verdict says otherwise."""
        self._rows: tuple[list[tuple[tuple[int, float, int], ShownRow]], ...] = ([], [], [])
        """Those that are scored, that failed, and that abstained."""
        self._texts: dict[int, tuple[dict[str, str], tuple[JsonDifference, ...]]] = {}

    def watch(self, result: Result, call: Call) -> int:
        """Hold a part of what was given to a row that may be shown, until `add`; return its characters."""
        if self._key(result) is None:
            return 0
        pair = self._pair(call)
        values = list(pair.values())
        differences = json_differences(*values) if len(values) == 2 else ()
        texts = dict(zip(pair, shown_apart(values), strict=True))
        self._texts[result.number] = texts, differences
        return sum(map(len, texts.values())) + sum(len(d.output) + len(d.reference) for d in differences)

    def add(self, result: Result) -> None:
        """Add one result."""
        arguments, differences = self._texts.pop(result.number, ({}, ()))
        if (key := self._key(result)) is None:
            return
        error = result.error
        row = ShownRow(
            id=safe(result.id, _NAME),
            number=result.number,
            outcome=result.outcome,
            kind=error.kind if error else None,
            passed=None if result.score is None else passes(result.score, self._config),
            score=result.score,
            label=label_text(result.label or ""),
            remark=safe(error.message if error else result.explanation or "", _REMARK),
            arguments=arguments,
            differences=differences,
            exchanges=tuple(map(_shown_exchange, result.exchanges)) if result.exchanges else (),
        )
        self._insert(key, row)

    def _insert(self, key: tuple[int, float, int], row: ShownRow) -> None:
        rows = self._rows[key[0]]
        insort(rows, (key, row), key=lambda each: each[0])
        del rows[self._keep :]

    def sums(self) -> tuple[RankedRow, ...]:
        """Return the rows so far, for `join`."""
        return tuple(RankedRow(key=key, row=row) for rows in self._rows for key, row in rows)

    def join(self, others: Iterable[RankedRow]) -> None:
        """Add rows that another has found among rows of other numbers."""
        for each in others:
            self._see_verdict(each.row)
            self._insert(each.key, each.row)

    def rows(self, labels: Iterable[str] = ()) -> ShownRows:
        """Return the rows so far, those to look at first before others. `labels` are shown beside them."""
        scored, failed, abstained = self._rows
        assumed = None if self._directed or all(row.score is None for _, row in scored) else self._assumed
        ranked = self._directed or assumed is not None or not (self._show in ("worst", "scored") and scored)
        place = self._keep - sum(min(self._keep // _SHARE, len(rows)) for rows in (failed, abstained))
        most = self._keep - min(self._keep // _SHARE, len(abstained)) - len(scored[:place])
        rows = [*scored[:place], *failed[:most], *abstained]
        some = [row for _, row in rows[: self._keep]]
        words = tell_apart([*(row.label for row in some), *labels])
        shown = tuple(
            row if row.label == word else row.model_copy(update={"label": word})
            for row, word in zip(some, words, strict=False)
        )
        return ShownRows(show=self._show, ranked=ranked, directed=self._directed, assumed=assumed, rows=shown)

    @property
    def _directed(self) -> bool:
        return self._config is not None and self._config.direction != "none"

    def _key(self, result: Result) -> tuple[int, float, int] | None:
        """The row's place among the rows; None if it is not shown."""
        self._see_verdict(result)
        scored = self._rows[0]
        if result.outcome == "scored" and self._show == "worst" and len(scored) >= self._keep > 0:  # as most
            score = result.score
            key = 0, 0.0 if score is None or not self._sign else self._sign * score, result.number
            return key if key < scored[-1][0] else None
        rank = self._rank(result)
        if rank is None or not self._keep:
            return None
        key, rows = (*rank, result.number), self._rows[rank[0]]
        return key if len(rows) < self._keep or key < rows[-1][0] else None

    def _see_verdict(self, row: Result | ShownRow) -> None:
        """Take the higher for better where a script says `pass: true` of a row: its score is 1 then, else 0."""
        if self._guessed and row.outcome == "scored":
            self._guessed = False
            if row.score is not None and _VERDICTS.get(row.label or "") == row.score:
                self._assumed, self._sign = "maximize", -self._sign

    def _rank(self, result: Result) -> tuple[int, float] | None:
        failed, abstained = result.outcome in ("failed", "lost"), result.outcome == "abstained"
        if self._show in ("failed", "abstained"):
            return (0, 0.0) if (failed if self._show == "failed" else abstained) else None
        if failed or abstained:
            return (1 if failed else 2, 0.0) if self._show == "worst" else None
        return 0, 0.0 if result.score is None or not self._sign else self._sign * result.score

    def _pair(self, call: Call) -> dict[str, Any]:
        """The output and the reference that the call was given, or what comes first in their place."""
        positional = dict(zip([p.name for p in self._parameters if p.positional_only], call.positional, strict=False))
        given = own_names(positional | call.arguments)
        first = "output" if "output" in given else next(iter(given), None)
        others = [name for name in given if name != first]
        second = "reference" if "reference" in others else next(iter(others), None)
        return {name: given[name] for name in (first, second) if name is not None}


def assumed_direction(evaluator: Evaluator) -> Direction:
    """
    Return which scores are taken for better where nothing says it: the higher, but for a name such as `wer` or `loss`.
    """
    from runner.inputs.evaluators.column_suggestions import is_lower_better  # here: most scripts declare it

    name = next(iter(evaluator.outputs), "")
    names = (name, evaluator.called, *([] if name else [evaluator.name]))
    return "minimize" if any(map(is_lower_better, names)) else "maximize"


def own_names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the arguments as people know them: a key that a column fills, `else.outputs.answer`, as one that is mapped.
    """
    return {(own := name.removeprefix("else.")): arguments.get(own, value) for name, value in arguments.items()}


def label_text(label: str, limit: int = _NAME) -> str:
    """Return the label as `safe`; in quotes where that looks the same and is another."""
    shown = safe(label, limit)
    its = label if shown == label else tell_apart([label, shown])[0]
    return shown if its == label else printable(its, limit)


def safe_apart(texts: Sequence[str], limit: int = _NAME) -> list[str]:
    """Return each text as `safe` does; those that look alike in quotes, and what tells them apart escaped."""
    pairs = zip(texts, tell_apart(texts), strict=True)
    return [safe(text, limit) if text == its else printable(its, limit) for text, its in pairs]


def _shown_exchange(one: JudgeExchange) -> JudgeExchange:
    texts = {name: safe(getattr(one, name), _TEXT) for name in ("model", "asked", "answered")}
    return one.model_copy(update=texts)


def _short_json(value: Any) -> str:
    return shown_json(value, _TEXT)


def labels_apart(labels: Sequence[str | None], limit: int = _NAME) -> list[str]:
    """Return labels as `safe_apart` does, with as many characters as tell them apart; `(none)` where there is none."""
    texts = ["(none)" if label is None else label for label in labels]
    apart = [label_text(text) if text == its else its for text, its in zip(texts, tell_apart(texts), strict=True)]
    for most in (limit, 3 * limit, 9 * limit):
        words = [printable(text, most) for text in apart]
        if len(set(words)) == len(set(labels)):
            break
    return words


def shown_apart(values: Sequence[Any], as_json: Callable[[Any], str] = _short_json) -> list[str]:
    """Return each value as text, the first two cut around where they differ, and told apart if they look the same."""
    from runner.engine.scoring.diff import windows

    texts = [value if isinstance(value, str) else as_json(value) for value in values]
    if len(texts) > 1 and texts[0] == texts[1] and type(values[0]) is not type(values[1]):
        texts = [_short_json(value) for value in values]  # such as "42" and 42
    return safe_apart(windows(texts[:2], _TEXT - 2) + texts[2:], _TEXT)


def safe(text: str, limit: int = _NAME) -> str:
    """Return the text on one line, without anything that a terminal would obey."""
    return printable(" ".join(text[: limit * 4].split()), limit)
