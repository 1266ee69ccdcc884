"""Gates whose verdict is sure before the last row: by arithmetic, or by bets on rows in random order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from runner.core.errors import InputError
from runner.core.text import rows_of
from runner.core.types import OutputConfig, Result, bounds_of, config_of
from runner.engine.scoring.failure_limits import Most
from runner.engine.scoring.gates import Gate, figure
from runner.engine.scoring.summary import GateResult, Summary, passes
from runner.engine.scoring.tally import label_key
from runner.engine.sequential.bets import ALPHA, Bets
from sandboxes.words.wording import Message, Setting

Rule = Literal["arithmetic", "bets on rows", "bets on pairs", "five looks"]
Decision = Literal["passed", "failed"]
_EXACT = 1e-9
"""Of the span of scores, for each row: what the sum of floats may be off by."""
_COUNTS = ("scored", "abstained", "failed", "lost")


class Claim(NamedTuple):
    """A gate as a claim about values of rows, each between two bounds."""

    text: str
    value: Callable[[Result], float | None]
    """A row's; None if it has none here, and the gate judges the others."""
    bounds: tuple[float, float]
    holds: Callable[[float, int, int], bool]
    """Whether the gate passes with this sum of values, of so many, in so many rows."""
    share: Callable[[int], float]
    """The mean of the values from which on that changes, by the number of rows."""
    on_scores: bool
    """True if rows that failed may keep it from being judged."""


def claims_of(
    gates: Sequence[Gate],
    configs: Mapping[str, OutputConfig],
    max_failed: Most | None,
    max_abstained: Most | None,
    evaluator: str = "the script",
) -> list[Claim]:
    """
    Return what can be sure early; messages name the evaluator.

    Raises InputError for a gate that cannot be sure before the last row.
    """
    found = [_claim(gate, configs, evaluator) for gate in gates]
    for name, most, outcomes in (
        ("max-failed", max_failed, ("failed", "lost")),
        ("max-abstained", max_abstained, ("abstained",)),
    ):
        if most is not None:
            found.append(_at_most(f"{name} {most.text}", most, outcomes))
    return found


def _at_most(text: str, most: Most, outcomes: tuple[str, ...]) -> Claim:
    return Claim(
        text,
        lambda row: float(row.outcome in outcomes),
        (0.0, 1.0),
        lambda total, count, rows: not most.exceeded_by(round(total), rows),
        lambda rows: float(most.number if most.is_share else most.number / rows),
        on_scores=False,
    )


def _claim(gate: Gate, configs: Mapping[str, OutputConfig], evaluator: str) -> Claim:
    name = gate.output or ""
    config = config_of(configs, name) if name else next(iter(configs.values()), None)
    bounds: tuple[float, float] | None = (0.0, 1.0)
    if gate.comparison in ("==", "!="):
        raise _unsure(gate, "one more row may change it; write >= or <=")
    if gate.metric == "mean":
        bounds = bounds_of(config)
        if bounds is None:
            raise _unsure(
                gate,
                f"the scores of {evaluator} have no bounds, and one more row may change any mean; declare "
                "lower_bound and upper_bound in the script's header, or gate on pass_rate",
            )
    elif gate.metric not in ("pass_rate", "passed", "label", "rows", "failed_rate", *_COUNTS):
        raise _unsure(gate, f"rules for {gate.metric} are not known; gate on mean or pass_rate")
    assert bounds is not None
    counts = gate.metric not in ("mean", "pass_rate", "failed_rate")

    def value(row: Result) -> float | None:
        match gate.metric:
            case "rows":
                return 1.0
            case "failed_rate":
                return float(row.outcome == "failed")
            case "scored" | "abstained" | "failed" | "lost" as outcome:
                return float(row.outcome == outcome)
        one = row.outputs.get(name) if name else row
        if gate.label is not None:
            return float(one is not None and one.label is not None and label_key(one.label) == label_key(gate.label))
        score = None if one is None else one.score
        if score is None or gate.metric == "mean":
            return 0.0 if score is None and counts else score
        return float(bool(passes(score, config)))

    def holds(total: float, count: int, rows: int) -> bool:
        return not gate.broken_by(total if counts else total / count)

    return Claim(
        gate.text,
        value,
        bounds,
        holds,
        lambda rows: gate.number / rows if counts else gate.number,
        on_scores=gate.on_scores or gate.label is not None,
    )


def _unsure(gate: Gate, reason: str) -> InputError:
    named = Setting("require" if gate.required else "gates", gate.text)
    return InputError(Message(Setting("stop_when_sure"), " cannot be sure of ", named, f" early: {reason}"))


class ClaimWatch:
    """
    Tells when a claim about all `rows` is sure, row by row.

    With `alpha` it bets, which wants rows in random order, and passes wrongly with that probability at most; it fails
    wrongly with a part of it, as one of so many `tests`. Without, it goes by arithmetic alone, and never errs.
    """

    def __init__(self, claim: Claim, rows: int, alpha: float | None, tests: int = 1) -> None:
        self.claim = claim
        self.decision: Decision | None = None
        self.rule: Rule = "arithmetic"
        self._rows = rows
        self._seen = self._count = 0
        self._sum = 0.0
        self._integral = True
        low, high = claim.bounds
        self._low, self._span = low, high - low
        self._number = number = claim.share(rows)
        self._bets = None
        self._above: Decision = "passed" if claim.holds(high * rows, rows, rows) else "failed"
        if alpha is not None and low < number < high:
            limits = 1 / alpha, tests / alpha
            above, below = limits if self._above == "passed" else limits[::-1]
            self._bets = Bets((number - low) / self._span, above, rows, below)

    def add(self, row: Result) -> Decision | None:
        """Take a row; return the verdict if it is sure."""
        if self.decision is not None:
            return self.decision
        value = self.claim.value(row)
        self._seen += 1
        if value is not None:
            self._count += 1
            self._sum += value
            self._integral = self._integral and value.is_integer()
        if (sure := self._certain()) is not None:
            self.decision = sure
        elif self._bets is not None:
            # A row without a value leaves the mean of the others as it is: it is as one that is just at the number.
            scaled = ((self._number if value is None else value) - self._low) / self._span
            side = self._bets.add(min(1.0, max(0.0, scaled)))
            if side is not None and self._count:
                below: Decision = "failed" if self._above == "passed" else "passed"
                self.decision, self.rule = (self._above if side == "above" else below), "bets on rows"
        return self.decision

    def _certain(self) -> Decision | None:
        """The verdict that no row can change any more, if all that are left have a value, or some."""
        if not self._count:
            return None
        rest, claim, (low, high) = self._rows - self._seen, self.claim, self.claim.bounds
        count = self._count + rest
        least, most = self._sum + rest * low, self._sum + rest * high
        needed, close = count * self._number, _EXACT * count * (self._span + abs(self._number))
        if least < needed - close and most > needed + close:  # as after most rows
            return None
        exact = self._integral and low.is_integer() and high.is_integer()
        if not exact and (abs(least - needed) <= close or abs(most - needed) <= close):
            return None  # the sums of floats may be off in their last digits, which must not decide
        found = claim.holds(least, count, self._rows)
        if found is not claim.holds(most, count, self._rows):
            return None
        return "passed" if found else "failed"

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval on the mean of all rows; None where there are no bets."""
        found = None if self._bets is None else self._bets.interval(2 / ALPHA)
        return None if found is None else (self._low + found[0] * self._span, self._low + found[1] * self._span)


class GateWatch:
    """
    Tells when the verdict of all gates is sure: one failed, or all passed.

    All pass wrongly only where one of them does that is false: each may have the whole risk `alpha` (Berger 1982). That
    one fails wrongly, any of so many `tests` may bring about: they share the risk.
    """

    def __init__(
        self, claims: Sequence[Claim], max_failed: Most | None, rows: int, alpha: float | None, tests: int = 1
    ) -> None:
        self.claims = [ClaimWatch(claim, rows, alpha, tests) for claim in claims]
        self._allowed = max_failed
        self._alpha = alpha
        self._rows = rows
        self._failed = self._seen = self._scored = 0

    def add(self, row: Result) -> Decision | None:
        """Take a row; return the verdict of all gates if it is sure. A run that scored nothing has none."""
        self._seen += 1
        self._failed += row.outcome in ("failed", "lost")
        self._scored += row.outcome == "scored"
        verdicts = {watch.add(row) for watch in self.claims}
        if not self._scored:
            return None
        if any(watch.decision == "failed" and not self._blocked(watch) for watch in self.claims):
            return "failed"
        # By arithmetic alone nothing may be left open, such as whether a row that was not run would have failed.
        more = self._rows - self._seen if self._alpha is None else 0
        blocked = any(self._blocked(watch, more) for watch in self.claims)
        return "passed" if verdicts <= {"passed"} and not blocked else None

    def _blocked(self, watch: ClaimWatch, more: int = 0) -> bool:
        """Whether so many rows failed, or would with `more`, that a gate on scores cannot be judged."""
        failed = self._failed + more
        exceeded = failed > 0 if self._allowed is None else self._allowed.exceeded_by(failed, self._rows)
        return watch.claim.on_scores and exceeded

    def results(self, gates: Sequence[Gate], summary: Summary) -> list[GateResult]:
        """Return the result of each gate, for a run that stopped."""
        found = []
        written = {gate.text: gate for gate in gates}
        for watch in self.claims:
            gate = written.get(watch.claim.text)
            value = None if gate is None else gate.value(summary)
            reason = f"sure after {summary.rows:,} of {rows_of(self._rows)}"
            if watch.decision is None:
                reason = f"the run stopped after {rows_of(summary.rows)}, sure of another gate"
            if value is not None:
                reason = f"the value is {figure(value)}, {reason}"
            found.append(
                GateResult(
                    gate=watch.claim.text,
                    verdict=watch.decision or "unjudged",
                    value=value,
                    reason=reason,
                    required=gate is not None and gate.required,
                    abstained=summary.abstained,
                    unscored=0 if gate is None else gate.unscored(summary),
                )
            )
        return found
