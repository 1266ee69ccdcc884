"""Scores inside a Ray Data pipeline: a class for `Dataset.map_batches` whose sandbox stays open from batch to batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

from runner.core.errors import InputError
from runner.core.settings import WarmOptions
from runner.core.signature import with_settings
from runner.core.text import describe, whole
from runner.core.types import Result, Score
from runner.engine.request import Rows, RunRequest, Scorer
from runner.inputs.datasets.frames import frame_rows
from runner.runs.api.warm import WarmRun, row_request

_PARTS = ("label", "score", "explanation")


@with_settings("RowScorer", WarmOptions)
def evalcell_scorer(evaluator: Scorer, *, prefix: str = "", **settings: Unpack[WarmOptions]) -> type[BatchScorer]:
    """
    Make a class for `Dataset.map_batches` of Ray Data, which adds the scores of the rows as columns.

    Each actor of Ray Data opens the sandbox and loads the script once, for all its batches. The script travels;
    evalcell and the sandbox must be installed on the nodes, and a file of the config must be at its path on each. The
    columns are `outcome`, `label`, `score`, `explanation` and `error`, and `NAME.label` and so on of several outputs. A
    row without a score has null there. Any `batch_format` will do. `jobs` of the config is 1 unless it is set: Ray
    starts as many actors as `concurrency` says.

    Args:
        evaluator: As in `evaluate`.
        prefix: The names of the new columns begin with it.
        **settings: As in `evaluate`.

    Raises:
        InputError: As in `evaluate`; in the pipeline, a batch lacks columns, or has one of the new names already.
        UnsupportedConfigError: As in `evaluate`.
    """
    request = row_request(evaluator, **settings)
    if request.sandbox.jobs is None:
        request = request.model_copy(update={"sandbox": request.sandbox.model_copy(update={"jobs": 1})})
    return type("EvalcellScorer", (BatchScorer,), {"request": request, "prefix": prefix})


class BatchScorer:
    """
    Scores batch after batch in a sandbox that stays open. `evalcell_scorer` makes such a class for an evaluator.

    A batch is a dict of arrays, a pandas data frame or an Arrow table; it comes back as the same, with more columns.
    """

    request: ClassVar[RunRequest]
    prefix: ClassVar[str]

    def __init__(self) -> None:
        self._run = WarmRun(self.request)

    def __call__(self, batch: Any) -> Any:
        """
        Return the batch with the columns of its scores.

        Raises:
            InputError, UnsupportedConfigError, SandboxError: As in `evaluate`.
        """
        names, rows = _rows(batch)
        outputs = self._run.evaluator.outputs
        added = [self.prefix + name for name in _names(outputs)]
        if taken := {*added} & {*names}:
            raise InputError(
                f"the batch has a column `{min(taken)}` already; give the scores' columns a prefix: "
                'evalcell_scorer(…, prefix="evalcell_")'
            )
        scores = [_cells(result, outputs) for result in self._run.score(rows, "evalcell_scorer")]
        return _with_columns(batch, {name: [cells[place] for cells in scores] for place, name in enumerate(added)})

    def close(self) -> None:
        """Close the sandbox. Safe twice."""
        self._run.close()

    def __del__(self) -> None:
        # Ray Data lets go of the instance before it ends the actor.
        if "_run" in vars(self):
            self.close()


def _rows(batch: Any) -> tuple[Sequence[str], Rows]:
    """The names of a batch's columns, and its rows. Raises InputError."""
    if isinstance(batch, Mapping):
        columns = [_values(column) for column in batch.values()]
        return list(batch), [dict(zip(batch, values, strict=True)) for values in zip(*columns, strict=True)]
    frame = frame_rows(batch)
    if frame is None:
        raise InputError(f"a batch must be a dict of arrays, a data frame or an Arrow table, not {describe(batch, 60)}")
    return frame.names, frame


def _values(column: Any) -> list[Any]:
    if getattr(getattr(column, "dtype", None), "kind", "") in "mM":
        column = column.astype(f"{column.dtype.kind}8[us]")  # of nanoseconds, numpy gives mere integers
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _several(outputs: Mapping[str, object]) -> Sequence[str]:
    return tuple(outputs) if len(outputs) > 1 else ()


def _names(outputs: Mapping[str, object]) -> list[str]:
    own = ["outcome", *_PARTS, "error"]
    return own + [f"{name}.{part}" for name in _several(outputs) for part in _PARTS]


def _cells(result: Result, outputs: Mapping[str, object]) -> list[Any]:
    """The values of a result, in the order of `_names`."""
    none = Score()
    found: list[Any] = [result.outcome, *(getattr(result, part) for part in _PARTS)]
    found.append(None if result.error is None else f"{result.error.kind}: {result.error.message}")
    for name in _several(outputs):
        found += [getattr(result.outputs.get(name, none), part) for part in _PARTS]
    return [whole(value) if isinstance(value, str) else value for value in found]


def _with_columns(batch: Any, columns: Mapping[str, list[Any]]) -> Any:
    """The batch with these columns; text, but for scores. Nulls stay nulls: a row without a score has no number."""
    if isinstance(batch, Mapping):
        import numpy as np  # here and below: of the caller's batch, so it is there

        arrays = {}
        for name, values in columns.items():
            arrays[name] = np.empty(len(values), dtype=object)
            arrays[name][:] = values
        return {**batch, **arrays}
    if hasattr(batch, "append_column"):
        import pyarrow as pa

        for name, values in columns.items():
            kind = pa.float64() if name.endswith("score") else pa.string()
            batch = batch.append_column(name, pa.array(values, kind))
        return batch
    import pandas as pd

    kinds = {name: "Float64" if name.endswith("score") else object for name in columns}
    return batch.assign(
        **{name: pd.Series(values, index=batch.index, dtype=kinds[name]) for name, values in columns.items()}
    )
