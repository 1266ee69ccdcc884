"""What an audit may be required to reach: `killed>=0.9`, `kappa>=0.6`, `tnr>=0.95`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from runner.core.errors import InputError
from runner.core.text import list_names, suggestion
from runner.engine.scoring.gates import COMPARE, Operator, figure, read_condition
from runner.engine.scoring.summary import GateResult
from runner.runs.audit.people import FEWEST_OF_CLASS
from runner.runs.audit.types import Agreement, MutantScore, Rate
from sandboxes.words.wording import Message, Setting

_OF_PEOPLE = ("kappa", "ac1", "tpr", "tnr", "auc", "rank", "coverage")
METRICS = ("killed", *_OF_PEOPLE)
"""`killed` is of mutants, the others are of people's labels."""


class AuditGate(NamedTuple):
    """A condition that an audit must meet."""

    text: str
    metric: str
    comparison: Operator
    number: float


def parse_gates(texts: Iterable[str], *, labels: bool, mutants: bool) -> list[AuditGate]:
    """
    Parse conditions.

    Args:
        texts: As they are written.
        labels: People's labels are named.
        mutants: Mutants are tried.

    Raises:
        InputError: For what is no condition, or can never be judged.
    """
    return [_parse(text, labels, mutants) for text in texts]


def _parse(text: str, labels: bool, mutants: bool) -> AuditGate:
    named = Setting("require", text)
    metric, comparison, number = read_condition(named, text)
    if metric not in METRICS:
        near = suggestion(metric, METRICS)
        raise InputError(Message(named, f": an audit has no metric {metric!r}{near}; it has {list_names(METRICS)}"))
    if metric in _OF_PEOPLE and not labels:
        raise InputError(Message(named, " is of people's labels; name their column with ", Setting("labels", "COLUMN")))
    if metric == "killed" and not mutants:
        raise InputError(Message(named, " is of mutants; let ", Setting("mutants", 100), " of them be tried"))
    return AuditGate(text.strip(), metric, comparison, number)


def judge_gates(
    gates: Sequence[AuditGate], mutants: MutantScore | None, people: Agreement | None
) -> Iterator[GateResult]:
    """
    Yield each gate's result. With an interval its unfavourable end counts: the lower one for `>=`.

    What too few rows or examples tell is not judged, and is no pass.
    """
    for gate in gates:
        found, why = _find_value(gate.metric, mutants, people)
        if found is None:
            yield GateResult(gate=gate.text, required=True, verdict="unjudged", reason=why)
            continue
        if isinstance(found, Rate):
            value = found.low if ">" in gate.comparison else found.high if "<" in gate.comparison else found.value
            side = "lower" if value == found.low else "upper"
            end = f", the {side} end of the interval of {figure(found.value)}" if value != found.value else ""
        else:
            value, end = found, ""
        yield GateResult(
            gate=gate.text,
            required=True,
            verdict="passed" if COMPARE[gate.comparison](value, gate.number) else "failed",
            value=value,
            reason=f"the value is {figure(value)}{end}",
        )


def _find_value(metric: str, mutants: MutantScore | None, people: Agreement | None) -> tuple[Rate | float | None, str]:
    """The figure, and why there is none."""
    if metric == "killed":
        return (None, "") if mutants is None else (mutants.share, mutants.why or "no mutant changes a result")
    few = f"fewer than {FEWEST_OF_CLASS} rows are right, or wrong, by their labels"
    why = few if people is not None and people.few else "there is no value for it with these labels"
    return getattr(people, metric, None), why
