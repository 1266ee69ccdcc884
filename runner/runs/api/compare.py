"""`compare_datasets`: one evaluator on two datasets, in one sandbox, from Python."""

from __future__ import annotations

import os
from contextlib import aclosing
from tempfile import TemporaryDirectory
from typing import Unpack

from runner.core.settings import ComparedOptions
from runner.core.signature import with_settings
from runner.core.types import Direction
from runner.engine.arguments import make_request
from runner.engine.request import Path, Scorer
from runner.results.compare.pairs import Wish
from runner.results.compare.runs import check_tolerance
from runner.results.compare.types import Comparison
from runner.results.notebook.waiting import wait
from runner.runs.comparison import DatasetComparison


@with_settings("compare_datasets", ComparedOptions)
def compare_datasets(
    evaluator: Scorer,
    base: Path,
    new: Path,
    *,
    tolerance: float = 0.0,
    direction: Direction | None = None,
    by: str | None = None,
    cluster: str | None = None,
    ignore_input: bool = False,
    strict: bool = False,
    **settings: Unpack[ComparedOptions],
) -> Comparison:
    """
    Score two datasets in one sandbox, and compare the results as `compare_runs` does: is `new` better than `base`?

    Args:
        evaluator: As in `evaluate`.
        base: The dataset with the outputs to compare with.
        new: The dataset with the new outputs.
        tolerance, direction: As in `compare_runs`.
        by: A column of the datasets, for whose values there are figures of their own.
        cluster: A column of the datasets; rows with the same value in it are not independent.
        ignore_input, strict: As in `compare_runs`.
        **settings: As in `evaluate`.

    Raises:
        InputError, UnsupportedConfigError, SandboxError: As in `evaluate`.
        NotComparableError: As in `compare_runs`.

    Example:
        >>> from pathlib import Path
        >>> from evalcell import compare_datasets
        >>> for name, output in ("old", "5"), ("new", "4"):
        ...     _ = Path(f"{name}.csv").write_text(f"id,output,reference\\n1,{output},4\\n2,7,7\\n")
        >>> compare_datasets("exact-match", "old.csv", "new.csv").mean_difference
        0.5
    """
    check_tolerance(tolerance)
    request, _ = make_request(evaluator, os.fspath(new), **settings)
    columns = tuple(column for column in (by, cluster) if column is not None)
    work = DatasetComparison(request, base, columns=columns)

    with TemporaryDirectory(prefix="evalcell-compare-") as folder:

        async def score() -> None:
            async with aclosing(work.score(folder)) as found:
                async for _ in found:
                    pass

        wait(score)
        return work.compare(folder, Wish(tolerance, by, cluster, ignore_input), direction, strict)
