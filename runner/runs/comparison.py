"""One evaluator on two datasets, in one sandbox: both are scored, and then compared as finished runs are."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

from runner.core.errors import DatasetError
from runner.core.text import printable, whole
from runner.core.types import Direction, Evaluator, Result
from runner.engine.request import PreparedRun, RunRequest
from runner.inputs.datasets.dataset import Dataset
from runner.results.compare.files import find_source
from runner.results.compare.pairs import Wish
from runner.results.compare.runs import compare_sources
from runner.results.compare.types import Comparison
from runner.results.output.files import ResultsFiles
from runner.results.output.row_cells import Layout
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
        return made.model_copy(update={"notes": (*self._notes, *made.notes)})


def _file(folder: str, number: int) -> str:
    return str(Path(folder) / ("base.jsonl", "new.jsonl")[number])
