"""The gate `fail_if_worse`: a comparison as the result of a gate. It fails closed."""

from __future__ import annotations

from functools import partial

from runner.core.errors import InputError
from runner.core.text import printable, rows_of
from runner.core.types import Direction
from runner.engine.scoring.allowance import Most
from runner.engine.scoring.gates import figure
from runner.engine.scoring.summary import GateResult
from runner.results.compare.types import Comparison
from runner.results.compare.verdict import SAY_DIRECTION
from sandboxes.wording import Message, Setting


def refuse_undirected(direction: Direction, step: str = "") -> None:
    """Raise InputError if nobody knows which scores are better. `step` comes before the one that is always there."""
    if direction == "none":
        raise InputError(
            Message(Setting("fail_if_worse"), f" cannot tell which scores are better; {step}{SAY_DIRECTION}")
        )


def worse_gate(
    made: Comparison,
    max_failed: Most | None = None,
    max_abstained: Most | None = None,
    *,
    allow_inconclusive: bool = False,
) -> GateResult:
    """
    Judge a comparison. Raises InputError if it has no direction.

    It fails if the new run is worse, in any output. It cannot be judged if there is not enough evidence (unless that is
    allowed), if more pairs failed or were lost than `max_failed` allows (without it, none), or if more abstained in the
    new run than `max_abstained` allows (without it, than in the base). Nor can it if a run did not finish, or if rows,
    the evaluator, an output or an input of the base are not those of the new run.
    """
    ways = Setting("direction", "maximize"), Setting("direction", "minimize")
    refuse_undirected(made.direction, f"add {ways[0]} or {ways[1]}, or ")
    gate = f"fail-if-worse {figure(made.tolerance)}" if made.tolerance else "fail-if-worse"
    value, low, high = made.mean_difference, made.ci_low, made.ci_high
    between = "" if low is None or high is None else f", 95% interval {figure(low)} to {figure(high)}"
    words = f"the mean differs by {figure(value)}{between}" if value is not None else "there is no difference to judge"
    beside = f"; {made.reason}" if made.reason else ""
    result = partial(GateResult, gate=gate, value=value, abstained=made.abstained)
    if made.verdict == "worse":
        return result(verdict="failed", reason=f"worse: {words}{beside}")
    for name, one in made.outputs.items():
        if one.verdict == "worse" and one.mean_difference is not None:
            by = f"the mean of the output {printable(name, 60)} differs by {figure(one.mean_difference)}"
            return result(verdict="failed", value=one.mean_difference, reason=f"worse: {by}")
    if why := _missing(made):
        return result(verdict="unjudged", reason=why)
    count = made.failed
    if max_failed.exceeded_by(count, made.pairs) if max_failed else count:
        why = f"{count:,} of {rows_of(made.pairs)} failed or were lost on a side"
        return result(verdict="unjudged", reason=why, missing_rows=True)
    # An output that is no longer JSON makes a distance abstain: what breaks must not look better.
    before, now = made.outcomes.get("abstained", (0, 0))
    if max_abstained.exceeded_by(now, made.pairs) if max_abstained else now > before:
        why = f"{now:,} of {rows_of(made.pairs)} abstained, and {before:,} in the base"
        return result(verdict="unjudged", reason=f"{why}; if that is fine, say how many may abstain")
    if made.verdict == "not enough evidence" and not allow_inconclusive:
        return result(verdict="unjudged", reason=f"not enough evidence: {words}{beside}")
    return result(verdict="passed", reason=f"{made.verdict}: {words}{beside}")


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
