"""A run that goes on, compared with a finished one: its baseline."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property, partial
from typing import Literal

from runner.core.errors import InputError, NotComparableError
from runner.core.text import printable, rows_of
from runner.core.types import Direction, Evaluator, Result
from runner.engine.request import RunRequest
from runner.engine.scoring.failure_limits import Most, parse_allowed
from runner.engine.scoring.gates import figure
from runner.engine.scoring.summary import GateResult
from runner.results.compare.files import Source
from runner.results.compare.pair_watch import BaselineWatch
from runner.results.compare.pairs import Wish, compare_sides
from runner.results.compare.rows import read_side
from runner.results.compare.runs import with_rows
from runner.results.compare.side import Side
from runner.results.compare.types import ComparedRun, Comparison, Difference
from runner.results.compare.verdict import SAY_DIRECTION, holm_worse
from sandboxes.words.wording import Message, Setting

_NAME = "this run"


class Baseline:
    """
    Collects a run's results, and compares them with those of the request's `baseline`, which is read at once.

    Raises NotComparableError for a baseline that is missing, empty or damaged, and InputError for a gate that the
    evaluator's output config cannot judge.
    """

    def __init__(self, request: RunRequest, evaluator: Evaluator, source: Source) -> None:
        self._request = request
        self._configs = evaluator.configs
        if request.fail_if_worse is not None:
            refuse_undirected(next((config.direction for config in evaluator.configs.values()), "none"))
        self._source = source
        self._base = read_side(source)
        self._new = Side(_NAME)
        self._why = ""
        self.family = 1
        """Outputs that are asked in one command, of other evaluators, too."""
        self.watch: BaselineWatch | None = None
        """Tells when the gate is sure, where somebody wants to know."""

    @property
    def path(self) -> str:
        """The file that was read."""
        return str(self._source.path)

    def read(self, source: Source) -> None:
        """Take the rows of a run that has ended, in place of each."""
        self._new = read_side(source._replace(name=_NAME))

    def add(self, result: Result) -> None:
        """Take one row."""
        self._new.add_result(result)

    def watch_rows(self, ids: Collection[str], tests: int) -> None:
        """
        Watch the rows to come, with these ids, which must come in random order; the gate is one of so many tests.

        Raises:
            InputError: Nothing can be sure before the last row.
        """
        self.watch = BaselineWatch(self._base, ids, self._configs, self._request.fail_if_worse or 0.0, tests)

    def decision(self) -> Literal["passed", "failed"] | None:
        """Return what the gate would say of the rows so far; None if it could not be judged."""
        made = self._compare()
        verdict = None if made is None else self._gate(made).verdict
        return None if verdict == "unjudged" else verdict

    @cached_property
    def comparison(self) -> Comparison | None:
        """All rows compared; None if nothing can be compared."""
        return self._compare()

    def _compare(self) -> Comparison | None:
        tolerance = self._request.fail_if_worse or 0.0
        infos = self._source.info(self._base), ComparedRun(name=_NAME, rows=self._new.rows)
        try:
            compared = compare_sides(self._base, self._new, infos, self._configs, Wish(tolerance))
        except NotComparableError as error:
            self._why = str(error)
            return None
        made = with_rows(compared, (self._base, self._new))
        return made if self.watch is None else self.watch.apply(made)

    def gates(self, complete: bool) -> tuple[GateResult, ...]:
        """Return the result of the gate, if the request has it. `complete`: the dataset was read to its end."""
        request, made = self._request, self.comparison
        if request.fail_if_worse is None:
            return ()
        if made is None or not complete:
            why = self._why or "the dataset could not be read to its end"
            return (GateResult(gate="fail-if-worse", verdict="unjudged", reason=why),)
        return (self._gate(made),)

    def _gate(self, made: Comparison) -> GateResult:
        request = self._request
        allowed = parse_allowed(request.max_failed, request.max_abstained)
        return worse_gate(made, *allowed, allow_inconclusive=request.allow_inconclusive, family=self.family)

    @property
    def why(self) -> str:
        """Why nothing can be compared, in words; empty where it can."""
        return self._why if self.comparison is None else ""


def baseline_of(request: RunRequest, evaluator: Evaluator, source: Source | None) -> Baseline | None:
    """Return the request's baseline, read. Raises as `Baseline`, and InputError for a gate without one."""
    if source is not None:
        return Baseline(request, evaluator, source)
    if request.fail_if_worse is not None:
        step = " needs a baseline; name a results file or a run's folder with "
        raise InputError(Message(Setting("fail_if_worse"), step, Setting("baseline")))
    if request.allow_inconclusive:
        gate = Message(Setting("fail_if_worse"), " and ", Setting("baseline"))
        raise InputError(Message(Setting("allow_inconclusive"), " belongs to a gate; add ", gate))
    return None


def refuse_undirected(direction: Direction, step: str = "") -> None:
    """Raise InputError if nobody knows which scores are better. `step` comes before the one that is always there."""
    if direction == "none":
        raise InputError(
            Message(Setting("fail_if_worse"), f" cannot tell which scores are better; {step}{SAY_DIRECTION}")
        )


def worse_gate(
    comparison: Comparison,
    max_failed: Most | None = None,
    max_abstained: Most | None = None,
    *,
    allow_inconclusive: bool = False,
    family: int = 1,
) -> GateResult:
    """
    Judge a comparison.

    It fails if the new run is worse, in any output; these share the risk by Holm's steps, with as many outputs as
    `family` says where other evaluators are asked, too.

    It cannot be judged if there is not enough evidence (unless that is allowed), if more pairs failed or were lost than
    `max_failed` allows (without it, none), or if more abstained in the new run than `max_abstained` allows (without it,
    than in the base). Nor can it if a run did not finish, or if rows, the evaluator, an output or an input of the base
    are not those of the new run.

    Raises:
        InputError: If it has no direction.
    """
    ways = Setting("direction", "maximize"), Setting("direction", "minimize")
    refuse_undirected(comparison.direction, f"add {ways[0]} or {ways[1]}, or ")
    gate = f"fail-if-worse {figure(comparison.tolerance)}" if comparison.tolerance else "fail-if-worse"
    value, low, high = comparison.mean_difference, comparison.ci_low, comparison.ci_high
    between = "" if low is None or high is None else f", 95% interval {figure(low)} to {figure(high)}"
    words = f"the mean differs by {figure(value)}{between}" if value is not None else "there is no difference to judge"
    beside = f"; {comparison.reason}" if comparison.reason else ""
    result = partial(GateResult, gate=gate, value=value, abstained=comparison.abstained)
    outputs: dict[str, Difference] = {**comparison.outputs}
    figures = comparison.compared, comparison.mean_difference
    first = next((name for name, one in outputs.items() if (one.compared, one.mean_difference) == figures), "")
    outputs = outputs if first in outputs else {"": comparison, **outputs}
    count = max(family, len(outputs))
    worse, holm = holm_worse(outputs, count), f" (Holm over {count} outputs)" if count > 1 else ""
    if first in worse:
        return result(verdict="failed", reason=f"worse: {words}{beside}{holm}")
    for name in worse:
        change = outputs[name].mean_difference
        if change is not None:
            by = f"the mean of the output {printable(name, 60)} differs by {figure(change)}{holm}"
            return result(verdict="failed", value=change, reason=f"worse: {by}")
    if why := _missing(comparison):
        return result(verdict="unjudged", reason=why)
    failed = comparison.failed
    if max_failed.exceeded_by(failed, comparison.pairs) if max_failed else failed:
        why = f"{failed:,} of {rows_of(comparison.pairs)} failed or were lost on a side"
        return result(verdict="unjudged", reason=why, missing_rows=True)
    # An output that is no longer JSON makes a distance abstain: what breaks must not look better.
    before, now = comparison.outcomes.get("abstained", (0, 0))
    if max_abstained.exceeded_by(now, comparison.pairs) if max_abstained else now > before:
        why = f"{now:,} of {rows_of(comparison.pairs)} abstained, and {before:,} in the base"
        return result(verdict="unjudged", reason=f"{why}; if that is fine, say how many may abstain")
    if alone := [name for name, one in outputs.items() if one.verdict == "worse"]:
        why = (
            f"{printable(alone[0], 60) or 'it'} is worse if it is looked at alone, and not among {count} outputs (Holm)"
        )
        return result(verdict="passed" if allow_inconclusive else "unjudged", reason=f"not enough evidence: {why}")
    if comparison.verdict == "not enough evidence" and not allow_inconclusive:
        return result(verdict="unjudged", reason=f"not enough evidence: {words}{beside}")
    return result(verdict="passed", reason=f"{comparison.verdict}: {words}{beside}")


def _missing(made: Comparison) -> str:
    """What of the base is not in the new run, in words; nothing if all of it is."""
    unpaired = made.unpaired
    for info in (made.base, made.new):
        if info.state not in (None, "finished"):
            return f"{info.name} is of a run that is {info.state}; resume it, or make a new one"
    if unpaired.evaluator is not None:
        old, new = (", ".join(names) for names in (unpaired.evaluator.base, unpaired.evaluator.new))
        return f"the base is of another evaluator ({old}, not {new}); make a new base"
    if unpaired.outputs is not None and unpaired.outputs.base:
        return f"the output {', '.join(unpaired.outputs.base)} of the base is not in the new run; make a new base"
    if unpaired.only_base.count:
        ids = ", ".join(unpaired.only_base.ids[:3])
        return f"{rows_of(unpaired.only_base.count)} of the base are not in the new run ({ids}); make a new base"
    if unpaired.changed_input.count:
        ids = ", ".join(unpaired.changed_input.ids[:3])
        return f"{rows_of(unpaired.changed_input.count)} of the base have another input ({ids}); make a new base"
    if not made.compared:
        return "no row has a score on both sides"
    return ""
