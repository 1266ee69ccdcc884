"""One evaluator on two datasets, in one sandbox: both are scored, and then compared as finished runs are."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

from runner.compare.runs import compare_runs
from runner.compare.types import Comparison
from runner.errors import DatasetError
from runner.evaluators.mapping import bind
from runner.output.files import ResultsFiles
from runner.output.row_cells import Layout
from runner.request import Prepared, RunRequest, prepare
from runner.types import Evaluator, Result

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
        needs = bind(first.evaluator, request.mapping, partly=True).needs()
        shown = [needs[name] for name in ("output", "reference") if name in needs]
        kept = dict.fromkeys((*shown, *columns, *request.keep))
        self._sides: list[Prepared] = []
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
                        async with aclosing(side.score(cases, opened)) as found:
                            async for result in found:
                                files.add(result)
                                yield result
                                await files.room()

    def compare(self, folder: str, **wanted: Any) -> Comparison:
        """Compare what was written to `folder`; `wanted` are parameters of `compare_runs`."""
        made = compare_runs(_file(folder, 0), _file(folder, 1), evaluator=self._sides[1].evaluator, **wanted)
        sides = (made.base, made.new)
        named = [
            info.model_copy(update={"name": side.request.dataset})
            for info, side in zip(sides, self._sides, strict=True)
        ]
        return made.model_copy(update={"base": named[0], "new": named[1]})


def _file(folder: str, number: int) -> str:
    return str(Path(folder) / ("base.jsonl", "new.jsonl")[number])
