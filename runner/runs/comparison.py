"""One evaluator on two datasets, in one sandbox: both are scored, and then compared as finished runs are."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from runner.core.errors import DatasetError
from runner.core.text import printable, whole
from runner.core.types import Case, Direction, Evaluator, Freeform, Result
from runner.engine.request import PreparedRun, RunRequest
from runner.engine.scoring.overview import stop_words
from runner.engine.scoring.summary import EarlyStop
from runner.engine.sequential.bets import ALPHA
from runner.engine.threads import DaemonCall
from runner.inputs.datasets.dataset import Dataset
from runner.results.compare.files import find_source
from runner.results.compare.pair_watch import ComparisonWatch
from runner.results.compare.pairs import Wish
from runner.results.compare.runs import compare_sources
from runner.results.compare.types import Comparison
from runner.results.output.files import ResultsFiles
from runner.results.output.row_cells import Layout
from runner.runs.early_stop import shuffle
from runner.runs.store_references import prepare

Name: TypeAlias = str | os.PathLike[str]


class DatasetComparison:
    """
    The comparison of two datasets, from preparing to the result. Use it once: `score`, then `compare`.

    `request` is that of the new dataset; `base` is the path of the other. Raises what `prepare` does.
    """

    def __init__(
        self,
        request: RunRequest,
        base: Name,
        *,
        evaluator: Evaluator | None = None,
        columns: tuple[str, ...] = (),
        lock: str = "the lock",
    ) -> None:
        self.watch: ComparisonWatch | None = None
        self.stop: EarlyStop | None = None
        """When the verdict was sure, if it was to stop then."""
        first = prepare(request, evaluator=evaluator, lock=lock)
        # The output and the reference are shown of the rows that got worse.
        needs, roles = ({}, {}) if first.binding is None else (first.binding.needs(), first.binding.roles)
        shown = [needs[name] for role in ("output", "reference") for name in needs if roles.get(name) == role]
        kept = dict.fromkeys((*shown, *columns, *request.keep))
        self._sides: list[PreparedRun] = []
        self._notes: list[str] = []
        for dataset in (os.fspath(base), request.dataset):
            update: dict[str, Any] = {"dataset": dataset, "keep": tuple(kept)}
            self._sides.append(prepare(request.model_copy(update=update), evaluator=first.evaluator, lock=lock))
        if "-" in (base, request.dataset):
            raise DatasetError("standard input can be read only once; save it as a file first")

    @property
    def why(self) -> str:
        """The sandbox, and the reason for it."""
        return self._sides[1].why

    async def score(self, folder: str) -> AsyncGenerator[Result, None]:
        """Yield each result, those of the base first, after writing it to `folder`. Raises what a run does."""
        async with self._sides[1].sandbox as opened:
            for number, side in enumerate(self._sides):
                async with ResultsFiles([_file(folder, number)]) as files:
                    await files.open(Layout())
                    with side.open() as cases:
                        async with aclosing(side.score_grouped(cases, opened)) as groups:
                            async for results in groups:
                                files.add(results)
                                for result in results:
                                    yield result
                                await files.room()
                        self._note(side, cases)

    async def score_until_sure(
        self, folder: str, wish: Wish, direction: Direction | None
    ) -> AsyncGenerator[Result, None]:
        """
        Yield both results of each row in turn, in random order, until it is sure; rows without a pair are last.

        Raises:
            InputError: Nothing can be sure before the last row.
        """
        request, configs = self._sides[1].request, self._sides[1].evaluator.configs
        if direction is not None:
            first = next(iter(configs), "")
            configs = configs | {first: configs.get(first, Freeform()).model_copy(update={"direction": direction})}
        results = 0

        def count_rows(*_: object) -> int:
            nonlocal results
            results += 1
            return 0

        async with AsyncExitStack() as stack:
            opened = await stack.enter_async_context(self._sides[1].sandbox)
            read: list[dict[str, Case]] = []
            files: list[ResultsFiles] = []
            for number, side in enumerate(self._sides):
                cases = stack.enter_context(side.open())
                order = partial(shuffle, cases, request.seed, request.limit)
                found = await DaemonCall(order, "evalcell-dataset").get()
                read.append({case.id: case for case in found})
                files.append(await stack.enter_async_context(ResultsFiles([_file(folder, number)])))
                await files[-1].open(Layout())
                self._note(side, cases)
            pairs = [id for id in read[0] if id in read[1]]
            watch = ComparisonWatch([name for name in configs if name], configs, wish.tolerance, len(pairs))
            streams = []
            for side, mine, other in zip(self._sides, read, reversed(read), strict=True):
                ordered = [*(mine[id] for id in pairs), *(case for id, case in mine.items() if id not in other)]
                streams.append(
                    await stack.enter_async_context(
                        aclosing(side.score(ordered, opened, count_rows, halt=lambda: False))
                    )
                )
            self.watch = watch
            for at in range(1, max(map(len, read)) + 1):
                row = [await anext(stream, None) for stream in streams]
                for file, result in zip(files, row, strict=True):
                    if result is not None:
                        file.add([result])
                        yield result
                        await file.room()
                if at <= len(pairs) and row[0] is not None and row[1] is not None:
                    sure = watch.add_results(row[0], row[1]) is not None and at < len(pairs)
                    if sure or at == len(pairs):
                        self.stop = EarlyStop(
                            row=at, rows=len(pairs), scored=results // 2, sure=sure, rules=(watch.rule,), alpha=ALPHA
                        )
                    if sure:
                        return

    def _note(self, side: PreparedRun, cases: object) -> None:
        if isinstance(cases, Dataset):
            name = printable(whole(side.request.dataset or ""))
            self._notes += [f"{name}: {note}" for note in cases.notes]

    def compare(self, folder: str, wish: Wish, direction: Direction | None, strict: bool) -> Comparison:
        """Compare what was written to `folder`, as `compare_sources` does. Raises as it does."""
        base, new = (
            # It is named as the dataset: the folder is gone when somebody reads a message.
            find_source(_file(folder, number))._replace(name=printable(whole(side.request.dataset or "")))
            for number, side in enumerate(self._sides)
        )
        made = compare_sources((base, new), wish, self._sides[1].evaluator, direction, strict)
        if self.watch is not None:
            made = self.watch.apply(made)
        said = [] if self.stop is None else [stop_words(self.stop)]
        return made.model_copy(update={"notes": (*self._notes, *made.notes, *said)})


def _file(folder: str, number: int) -> str:
    return str(Path(folder) / ("base.jsonl", "new.jsonl")[number])
