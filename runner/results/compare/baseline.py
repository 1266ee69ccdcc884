"""A run that goes on, compared with a finished one: its baseline."""

from __future__ import annotations

from functools import cached_property

from runner.core.errors import InputError, NotComparableError
from runner.core.types import Evaluator, Result
from runner.engine.request import RunRequest
from runner.engine.scoring.allowance import parse_allowed
from runner.engine.scoring.summary import GateResult
from runner.results.compare.files import Source
from runner.results.compare.gate import refuse_undirected, worse_gate
from runner.results.compare.pairs import Wish, compare_sides
from runner.results.compare.rows import read_side
from runner.results.compare.runs import with_rows
from runner.results.compare.side import Side
from runner.results.compare.types import Comparison, RunInfo
from sandboxes.wording import Message, Setting

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

    @cached_property
    def comparison(self) -> Comparison | None:
        """All rows compared; None if nothing can be compared."""
        tolerance = self._request.fail_if_worse or 0.0
        infos = self._source.info(self._base), RunInfo(name=_NAME, rows=self._new.rows)
        try:
            compared = compare_sides(self._base, self._new, infos, self._configs, Wish(tolerance))
        except NotComparableError as error:
            self._why = str(error)
            return None
        return with_rows(compared, (self._base, self._new))

    def gates(self, complete: bool) -> tuple[GateResult, ...]:
        """The result of the gate, if the request has it. `complete`: the dataset was read to its end."""
        request, made = self._request, self.comparison
        if request.fail_if_worse is None:
            return ()
        if made is None or not complete:
            why = self._why or "the dataset could not be read to its end"
            return (GateResult(gate="fail-if-worse", verdict="unjudged", reason=why),)
        allowed = parse_allowed(request.max_failed, request.max_abstained)
        return (worse_gate(made, *allowed, allow_inconclusive=request.allow_inconclusive),)

    @property
    def why(self) -> str:
        """Why nothing can be compared, in words; empty where it can."""
        return self._why if self.comparison is None else ""


def baseline_of(request: RunRequest, evaluator: Evaluator, source: Source | None) -> Baseline | None:
    """The request's baseline, read. Raises as `Baseline`, and InputError for a gate without one."""
    if source is not None:
        return Baseline(request, evaluator, source)
    if request.fail_if_worse is not None:
        step = " needs a baseline; name a results file or a run's folder with "
        raise InputError(Message(Setting("fail_if_worse"), step, Setting("baseline")))
    if request.allow_inconclusive:
        gate = Message(Setting("fail_if_worse"), " and ", Setting("baseline"))
        raise InputError(Message(Setting("allow_inconclusive"), " belongs to a gate; add ", gate))
    return None
