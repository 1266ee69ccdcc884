"""Audit an evaluator: plant outputs in a dataset's rows, score them, and read what the scores give away."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

from runner.core.errors import ExamplesError, InputError, PathError
from runner.core.settings import JudgeSettings
from runner.core.text import describe, list_names, printable, rows_of, suggestion
from runner.core.types import Case, Result, config_of
from runner.engine.judge_usage import judge_usage
from runner.engine.request import PreparedRun, Rows, RunRequest
from runner.engine.scoring.summary import JudgeUsage, ModelUsage
from runner.inputs.datasets.row_columns import RowColumns
from runner.inputs.evaluators.column import BY_NAME, Column, Source, parse_source
from runner.inputs.evaluators.foreign.reads import speaks_of
from runner.inputs.evaluators.header import AuditClaims, read_header
from runner.inputs.evaluators.judges import imports_judge
from runner.inputs.evaluators.mapping import Binding
from runner.runs.audit.answers import (
    AS_IS,
    IN_FENCE,
    JSON,
    Answer,
    AnswerAttempt,
    AnswerChoice,
    candidates,
    is_empty,
    parse_tree,
    shape_of,
)
from runner.runs.audit.checks import (
    ALL,
    ALONE,
    LESS,
    MORE,
    NO_SCORE,
    SAME,
    SEES,
    PlantResult,
    PlantScores,
    compare_passes,
    count_rows,
    list_unjudged,
    read_scores,
)
from runner.runs.audit.cost import foresee_usage, refuse_spending
from runner.runs.audit.gates import judge_gates, parse_gates
from runner.runs.audit.mutants.run import MUTANTS, MutantTrial, RowResult, choose_rows, result_words, same_result
from runner.runs.audit.people import LabelledRow, compare_people
from runner.runs.audit.plants.peers import Peers
from runner.runs.audit.plants.plants import plants
from runner.runs.audit.plants.trees import put
from runner.runs.audit.plants.types import Plant, PlantRow
from runner.runs.audit.types import Agreement, Audit, AuditOptions, Check, MutantScore
from runner.runs.examples.load import Example, find_examples, read_examples
from runner.runs.store_references import prepare
from sandboxes.base import Sandbox
from sandboxes.errors import UnsupportedConfigError
from sandboxes.judges.grant import JudgeBudget
from sandboxes.words.wording import Setting

ROWS, FEW_ROWS = 60, 5
"""Rows that outputs are planted in, if nobody says how many; the fewer where a judge is asked."""
FEWEST = 2
MOST_READ = 100_000
"""Rows of a dataset from which those are chosen."""
_NONE = ("no worked examples", "an Evaluator has no folder")
_CHANGED = "changed for the audit"
_AGAIN = (
    ("repeats", "again", "the same rows, scored again, have other results"),
    ("rows_apart", "apart", "results depend on the rows before them"),
)
_NOT_JUDGED = 0.2
"""The share of rows that may fail whose output is like a right one; with more, nothing is proven."""
_WORDS = ("reference", "expected", "Expected", "ground_truth", "target")
_UNLIKELY = ("wrong.", "same.", "candidate", "form", "accepted", "right.zero")
CANDIDATE, IN_FORM = "candidate", "form"
"""What may be a right answer, as it is and in a form that the grader may want."""
NO_ANSWER = "the references are no answers, and fewer than two outputs of the dataset have full marks"
NO_LABEL = (
    "it gives labels alone, and right answers have not one of their own; declare in its header what they are worth: "
    'output = {kind = "categorical", labels = {good = 1, bad = 0}}'
)
NO_TAKER = "no parameter takes a reference"
NO_REFERENCE = "no row has a reference; if a column holds one, map it: reference=COLUMN"
PlantedRow: TypeAlias = tuple[str, Plant, Case]
"""The id of a row of the dataset, what was planted in it, and the row with it."""
_PART = 3
"""One of so many planted rows is scored again, and once more backwards in one process."""


class EvaluatorAudit:
    """
    The work of one audit: `score` it in an event loop, then `report` it.

    Args:
        request: The evaluator, its dataset, how it runs, and what the audit must reach.
        options: How much is tried, and what it is held against.
        data: The rows, where the request names no dataset.
        examples: Its worked examples. None: the ones beside the script.
        lock: The name of the lock file for messages.
        stored: The file of the dataset, where the request names one of the store.
        lease: Gives the sandbox in which it runs, in place of the one that was prepared.

    Raises:
        InputError: The examples cannot be used, or nothing can be planted: no parameter takes an output or a reference,
            or too few rows have one.
    """

    def __init__(
        self,
        request: RunRequest,
        options: AuditOptions | None = None,
        *,
        data: Rows | None = None,
        examples: Sequence[Example] | None = None,
        lock: str = "the lock",
        stored: str | None = None,
        lease: Callable[[Sandbox], Sandbox] = lambda sandbox: sandbox,
    ) -> None:
        self._options = options = options or AuditOptions()
        for name in ("right", "cluster"):
            if options.labels is None and getattr(options, name) is not None:
                raise InputError(
                    f"{Setting(name)} is of people's labels; name their column with {Setting('labels', 'COLUMN')}"
                )
        kept = [name for name in (options.labels, options.cluster) if name is not None]
        whole = request.model_copy(update={"limit": None, "repeat": 1, "keep": tuple(kept), "by": None})
        self._run = _leased(prepare(whole, lock=lock, stored=stored), lease)
        if kept:
            use = f"for {Setting('labels')}" + (f" or {Setting('cluster')}" if options.cluster is not None else "")
            self._run = replace(self._run, keep=RowColumns(kept, use=use))
        evaluator = self._run.evaluator
        isolation = whole.sandbox.model_copy(update={"isolation": "batch"})
        self._together: PreparedRun | None = None
        with suppress(UnsupportedConfigError):  # its sandbox, or what is made of a row's text, wants each call apart
            apart = whole.model_copy(update={"sandbox": isolation})
            self._together = _leased(prepare(apart, lock=lock, stored=stored), lease)
        self._claims = read_header(evaluator.source, evaluator.name, evaluator.language).audit
        self._seed, self._allow = 1 if request.seed is None else request.seed, (*options.allow, *self._claims.allow)
        self._asks = imports_judge(evaluator) or request.judges != JudgeSettings()
        few, none = (FEW_ROWS, 0) if self._asks else (ROWS, MUTANTS)
        mutants = none if options.mutants is None else options.mutants
        self._gates = parse_gates(request.require, labels=options.labels is not None, mutants=mutants > 0)
        _refuse_unknown(self._allow, self._claims)
        binding = self._run.binding
        assert binding is not None
        self._output, self._reference = (_place(binding, role) for role in ("output", "reference"))
        self._named = frozenset(binding.own_columns)
        self._compares = binding.columns is None or self._reference.column in binding.columns
        self._may_compare = binding.columns is None
        """It is given whole rows, of which it may read no reference."""
        if not self._compares:
            self._reference = self._output
        self._limit = MOST_READ if request.limit is None else min(request.limit, MOST_READ)
        one_pass = data is not None and iter(data) is data
        self._data = [*islice(data or (), self._limit)] if one_pass else data
        self._labelled = 0
        self._cases, self._of = self._sample(options.sample or few)
        self._tried = self._try_answers()
        likely = [next(iter(some), None) for some in self._candidates]
        self._planted = [*self._tried, *self._plant(likely)]
        """What is planted if references are right answers; in the end, what was."""
        self._changed = list[PlantedRow]()
        self._no_answer = ""
        self._done = 0
        self._trial, self._mutants = self._with_mutants(mutants, examples)
        self._passes: dict[str, list[PlantResult]] = {}
        """The results of all passes but the first."""
        self._people: Agreement | None = None
        self._foreseen: ModelUsage | None = None
        self._judges: JudgeUsage | None = None

    @property
    def run(self) -> PreparedRun:
        """What runs."""
        return self._run

    @property
    def calls(self) -> int:
        """How many calls the audit makes, if the references are right answers."""
        again = 0 if self._asks else 2 * -(-len(self._planted) // _PART)
        return len(self._planted) + again + self._labelled + sum(bool(self._others(case)) for case in self._cases)

    @property
    def asks(self) -> bool:
        """True if a judge may be asked at each call."""
        return self._asks

    @property
    def mutants(self) -> int:
        """How many changes of the script it tries."""
        return 0 if self._trial is None else len(self._trial.mutants)

    @property
    def mutant_calls(self) -> int:
        """How many calls these make at most."""
        return 0 if self._trial is None else self._trial.most_calls(len(self._planted))

    def _with_mutants(
        self, most: int, examples: Sequence[Example] | None
    ) -> tuple[MutantTrial | None, MutantScore | None]:
        """What tries mutants; else why none is tried."""
        if not most:
            return None, None
        try:
            if examples is None:
                examples = read_examples(find_examples(self._run.request.evaluator))
        except ExamplesError as error:
            if examples is not None or not str(error).startswith(_NONE):
                raise
            return None, MutantScore(why=str(error))
        trial = MutantTrial(self._run, examples, most, self._seed)
        return trial, None if trial.mutants else MutantScore(why="the script has nothing that can be changed")

    def _label(self, case: Case) -> tuple[Any, Any]:
        """What people say of a row, and the group of rows that it is of."""
        kept = {} if self._run.keep is None or case.broken is not None else self._run.keep.of(case)
        label = kept.get(self._options.labels or "")
        return None if label == "" else label, kept.get(self._options.cluster or "")

    def _sample(self, count: int) -> tuple[list[Case], int]:
        """Some rows with a reference, each as likely as any other (Vitter 1985, R), and how many there are."""
        draw, kept, seen, of = random.Random(self._seed), list[Case](), 0, 0
        with self._run.open(self._data) as cases:
            for case in cases:
                of += 1
                self._labelled += self._label(case)[0] is not None
                if case.broken is None and self._is_usable(case):
                    seen += 1
                    if len(kept) < count:
                        kept.append(case)
                    elif (at := draw.randrange(seen)) < count:
                        kept[at] = case
                if of >= self._limit:
                    break
        some = sum(not is_empty(_value(case, self._reference)) for case in kept)
        reads_all = self._run.evaluator.dialect is not None and self._may_compare
        if not some and self._compares and reads_all and self._reference.text == "$.reference":
            self._compares, self._reference, self._labelled = False, self._output, 0
            return self._sample(count)
        if some < FEWEST:
            place = f"`{printable(self._reference.text.removeprefix('$.'), 60)}`"
            what = "a reference" if self._compares else "an output"
            role = what.split()[1]
            raise InputError(
                f"{'only 1 row has' if some else 'no row has'} {what} in {place}, and an audit needs {FEWEST} that do; "
                f"name the column: {Setting('mapping.paths', {role: 'COLUMN'})}"
            )
        return sorted(kept, key=lambda case: case.number), of

    def _is_usable(self, case: Case) -> bool:
        """Say whether a row has a reference; an empty list says that there is nothing to answer."""
        reference = _value(case, self._reference)
        return not is_empty(reference) or isinstance(parse_tree(reference), dict | list)

    def _try_answers(self) -> list[PlantedRow]:
        """The outputs of rows, and what may be their right answers."""
        shape = shape_of([_value(case, self._output) for case in self._cases])
        self._candidates = [[*candidates(_value(case, self._reference), shape)] for case in self._cases]
        tried = []
        for case, some in zip(self._cases, self._candidates, strict=True):
            tried.append(self._planted_case(case, Plant("real", _value(case, self._output))))
            tried += [
                self._planted_case(case, Plant(CANDIDATE, answer.output, place=str(at)))
                for at, answer in enumerate(some)
            ]
        return tried

    def _plant(self, answers: Sequence[Answer | None]) -> list[PlantedRow]:
        """Wrong answers, of rows that have a right one."""
        draw = random.Random(self._seed)
        every = [
            (case, PlantRow(case.id, _value(case, self._reference), _value(case, self._output), case.input, answer))
            for case, answer in zip(self._cases, answers, strict=True)
            if answer is not None
        ]
        peers = Peers([row for _, row in every], draw, [_value(case, self._output) for case in self._cases])
        return [
            self._planted_case(case, plant)
            for case, row in every
            for plant in plants(row, peers, draw)
            if plant.reference is None or self._compares
        ]

    def _planted_case(self, case: Case, plant: Plant) -> PlantedRow:
        new = _set(case, self._output, plant.output)
        if plant.reference is not None:
            new = _set(new, self._reference, plant.reference.value)
        return (
            case.id,
            plant,
            new.model_copy(update={"id": "~".join(filter(None, (case.id, plant.check, plant.place)))}),
        )

    def _others(self, case: Case) -> set[str]:
        """The columns that no parameter takes by name."""
        known = {*self._named, self._output.column, self._reference.column}
        return {one for one in case.metadata.keys() - known if not (self._may_compare and self._writes(one))}

    def _writes(self, column: str) -> bool:
        """Say whether a script of another tool names a column, as it may read all of a row."""
        evaluator = self._run.evaluator
        named = re.compile(rf"(?<!\w){re.escape(column)}(?!\w)")
        return evaluator.dialect is not None and any(map(named.search, (evaluator.source, *evaluator.files.values())))

    def _change_others(self, answers: Sequence[Answer | None]) -> list[PlantedRow]:
        """The right answers, with changed columns that no parameter takes by name."""
        found = []
        for case, answer in zip(self._cases, answers, strict=True):
            if answer is not None and not answer.own and (keys := self._others(case)):
                changed = case.metadata | {key: _changed(case.metadata[key]) for key in keys}
                plant = Plant("metadata", answer.output)
                found.append(self._planted_case(case.model_copy(update={"metadata": changed}), plant))
        return found

    async def score(
        self,
        progress: Callable[[Sequence[Result]], None] = lambda _: None,
        tried: Callable[[int], None] = lambda _: None,
        tell: Callable[[ModelUsage], None] = lambda _: None,
    ) -> None:
        """
        Score all planted rows, then try mutants.

        Args:
            progress: Is called with results as they come.
            tried: Is called with the number of mutants that were tried.
            tell: Is called with about what judges will be asked, after the first call that asks one.

        Raises:
            InputError: The budget for judges has less than that.
            SandboxError: As a run does.
        """
        async with self._run.sandbox as opened:
            await self._score_answers(opened, progress, tell)
            self._passes["others"] = await self._scored(self._run, opened, self._changed, progress)
            if self._options.labels is not None:
                self._people = await self._compare_people(opened, progress)
            if not self._asks:  # a second answer of a judge costs as much again, and differs
                self._passes["again"] = await self._scored(self._run, opened, self._planted[::_PART], progress)
            await self._try_mutants(opened, tried)
            self._judges = judge_usage(opened)
        if self._asks or self._together is None:
            return
        async with self._together.sandbox as opened:
            backwards = await self._scored(self._together, opened, self._planted[::_PART][::-1], progress)
        self._passes["apart"] = backwards[::-1]

    async def _score_answers(
        self, opened: Sandbox, progress: Callable[[Sequence[Result]], None], tell: Callable[[ModelUsage], None]
    ) -> None:
        """Find the right answer of each row, then score wrong ones."""
        scored = await self._foresee(opened, progress, tell) if self._asks else []
        scored += await self._scored(self._run, opened, self._tried[len(scored) :], progress)
        results = iter(scored)
        attempts = []
        for some in self._candidates:
            own = next(results)
            attempts.append(
                AnswerAttempt((own.plant.output, own.result), [(answer, next(results).result) for answer in some])
            )
        choice = AnswerChoice(attempts, _config(self._run))
        forms = choice.forms() if self._compares and not self._asks else []  # a judge's calls were told
        planted = [
            self._planted_case(self._cases[at], Plant(IN_FORM, answer.output, place=str(number)))
            for number, (at, answer, _) in enumerate(forms)
        ]
        scored += (more := await self._scored(self._run, opened, planted, progress))
        for (at, answer, wrong), one in zip(forms, more, strict=True):
            choice.add(at, answer, wrong, one.result)
        self._marks = choice.marks
        right = choice.answers()
        answers = [None if one is None else one[0] for one in right]
        planted += (others := self._plant(answers))
        scored += await self._scored(self._run, opened, others, progress)
        choice.marks.take_only_label(one.result for one in scored)
        self._planted = [*self._tried, *planted]
        self._changed = self._change_others(answers)
        for case, attempt, pair in zip(self._cases, attempts, right, strict=True):
            if pair is None:
                continue
            answer, result = pair
            scored.append(PlantResult(case.id, Plant("right", answer.output), result))
            for bare, other in attempt.tried[:1]:
                if answer.form not in (AS_IS, JSON, IN_FENCE) and answer.value == bare.value:
                    scored.append(PlantResult(case.id, Plant("same.bare", bare.output), other))
            if answer.kind == "" and not answer.own:
                scored += [
                    PlantResult(case.id, Plant("accepted", each.output, place=str(at)), one)
                    for at, (each, one) in enumerate(attempt.tried)
                    if each.kind == ""
                ]
        self._first = PlantScores(
            scored, choice.marks, {case.id: _value(case, self._reference) for case in self._cases}
        )
        if choice.marks.unclear:
            self._no_answer = NO_LABEL
        elif sum(one is not None for one in right) < FEWEST:
            self._no_answer = NO_ANSWER

    async def _foresee(
        self, opened: Sandbox, progress: Callable[[Sequence[Result]], None], tell: Callable[[ModelUsage], None]
    ) -> list[PlantResult]:
        """Score planted rows one by one, up to the first that asks a judge."""
        before: list[PlantResult] = []
        for at, (_, plant, _) in enumerate(self._tried):
            before += await self._scored(self._run, opened, self._tried[at : at + 1], progress)
            if (asked := judge_usage(opened)) is None or asked.failed:
                break
            if asked.refused and (error := before[-1].result.error) is not None:
                raise InputError(error.message)
            if asked.calls:
                judges = self._run.sandbox.config.judges
                calls = self.calls - at + self.mutant_calls
                outputs = [later.output for _, later, _ in self._planted[at + 1 :]]
                self._foreseen = foresee_usage(asked, judges, calls, plant.output, outputs)
                if self._foreseen is not None:
                    tell(self._foreseen)
                    refuse_spending(self._foreseen, JudgeBudget() if judges is None else judges.budget)
                break
        return before

    async def _compare_people(self, opened: Sandbox, progress: Callable[[Sequence[Result]], None]) -> Agreement:
        assert self._options.labels is not None
        config, sign = self._marks.config, self._marks.sign
        found: list[LabelledRow] = []
        labels: deque[tuple[Any, Any]] = deque()

        def labelled(cases: Iterable[Case]) -> Iterator[Case]:
            for case in islice(cases, self._limit):
                if (said := self._label(case))[0] is not None:
                    labels.append(said)
                    yield case

        with self._run.open(self._data) as cases:
            async with aclosing(self._run.score_grouped(labelled(cases), opened)) as groups:
                async for group in groups:
                    for one in group:
                        label, cluster = labels.popleft()
                        good = self._marks.goodness(one)
                        found.append(LabelledRow(one.id, label, one.outcome, good, result_words(one), cluster))
                    progress(group)
        self._done += len(found)
        threshold = None if config is None or config.threshold is None else config.threshold * sign
        return compare_people(
            found,
            self._options.labels,
            of=self._of,
            threshold=threshold,
            right=self._options.right,
            seed=self._seed,
            sign=sign,
        )

    async def _try_mutants(self, opened: Sandbox, tried: Callable[[int], None]) -> None:
        first = self._first
        if self._trial is None:
            return
        if next(self._repeats(first)).status == "found":
            self._mutants = MutantScore(why=f"the script's results differ from run to run; try {Setting('seed', 1)}")
            return
        rows = [
            RowResult(case.model_copy(update={"id": row}) if real else case, one.result, real)
            for (row, plant, case), one in zip(self._planted, first.planted, strict=False)
            for real in [plant.check == "real"]
        ]
        self._mutants = await self._trial.score(opened, choose_rows(rows, self._seed), tried)

    async def _scored(
        self,
        run: PreparedRun,
        opened: Sandbox,
        planted: Sequence[PlantedRow],
        progress: Callable[[Sequence[Result]], None],
    ) -> list[PlantResult]:
        found: list[PlantResult] = []
        async with aclosing(run.score_grouped((case for *_, case in planted), opened)) as groups:
            async for group in groups:
                for result in group:
                    row, plant, _ = planted[len(found)]
                    found.append(PlantResult(row, plant, _with_score(result)))
                progress(group)
        self._done += len(found)
        return found

    def report(self) -> Audit:
        """Return what was found."""
        first = self._first
        checks = [*read_scores(first), *self._repeats(first), self._metadata(first)]
        blind, strict = [*self._listed(first, SEES, "sees")], [*self._listed(first, SAME, "same")]
        ignored = self._may_compare and _never_differs(first) and not (first.tells_apart and self._reads_others())
        constant = not _has_no_score(checks) and any(
            one.id == "discrimination" and one.status == "found" for one in checks
        )
        if constant or ignored or not self._compares:
            alone = NO_REFERENCE if self._may_compare else NO_TAKER
            unread = "output" if constant else "reference" if ignored else ""
            why = f"no score depends on the {unread}" if unread else alone
            kept = (*ALONE, "reference") if ignored and not constant and self._names_reference() else ALONE
            checks = [one if one.id in kept else Check(id=one.id, status="not applicable", words=why) for one in checks]
            blind, strict = [], []
        failed = [one for one in first.planted[: len(self._planted)] if one.result.outcome in ("failed", "lost")]
        likely = [one for one in first.planted if not one.plant.check.startswith(_UNLIKELY)]
        lost = sum(one.result.outcome == "lost" for one in likely)
        bad = sum(one.result.outcome == "failed" for one in likely) + lost
        none_scored = len(failed) == len(self._planted)
        no_verdict = "every planted row failed" if none_scored else self._no_answer or None
        if no_verdict is None and _has_no_score(checks):
            no_verdict = NO_SCORE
        if max(lost, 0 if no_verdict else bad) > _NOT_JUDGED * len(likely):
            no_verdict = f"{bad:,} of {len(likely):,} rows failed that have an output like the dataset's"
        return Audit(
            evaluator=self._run.evaluator.name,
            version=self._run.evaluator.version,
            sandbox=self._run.sandbox.identity,
            rows=len(self._cases),
            of=self._of,
            seed=self._seed,
            planted=len(self._planted),
            calls=self._done,
            failed=len(failed),
            error=_error_of(failed),
            checks=(*map(self._allowed, checks), *(one for one in (*blind, *strict) if one.status != "clear")),
            blind=tuple(one for one in blind if one.status == "clear"),
            strict=tuple(one for one in strict if one.status == "clear"),
            mutants=self._mutants,
            people=self._people,
            gates=tuple(judge_gates(self._gates, self._mutants, self._people)),
            foreseen=self._foreseen,
            judges=self._judges,
            lower_taken=first.marks.lower,
            no_verdict=no_verdict,
        )

    def _names_reference(self) -> bool:
        """Say whether the script reads a reference: one that ignores it is broken then."""
        return self._speaks_of({*_WORDS, self._reference.column or "reference"})

    def _reads_others(self) -> bool:
        """Say whether the script may read more of a row than its output, such as the input."""
        others = {"input", *(name for case in self._cases for name in case.metadata)}
        return self._run.evaluator.dialect is None or self._speaks_of(others)

    def _speaks_of(self, words: Collection[str]) -> bool:
        evaluator = self._run.evaluator
        sources = {evaluator.name: evaluator.source, **evaluator.files}
        return any(speaks_of(text, name, evaluator.language, words) for name, text in sources.items())

    def _repeats(self, first: PlantScores) -> Iterator[Check]:
        part = first.planted[: len(self._planted)][::_PART]
        for check, other, words in _AGAIN:
            if (others := self._passes.get(other)) is None:
                why = "a judge's second answer would cost as much again" if self._asks else "each call runs apart"
                yield Check(id=check, status="not applicable", words=why)
            else:
                yield compare_passes(check, words, part, others)

    def _metadata(self, first: PlantScores) -> Check:
        changed = [one for one in self._passes["others"] if one.result.outcome not in ("failed", "lost")]
        differing = [
            one
            for one in changed
            if (before := first.by_row[one.row]["right"].result).outcome != one.result.outcome
            or before.score != one.result.score
            or (first.marks.by_label and before.label != one.result.label)
        ]
        words = "the score changes with columns that no parameter takes by name"
        return count_rows("metadata", differing, len(changed), words, "it is given no other columns")

    def _allowed(self, check: Check) -> Check:
        known = check.status == "found" and check.id in self._allow
        return check.model_copy(update={"status": "allowed"}) if known else check

    def _listed(self, first: PlantScores, names: Mapping[str, str], kind: str) -> Iterator[Check]:
        """What is told and judged by nobody, but where the header claims otherwise."""
        claimed, silent = (self._claims.sees, self._claims.blind) if kind == "sees" else (self._claims.same, ())
        listed = {check.id: check for check in list_unjudged(first, names, seen=kind == "same")}
        less = [check for check in LESS if check in listed and check.partition(".")[2] not in silent]
        found = {*less, *(LESS[check] for check in less)}
        if not listed.keys() & {*LESS.values()}:
            found.add(MORE)
        for check in listed.values():
            name = check.id.partition(".")[2]
            if name in claimed:
                words = f"the header says that it {'sees' if kind == 'sees' else 'takes as the same'}: {check.words}"
                yield self._allowed(check.model_copy(update={"status": "found", "words": words}))
            elif name not in silent:
                judged = check.status == "found" or check.id in found
                told = ("does not see", "have") if kind == "sees" else ("treats as different", "lose")
                words = f"it {told[0]} {check.words}: {check.rows:,} of {rows_of(check.of)} {told[1]} full marks"
                yield self._allowed(check.model_copy(update={"status": "found", "words": words})) if judged else check


def _has_no_score(checks: Sequence[Check]) -> bool:
    return any(one.id == "right" and one.status == "found" and NO_SCORE in one.words for one in checks)


def _error_of(failed: Sequence[PlantResult]) -> str | None:
    """Why a planted row failed: a lost one, which is no fault of the script, before others."""
    one = min(failed, key=lambda one: one.result.outcome != "lost", default=None)
    if one is None or one.result.error is None:
        return None
    return f"{one.row}~{one.plant.check} {one.result.outcome}: {one.result.error.message}"


def _refuse_unknown(allow: Sequence[str], claims: AuditClaims) -> None:
    sees, same = (tuple(name.partition(".")[2] for name in names) for names in (SEES, SAME))
    known = [(one, ALL) for one in allow]
    known += [(one, sees) for one in (*claims.sees, *claims.blind)]
    known += [(one, same) for one in claims.same]
    for name, names in known:
        if name not in names:
            raise InputError(
                f"an audit has no check {describe(name, 60)}{suggestion(name, names)}; it has {list_names(names)}"
            )


def _with_score(result: Result) -> Result:
    """The result; of several outputs of which the first has no score, with that of the first that has one."""
    if result.score is not None or len(result.outputs) < 2:
        return result
    one = next((one for one in result.outputs.values() if one.score is not None), None)
    return result if one is None else result.model_copy(update={"label": one.label, "score": one.score})


def _leased(run: PreparedRun, lease: Callable[[Sandbox], Sandbox]) -> PreparedRun:
    return replace(run, sandbox=lease(run.sandbox))


def _never_differs(scores: PlantScores) -> bool:
    """Say whether no right answer scores otherwise beside another row's reference."""
    every = [(plants["right"], plants["reference"]) for plants in scores.by_row.values() if "reference" in plants]
    pairs = [pair for pair in every if pair[0].result.outcome not in ("failed", "lost")]  # these depend on nothing
    return len(pairs) >= FEWEST and all(same_result(one.result, other.result) for one, other in pairs)


def _config(run: PreparedRun) -> Any:
    configs = run.evaluator.configs
    return config_of(configs, "") or next(iter(configs.values()), None)


def _place(binding: Binding, role: str) -> Source:
    """The column, or the place in the row, that a parameter of a role is filled from."""
    paths = binding.mapping.paths
    takers = [role, *(name for name, one in binding.roles.items() if one == role)]
    found = next((parse_source(paths[name]) for name in takers if name in paths), Column(role))
    if not isinstance(found, Column) and (found.keys is None or not found.keys):
        raise InputError(
            f"{printable(found.text, 60)} looks at many places of a row, and an audit plants one {role}; map it to one"
        )
    return found


def _keys(place: Source) -> tuple[str | int, ...]:
    if not isinstance(place, Column):
        return place.keys or ()
    return (place.name,) if place.name in BY_NAME else ("metadata", place.name)


def _value(case: Case, place: Source) -> Any:
    row = {"input": case.input, "output": case.output, "reference": case.reference, "metadata": case.metadata}
    try:
        return place.value(row)
    except PathError:
        return None


def _set(case: Case, place: Source, value: Any) -> Case:
    first, *rest = _keys(place)
    whole = value if not rest else put(getattr(case, str(first)), rest, value)
    return case.model_copy(update={str(first): whole, "present": case.present | {str(first)}})


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return _CHANGED if isinstance(value, str) else value
