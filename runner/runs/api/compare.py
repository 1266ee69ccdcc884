"""`compare_datasets`: one evaluator on two datasets, in one sandbox, from Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import aclosing
from tempfile import TemporaryDirectory
from typing import Any

from runner.core.types import Direction
from runner.engine.arguments import make_request
from runner.engine.request import Path, Scorer
from runner.inputs.call import Columns
from runner.inputs.datasets.rows import Empty
from runner.results.compare.pairs import Wish
from runner.results.compare.runs import check_tolerance
from runner.results.compare.types import Comparison
from runner.results.notebook.waiting import wait
from runner.runs.comparison import DatasetComparison
from sandboxes.base import Language, Limits, SandboxConfig


def compare_datasets(
    evaluator: Scorer,
    base: Path,
    new: Path,
    *,
    tolerance: float = 0.0,
    direction: Direction | None = None,
    sandbox: str | SandboxConfig | None = None,
    limits: Limits | None = None,
    mapping: Columns | None = None,
    seed: int | None = None,
    language: Language | None = None,
    limit: int | None = None,
    id: str | None = None,
    encoding: str | None = None,
    rows: str | None = None,
    empty: Empty = "text",
    json_columns: str | Sequence[str] = (),
    by: str | None = None,
    cluster: str | None = None,
    ignore_input: bool = False,
    strict: bool = False,
) -> Comparison:
    """
    Score two datasets in one sandbox, and compare the results as `compare_runs` does: is `new` better than `base`?

    The parameters are those of `evaluate` and of `compare_runs`; `by` and `cluster` are columns of the datasets. Raises
    what both do.
    """
    check_tolerance(tolerance)
    settings: dict[str, Any] = {"sandbox": sandbox, "limits": limits, "mapping": mapping, "seed": seed}
    settings |= {"encoding": encoding, "rows": rows, "empty": empty, "json_columns": json_columns}
    request, _ = make_request(evaluator, os.fspath(new), **settings, language=language, limit=limit, id=id)
    columns = tuple(column for column in (by, cluster) if column is not None)
    work = DatasetComparison(request, base, columns=columns)

    with TemporaryDirectory(prefix="evalcell-compare-") as folder:

        async def score() -> None:
            async with aclosing(work.score(folder)) as found:
                async for _ in found:
                    pass

        wait(score)
        return work.compare(folder, Wish(tolerance, by, cluster, ignore_input), direction, strict)
