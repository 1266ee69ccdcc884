"""Comparisons whose verdict is sure before the last pair: bets on pairs, or five looks where scores have no bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from runner.core.errors import InputError
from runner.core.text import rows_of
from runner.core.types import Direction, OutputConfig, Result, bounds_of, config_of
from runner.engine.scoring.shown_rows import safe
from runner.engine.sequential.bets import ALPHA, FIRST_LOOK, Bets, Looks, Side
from runner.engine.sequential.gate_watch import Rule
from runner.inputs.evaluators.call_inputs import split_hash
from runner.results.compare.side import Side as RunSide
from runner.results.compare.types import EXAMPLES, Comparison, RowCounts, Verdict
from runner.results.compare.verdict import FEW, NO_CHANGE, SAY_DIRECTION, difference
from sandboxes.words.wording import Setting

Scores = Mapping[str, float | None]
"""Of one row by output; the empty name is that of the only or first one."""


class PairWatch:
    """
    Tells when it is sure that one output is worse, or no worse, in a new run: pair by pair, in random order.

    With declared bounds every pair is looked at, without them five times. `tests`: so many outputs are watched.
    Raises InputError where no look is left before the last row.
    """

    def __init__(
        self, config: OutputConfig | None, direction: Direction, tolerance: float, rows: int, tests: int
    ) -> None:
        if direction == "none":
            raise InputError(f"{Setting('stop_when_sure')} cannot tell which scores are better; {SAY_DIRECTION}")
        self.verdict: Verdict | None = None
        self._tolerance = tolerance
        self._sign = -1 if direction == "minimize" else 1
        self._rows = self._changed = 0
        self._differences: list[float] = []
        bounds = bounds_of(config)
        self._span = bounds[1] - bounds[0] if bounds else 0.0
        self._bets = self._looks = None
        if bounds:
            mean = (self._span - tolerance) / (2 * self._span) if self._span else 0.0
            self._bets = Bets(mean, 2 * tests / ALPHA)
        elif rows > FIRST_LOOK:
            self._looks = Looks(rows, tests)
        else:
            raise InputError(
                f"{Setting('stop_when_sure')}: the scores have no bounds, and no look is taken before row "
                f"{FIRST_LOOK + 1}, of {rows_of(rows)}; declare lower_bound and upper_bound in the script's header, or "
                "leave it out"
            )

    @property
    def rule(self) -> Rule:
        """How it knows."""
        return "five looks" if self._bets is None else "bets on pairs"

    def add(self, old: float | None, new: float | None) -> Verdict | None:
        """Take the next row, with its scores if both sides have one; return the verdict if it is sure."""
        self._rows += 1
        if self.verdict is not None:
            return self.verdict
        if old is not None and new is not None:
            change = self._sign * difference(old, new)
            self._changed += change != 0
            self._differences.append(change)
            if self._bets is not None and self._span:
                self._decide(self._bets.add(min(1.0, max(0.0, change / self._span / 2 + 0.5))))
        if self._looks is not None:
            self._decide(self._looks.look(self._rows, self._differences, self._tolerance))
        return self.verdict

    def _decide(self, side: Side | None) -> None:
        if side == "below":
            self.verdict = "worse"
        elif side == "above" and (self._tolerance or self._changed >= FEW):
            self.verdict = "no worse" if self._tolerance else "better"

    def fields(self) -> dict[str, Any]:
        """Return the fields of a difference that it decides: the verdict, and the interval of its bets."""
        words = "" if self.verdict else "not "
        found: dict[str, Any] = {
            "verdict": self.verdict or "not enough evidence",
            "p_worse": None,
            "reason": f"{words}sure after {rows_of(self._rows)}, by {self.rule}",
        }
        ends = None if self._bets is None else self._bets.interval(2 / ALPHA)
        if ends is None:
            return found
        low, high = (self._sign * (2 * end - 1) * self._span for end in ends)
        return found | {"ci_low": min(low, high), "ci_high": max(low, high)}


class ComparisonWatch:
    """The watches of all outputs that a base and a new run have: worse in one is worse."""

    def __init__(
        self, names: Iterable[str], configs: Mapping[str, OutputConfig], tolerance: float, rows: int, tests: int = 1
    ) -> None:
        first = self._first = next(iter(configs), "")
        found = {"": configs.get(first)} | {name: config_of(configs, name) for name in names if name != first}
        watched = {
            name: config for name, config in found.items() if not name or (config and config.direction != "none")
        }
        self.outputs = {
            name: PairWatch(config, config.direction if config else "none", tolerance, rows, tests * len(watched))
            for name, config in watched.items()
        }

    def add(self, old: Scores, new: Scores) -> Verdict | None:
        """Take the next row, whether or not it pairs; return the verdict if it is sure."""
        found = {name: watch.add(old.get(name), new.get(name)) for name, watch in self.outputs.items()}
        return "worse" if "worse" in found.values() else found.get("")

    def add_results(self, old: Result, new: Result) -> Verdict | None:
        """Take two results of one row; those of another input are no pair."""
        if _other_input(old.given, new.given):
            return self.add({}, {})
        return self.add(_scores(old), _scores(new))

    @property
    def rule(self) -> Rule:
        """How it knows."""
        return self.outputs[""].rule

    def apply(self, comparison: Comparison) -> Comparison:
        """Return the comparison of the rows so far with what the bets, or looks, say of all of them."""
        if comparison.reason == NO_CHANGE and not comparison.unpaired.only_base.count:  # that is sure without a bet
            return comparison
        main = self.outputs[""].fields()
        fields = {name: watch.fields() for name, watch in self.outputs.items() if name} | {self._first: main}
        outputs = {name: one.model_copy(update=fields.get(name, {})) for name, one in comparison.outputs.items()}
        return comparison.model_copy(update=main | {"outputs": outputs})


class BaselineWatch(ComparisonWatch):
    """The same for a run that goes on, beside a base that was read. `ids` are those of all rows of the run."""

    def __init__(
        self, base: RunSide, ids: Collection[str], configs: Mapping[str, OutputConfig], tolerance: float, tests: int
    ) -> None:
        super().__init__([name for name in base.outputs if name], configs, tolerance, len(ids), tests)
        self._base = base
        self.missing = [id for id in base.ids if id not in ids]
        """Rows of the base that the run does not have."""

    def add_result(self, result: Result) -> Verdict | None:
        """Take the next row of the new run; return the verdict if it is sure."""
        base, at = self._base, self._base.ids.get(result.id)
        if at is None or _other_input(base.given[at], result.given):
            return self.add({}, {})
        return self.add({name: _score(base, name, at) for name in self.outputs}, _scores(result))

    def apply(self, comparison: Comparison) -> Comparison:
        found = super().apply(comparison)
        gaps = RowCounts(count=len(self.missing), ids=tuple(map(safe, self.missing[:EXAMPLES])))
        return found.model_copy(update={"unpaired": comparison.unpaired.model_copy(update={"only_base": gaps})})


def _scores(result: Result) -> Scores:
    return {"": result.score, **{name: one.score for name, one in result.outputs.items()}}


def _other_input(base: str | None, new: str | None) -> bool:
    return base is not None and new is not None and base != new and split_hash(base)[0] != split_hash(new)[0]


def _score(side: RunSide, name: str, at: int) -> float | None:
    found = side.outputs[name]
    found.pad(at + 1)
    score = found.scores[at]
    return score if score == score else None  # NaN is no score
