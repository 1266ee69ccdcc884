"""A run that stops as soon as its verdict is sure: rows in random order, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

from runner.core.errors import DatasetError, InputError
from runner.core.text import whole
from runner.core.types import Case, Evaluator, Result
from runner.engine.request import RunRequest
from runner.engine.scoring.failure_limits import parse_allowed
from runner.engine.scoring.gates import Gate
from runner.engine.scoring.summary import EarlyStop, Summary
from runner.engine.sequential.bets import ALPHA
from runner.engine.sequential.gate_watch import Claim, GateWatch, claims_of
from runner.results.compare.baseline import Baseline
from sandboxes.words.wording import Message, Setting

MOST_ROWS = 1_000_000
"""Rows that are held to be put in random order."""
RANDOM = "random"
"""The order of rows, in a manifest."""


def shuffle(cases: Iterable[Case], seed: int | None, limit: int | None = None) -> list[Case]:
    """
    Return the cases in an order that depends on the seed and on their ids alone: the same on any machine.

    Raises:
        DatasetError: There are too many.
    """
    found = list(islice(cases, MOST_ROWS + 1 if limit is None else min(limit, MOST_ROWS + 1)))
    if len(found) > MOST_ROWS:
        raise DatasetError(
            Message(
                f"the dataset has more than {MOST_ROWS:,} rows, which cannot be put in random order; score fewer with ",
                Setting("limit", MOST_ROWS),
                ", or leave ",
                Setting("stop_when_sure"),
                " out",
            )
        )
    return sorted(found, key=lambda case: blake2b(f"{seed or 0}:{case.id}".encode(errors="replace")).digest())


@dataclass
class SharedRisk:
    """
    The risk that a gate fails wrongly, which so many `tests` share.

    Each that fails leaves its part to those that come later (Holm 1979): at any row, as a purse holds at any row
    (Hartog and Lei 2025, arXiv 2501.09015).
    """

    tests: int
    failed: int = 0

    @property
    def remaining_tests(self) -> int:
        """Tests that share it now."""
        return max(1, self.tests - self.failed)


def share_risk(watches: Sequence[StopWatch | None]) -> None:
    """Let the gates of several runs, one after another, share the risk of one command."""
    some = [watch for watch in watches if watch is not None]
    risk = SharedRisk(sum(watch.risk.tests for watch in some))
    for watch in some:
        watch.risk = risk


class StopWatch:
    """
    Tells after which row the verdict of all gates is sure.

    `random`: rows come in random order, by `order`, and bets are made; else arithmetic alone decides. Raises InputError
    for gates that cannot be sure early, or none.
    """

    def __init__(
        self,
        request: RunRequest,
        evaluator: Evaluator,
        gates: Sequence[Gate],
        baseline: Baseline | None,
        *,
        random: bool,
    ) -> None:
        self.random = random
        self._ended: EarlyStop | None = None
        self._running = 0
        self._request = request
        self._gates = gates
        self._allowed = parse_allowed(request.max_failed, request.max_abstained)
        self._claims: Sequence[Claim] = claims_of(gates, evaluator.configs, *self._allowed, evaluator.name)
        self._baseline = baseline if request.fail_if_worse is not None else None
        self.risk = SharedRisk(len(self._claims) + (self._baseline is not None))
        self._among = 1
        self._watch: GateWatch | None = None
        self._rows = self._seen = 0
        self._hopeless = False
        if not self._claims and self._baseline is None:
            raise InputError(
                Message(
                    Setting("stop_when_sure"),
                    " stops when gates are sure, and there are none; add ",
                    *(Setting("require", "mean>=0.9"), ", or ", Setting("fail_if_worse"), " with "),
                    Setting("baseline"),
                )
            )

    @property
    def sure(self) -> bool:
        """Whether the run stopped."""
        return self._ended is not None and self._ended.sure

    @property
    def stop(self) -> EarlyStop | None:
        """How it ended, once it did: sure, or after the last row."""
        found = self._ended
        if found is None or not self._running:
            return found
        return found.model_copy(update={"scored": found.row + self._running // self._request.repeat})

    def add_running(self, results: int) -> None:
        """Take the number of results that were running when it was sure."""
        self._running += results

    def order(self, cases: Iterable[Case], complete: Callable[[], bool]) -> Iterator[Case]:
        """
        Yield the cases in random order, all of which are read first.

        Where they are not `complete` then, nothing can be sure. Raises as `shuffle`, and InputError.
        """
        found = shuffle(cases, self._request.seed, self._request.limit)
        if not complete():
            yield from found
            return
        self.begin(len(found))
        if self._baseline is not None and self.random:
            self._baseline.watch_rows({whole(case.id) for case in found}, self._among)
        yield from found

    def begin(self, rows: int) -> None:
        """Watch so many rows."""
        alpha, self._among = ALPHA if self.random else None, self.risk.remaining_tests
        self._rows, self._watch = rows, GateWatch(self._claims, self._allowed[0], rows, alpha, self._among)

    def add(self, row: Result) -> bool:
        """Take the next row; return true if the verdict is sure before the last."""
        watch, compared = self._watch, self._baseline.watch if self._baseline else None
        if watch is None or self._ended is not None:
            return self.sure
        self._seen += 1
        decision = watch.add(row)
        beside = None if compared is None else compared.add_result(row)
        sure = decision == "failed" or beside == "worse" or (self._baseline is None and decision is not None)
        if not sure and self._baseline is not None and beside is not None and decision and not self._hopeless:
            # Something else may keep the gate from being judged, such as rows that failed: then it stays so.
            sure = self._baseline.decision() == "passed"
            self._hopeless = not sure
        if sure or self._seen == self._rows:
            sure = sure and self._seen < self._rows
            self._ended = self._ending(sure)
            self.risk.failed += sum(one.decision == "failed" for one in watch.claims) + (beside == "worse")
        return self.sure

    def _ending(self, sure: bool) -> EarlyStop:
        assert self._watch is not None
        claims = self._watch.claims
        rules = {one.rule for one in claims if one.decision}
        if self._baseline is not None and self._baseline.watch is not None:
            rules.add(self._baseline.watch.rule)
        ends = next((found for one in claims if sure and one.claim.on_scores and (found := one.interval())), None)
        return EarlyStop(
            row=self._seen,
            rows=self._rows,
            scored=self._seen,
            sure=sure,
            rules=tuple(sorted(rules)),
            alpha=ALPHA if self.random else None,
            tests=self._among,
            ci_low=ends[0] if ends else None,
            ci_high=ends[1] if ends else None,
        )

    def judge(self, summary: Summary) -> Summary:
        """Add the results of all gates to the summary of a run that stopped."""
        assert self._watch is not None
        gates = self._watch.results(self._gates, summary)
        gates += [] if self._baseline is None else self._baseline.gates(complete=True)
        stop = self.stop
        if stop is not None and summary.judges is not None:
            saved = round(summary.judges.calls / stop.scored * (stop.rows - stop.scored))
            stop = stop.model_copy(update={"judge_calls_saved": saved})
        return summary.model_copy(update={"gates": tuple(gates), "stop": stop})
