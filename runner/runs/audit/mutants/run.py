"""Try mutants of a script: on its worked examples, and those that no example notices on rows of the audit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Literal, NamedTuple, TypeAlias

from runner.core.errors import MappingError
from runner.core.types import Case, Evaluator, Result, Score
from runner.engine.local import score
from runner.engine.request import PreparedRun
from runner.engine.scoring.diff import TOLERANCE
from runner.engine.scoring.gates import figure
from runner.inputs.evaluators.call_inputs import Fill
from runner.inputs.evaluators.column import BY_NAME
from runner.inputs.evaluators.evaluator_files import CODE
from runner.runs.audit.mutants.python import python_edits
from runner.runs.audit.mutants.types import Edit, Mutant, apply_edit
from runner.runs.audit.types import Gap, MutantScore
from runner.runs.examples.check import compare_result, fill_example
from runner.runs.examples.load import Example, for_language
from sandboxes.base import Language, Sandbox
from sandboxes.host.cores import cores

MUTANTS = 100
"""How many are tried, if nobody says."""
_ROWS = 300
"""Rows that a mutant is tried on which no example notices."""
_SLOWER = 20
"""A mutant may take so many times as long as the script, and at least so many seconds:"""
_SECONDS = 2.0
Fate: TypeAlias = Literal["killed", "silent", "broken"] | dict[int, Result]
"""What became of a mutant; a gap is the results of the rows that it changes, by their place."""


class RowResult(NamedTuple):
    """A row, and what the script as it is says of it."""

    case: Case
    result: Result
    real: bool
    """It is a row of the dataset, with its own output."""


def find_edits(evaluator: Evaluator) -> list[tuple[str, Edit]]:
    """
    Return each change of a script and of the modules beside it, each with its file, in their order.

    The script's own name is empty. There are none for what cannot be read.
    """
    modules = (".py",) if evaluator.language == "python" else CODE
    texts = {"": evaluator.source, **{name: evaluator.files[name] for name in sorted(evaluator.files)}}
    found: list[tuple[str, Edit]] = []
    for name, text in texts.items():
        if name.endswith(modules) or not name:
            with suppress(SyntaxError, ValueError, RecursionError):
                found += [(name, edit) for edit in sorted(_edits(text, evaluator.language))]
    return found


def _edits(source: str, language: Language) -> Iterator[Edit]:
    if language == "python":
        return python_edits(source)
    from runner.runs.audit.mutants.typescript import typescript_edits  # here: its parser is an extra

    return typescript_edits(source)


class MutantTrial:
    """
    Mutants of an evaluator, the worked examples that are to notice them, and rows that tell the others apart.

    Args:
        run: The evaluator, as it was prepared.
        examples: All of its worked examples.
        most: How many mutants are tried: some of all, chosen by the seed, so that each file has its share by size.
        seed: As above.
    """

    def __init__(self, run: PreparedRun, examples: Sequence[Example], most: int, seed: int) -> None:
        self._run = run
        self._fill: Fill = _fill_either(run)
        self._examples = for_language(examples, run.evaluator.language)
        edits = find_edits(run.evaluator)
        self.of = len(edits)
        if len(edits) > most:
            edits = sorted(random.Random(seed).sample(edits, most))
        texts = {"": run.evaluator.source, **run.evaluator.files}
        self.mutants = [apply_edit(texts[name].encode(), edit, name) for name, edit in edits]
        self._limits = run.request.limits

    def most_calls(self, rows: int) -> int:
        """Return how many calls it makes at most, where there are so many rows to tell mutants apart."""
        return len(self._examples) + len(self.mutants) * (len(self._examples) + min(rows, _ROWS))

    async def score(
        self, opened: Sandbox, rows: Sequence[RowResult], progress: Callable[[int], None] = lambda _: None
    ) -> MutantScore:
        """Try all mutants. `progress` is called with the number of those that were tried. Raises SandboxError."""
        slowest = max((row.result.duration_ms for row in rows), default=0.0)
        failing, worked = list[Example](), list[Example]()
        async with aclosing(self._score(self._run.evaluator, self._examples, opened)) as results:
            async for example, result in results:
                slowest = max(slowest, result.duration_ms)
                noticed = compare_result(example, result).verdict != "passed"
                (failing if noticed else worked).append(example)
        ids = tuple(example.id for example in failing)
        if not worked:
            why = "no worked example of it passes; `evalcell test` says why"
            return MutantScore(of=self.of, failing=ids, why=why)
        own = max(_SECONDS, _SLOWER * slowest / 1000)
        self._limits = self._limits.model_copy(update={"timeout": min(self._limits.timeout, own)})
        found: list[Fate] = ["broken"] * len(self.mutants)
        places, done = asyncio.Semaphore(max(1, cores())), 0

        async def one(at: int) -> None:
            nonlocal done
            async with places:
                found[at] = await self._one(self.mutants[at], worked, opened, rows)
                done += 1
                progress(done)

        async with asyncio.TaskGroup() as tasks:
            for at in range(len(self.mutants)):
                tasks.create_task(one(at))
        seen = [(mutant, fate) for mutant, fate in zip(self.mutants, found, strict=True) if isinstance(fate, dict)]
        shown = choose_witnesses([fate.keys() for _, fate in seen], rows)
        return MutantScore(
            of=self.of,
            tried=len(self.mutants),
            killed=found.count("killed"),
            silent=found.count("silent"),
            broken=found.count("broken"),
            gaps=tuple(_gap(mutant, fate, at, rows, self._run) for (mutant, fate), at in zip(seen, shown, strict=True)),
            failing=ids,
        )

    async def _one(self, mutant: Mutant, worked: Sequence[Example], opened: Sandbox, rows: Sequence[RowResult]) -> Fate:
        own = self._run.evaluator
        text = {"files": {**own.files, mutant.file: mutant.source}} if mutant.file else {"source": mutant.source}
        changed = own.model_copy(update=text)
        lost = True
        async with aclosing(self._score(changed, worked, opened)) as results:
            async for example, result in results:
                verdict = compare_result(example, result).verdict
                if verdict == "failed":
                    return "killed"
                lost &= verdict == "lost"
        if lost:
            return "broken"
        differing: dict[int, Result] = {}
        async with aclosing(self._score(changed, [row.case for row in rows], opened, self._run.request.mapping)) as ran:
            at = 0
            async for _, result in ran:
                if not same_result(rows[at].result, result):
                    differing[at] = result
                    if result.error is not None and result.error.kind in ("timeout", "memory"):
                        break  # it would be so for each row
                at += 1
        return differing or "silent"

    async def _score(
        self, evaluator: Evaluator, cases: Sequence[Any], opened: Sandbox, mapping: Any = None
    ) -> AsyncGenerator[tuple[Any, Result], None]:
        results = score(
            evaluator,
            cases,
            opened,
            limits=self._limits,
            mapping=self._fill if mapping is None else mapping,
            seed=self._run.request.seed,
            broker=opened.broker,
        )
        own = iter(cases)
        async with aclosing(results):
            async for result in results:
                yield next(own), result


def _fill_either(run: PreparedRun) -> Fill:
    """Fill an example by the mapping, or by its own names where it has none of the dataset's columns."""
    mapping = run.request.mapping
    mapped, named = (fill_example(run.evaluator, one) for one in (mapping, mapping.model_copy(update={"paths": {}})))

    def fill(case: Case) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return mapped(case)
        except MappingError:
            return named(case)

    return fill


def choose_rows(rows: Sequence[RowResult], seed: int) -> list[RowResult]:
    """Return the real rows, and as many planted ones as there is room for; rows that were lost tell nothing."""
    known = [row for row in rows if row.result.outcome != "lost"]
    real, planted = ([row for row in known if row.real is kind] for kind in (True, False))
    real = real[: _ROWS // 2]
    most = _ROWS - len(real)
    draw = random.Random(seed)
    return [*real, *(draw.sample(planted, most) if len(planted) > most else planted)]


def same_result(one: Result, other: Result) -> bool:
    """Say whether two results agree; explanations and error messages may differ."""
    if other.outcome == "lost":
        return True
    if one.outcome != other.outcome or one.outputs.keys() != other.outputs.keys():
        return False
    pairs: list[tuple[Result | Score, Result | Score]] = [
        (one, other),
        *((value, other.outputs[name]) for name, value in one.outputs.items()),
    ]
    return all(first.label == second.label and _near(first.score, second.score) for first, second in pairs)


def _near(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else abs(one - other) <= TOLERANCE * max(1.0, abs(one))


def choose_witnesses(gaps: Sequence[Collection[int]], rows: Sequence[RowResult]) -> list[int]:
    """
    Return for each gap a row that shows it: few rows for all of them, as each becomes a worked example.

    Real rows go before planted ones, short ones before long ones.
    """

    def cost(at: int) -> tuple[bool, int]:
        return not rows[at].real, len(repr(rows[at].case.output)) + len(repr(rows[at].case.input))

    shown, waiting = [0] * len(gaps), set(range(len(gaps)))
    while waiting:
        shows: dict[int, list[int]] = {}
        for gap in waiting:
            for at in gaps[gap]:
                shows.setdefault(at, []).append(gap)
        best = min(shows, key=lambda at: (-len(shows[at]), cost(at), at))
        for gap in shows[best]:
            shown[gap] = best
        waiting -= {*shows[best]}
    return shown


def _gap(mutant: Mutant, fate: Mapping[int, Result], at: int, rows: Sequence[RowResult], run: PreparedRun) -> Gap:
    real = sum(rows[one].real for one in fate)
    return Gap(
        file=mutant.file or None,
        line=mutant.line,
        change=mutant.change,
        rows=real,
        of=sum(row.real for row in rows),
        planted=len(fate) - real,
        id=rows[at].case.id,
        result=result_words(rows[at].result),
        mutant=result_words(fate[at]),
        example=dict(example_of(rows[at], run)),
    )


def result_words(result: Result) -> str:
    """Return a result in few words."""
    if result.error is not None:
        return f"{result.outcome} ({result.error.kind})"
    if result.outcome != "scored" or result.score is None:
        return result.outcome if result.label is None else f"label {result.label}"
    return figure(result.score) if result.label is None else f"{figure(result.score)}, {result.label or 'no text'}"


def example_of(row: RowResult, run: PreparedRun) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a worked example that expects what the script says of a row now."""
    case, result = row.case, row.result
    yield "id", case.id
    taken = None if run.binding is None else run.binding.columns
    for name in BY_NAME:
        if name not in ("id", "metadata") and name in case.present:
            yield name, getattr(case, name)
    for name, value in case.metadata.items():
        if name not in run.request.keep and (taken is None or "metadata" in taken or name in taken):
            yield name, value
    if asked := dict(run.request.mapping.paths):
        yield "map", asked
    if run.request.mapping.literals:
        yield "set", dict(run.request.mapping.literals)
    expected: dict[str, Any] = {}
    if result.error is not None:
        expected = {"outcome": "failed", "kind": result.error.kind}
    elif result.outcome == "abstained":
        expected = {"outcome": "abstained"}
    elif result.score is not None:
        expected = {"score": result.score}
    if result.label is not None:
        expected["label"] = result.label
    if outputs := {
        name: {"score": one.score, **({"label": one.label} if one.label is not None else {})}
        for name, one in result.outputs.items()
    }:
        expected = {"outputs": outputs}
    yield "expected", expected
