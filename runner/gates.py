"""`--fail-if` expressions: parsed strictly, judged on a summary."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args

from runner.errors import InputError
from runner.summary import Stats, Summary, label_key
from runner.types import OutputConfig
from sandboxes.base import Model

Comparison = Literal[">", ">=", "<", "<=", "==", "!="]

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_ROWS = ("rows", "scored", "abstained", "failed", "lost", "failed_rate")
_OF_OUTPUT = ("mean", "median", "min", "max", "passed", "pass_rate")
_SHAPE = re.compile(r"\s*(?P<metric>\S.*?)\s*(?P<op>>=|<=|==|!=|>|<)\s*(?P<number>[^<>=!]*?)\s*", re.DOTALL)
METRICS = ", ".join((*_OF_OUTPUT, *_OF_ROWS, "label:TEXT"))


class Gate(Model):
    """The run fails when `metric comparison number` holds."""

    text: str
    output: str | None = None
    """Which output's figures; None: the first one's, or those of all rows."""
    metric: str
    label: str | None = None
    """Set when the metric is a label's count."""
    comparison: Comparison
    number: float

    def value(self, summary: Summary) -> float | None:
        """The metric; None where there is nothing to judge, such as the mean of no score."""
        if self.metric in _OF_ROWS:
            if self.metric == "failed_rate":
                return summary.failed / summary.rows if summary.rows else None
            return float(getattr(summary, self.metric))
        stats = summary if self.output is None else summary.outputs.get(self.output, Stats())
        if self.label is not None:
            return _label_count(stats, self.label)
        figure: float | None = getattr(stats, self.metric)
        return None if self.metric == "passed" and not stats.count else figure

    def broken_by(self, value: float) -> bool:
        """Whether the run fails with this value."""
        return _COMPARE[self.comparison](value, self.number)


def parse_gate(text: str, outputs: Mapping[str, OutputConfig]) -> Gate:
    """
    A gate from `METRIC OP NUMBER`, where METRIC may be `NAME.METRIC` for a named output.

    Raises InputError for anything else, and for a metric that the outputs can never have.
    """
    found = _SHAPE.fullmatch(text)
    if not found:
        raise InputError(f"--fail-if {text!r} is not METRIC OP NUMBER; write for example 'mean>0.2'")
    output, metric, label = _metric(text, found["metric"], outputs)
    _refuse_hopeless(text, output, metric, outputs)
    comparison = next(c for c in get_args(Comparison) if c == found["op"])
    return Gate(
        text=text.strip(),
        output=output,
        metric=metric,
        label=label,
        comparison=comparison,
        number=_number(text, found["number"]),
    )


def _metric(text: str, written: str, outputs: Mapping[str, OutputConfig]) -> tuple[str | None, str, str | None]:
    known = (*_OF_OUTPUT, *_OF_ROWS)
    if written in known:
        return None, written, None
    if written.startswith("label:"):
        return None, "label", written.removeprefix("label:")
    for name in sorted((n for n in outputs if n), key=len, reverse=True):
        metric = written.removeprefix(f"{name}.")
        if metric != written:
            if metric in _OF_OUTPUT:
                return name, metric, None
            if metric.startswith("label:"):
                return name, "label", metric.removeprefix("label:")
    named = ", ".join(f"{n}.mean" for n in outputs if n)
    hint = f", or of a named output, such as {named}" if named else ""
    raise InputError(f"--fail-if {text!r}: there is no metric {written!r}; choose one of: {METRICS}{hint}")


def _refuse_hopeless(text: str, output: str | None, metric: str, outputs: Mapping[str, OutputConfig]) -> None:
    if metric not in ("passed", "pass_rate"):
        return
    config = outputs.get(output) if output is not None else next(iter(outputs.values()), None)
    if config is None or config.threshold is None or config.direction == "none":
        raise InputError(
            f"--fail-if {text!r} needs a threshold and a direction in the evaluator's output config; "
            "add them to its header, or gate on the mean"
        )


def _number(text: str, written: str) -> float:
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in written:
        raise InputError(f"--fail-if {text!r}: {written!r} is not a number; write for example 'mean>0.2'")
    return number


def _label_count(stats: Stats, label: str) -> float | None:
    count = stats.labels.get(label_key(label))
    if count is None:
        return None if stats.other_labels else 0.0
    return float(count)
