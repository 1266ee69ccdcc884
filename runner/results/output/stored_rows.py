"""Rows of a results folder, read back and checked: a file may be cut, edited, or somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError

from runner.core.errors import ResumeError
from runner.core.text import describe, printable, whole
from runner.core.types import (
    Categorical,
    Continuous,
    Evaluator,
    Finite,
    JudgeExchange,
    Outcome,
    OutputConfig,
    Result,
    ResultError,
    Score,
)
from runner.engine.batch_program import least_rows
from runner.engine.batches import SharedBatches
from runner.engine.rows import Row
from runner.inputs.datasets.formats.column_values import RowError
from runner.inputs.datasets.rows import DECODER
from sandboxes.base import Model
from sandboxes.host.regular import open_regular

MOST = 64 << 20
"""Bytes of a line: a row of a dataset has at most 8 MB, and a result's texts are bounded too."""
_BLOCK = 1 << 20


class StoredScore(Model):
    """What a script made of a row."""

    outcome: Outcome
    label: str | None
    score: Finite | None
    explanation: str | None
    error: ResultError | None
    stdout: str
    truncated: bool = False
    duration_ms: Annotated[Finite, Field(ge=0)]
    waiting_ms: Annotated[Finite, Field(ge=0)] = 0.0
    outputs: dict[str, Score] = Field(default_factory=dict)
    exchanges: list[JudgeExchange] = Field(default_factory=list)

    def result(self, row: Row, evaluator: Evaluator, sandbox: str, *, cached: bool) -> Result:
        """Return the result of this row, without the columns that it keeps."""
        return Result.trusted(
            {
                "id": row.id,
                "number": row.number,
                "repeat": row.repeat,
                "evaluator": evaluator.name,
                "version": evaluator.version,
                "sandbox": sandbox,
                "given": row.given,
                **dict(zip(_SCORED, _scored(self), strict=True)),
                "exchanges": tuple(self.exchanges),
                "cached": cached,
                "row": {},
            }
        )


_SCORED = tuple(StoredScore.model_fields)
_scored = attrgetter(*_SCORED)


class StoredRow(StoredScore):
    """A row of a results file in JSON lines; see `as_row`."""

    id: str
    repeat: Annotated[int, Field(ge=1)] = 1
    evaluator: str
    version: str
    sandbox: str
    direction: Any = None
    given: str | None
    cached: bool = False
    row: dict[str, Any] = Field(default_factory=dict)


class RowsPrefix(NamedTuple):
    """The beginning of a rows file that stays."""

    bytes: int = 0
    rows: int = 0


def whole_lines(path: Path) -> RowsPrefix:
    """Return the file up to its last line feed. Raises OSError."""
    size = rows = at = 0
    with open_regular(path) as file:
        while block := file.read(_BLOCK):
            rows += block.count(b"\n")
            if (end := block.rfind(b"\n")) >= 0:
                size = at + end + 1
            at += len(block)
    return RowsPrefix(size, rows)


def whole_batches(path: Path, prefix: RowsPrefix, evaluator: Evaluator, most: int, repeat: int) -> RowsPrefix:
    """Return the part of it with whole batches of rows that share their state. Raises ResumeError and OSError."""
    batches, found = SharedBatches(most, least_rows(evaluator)), RowsPrefix()
    for number, (end, row) in enumerate(stored_rows(path, prefix, evaluator), 1):
        if row.repeat == repeat and batches.add(row.error is not None and row.error.kind == "mapping"):
            found = RowsPrefix(end, number)
    return found


def stored_rows(path: Path, prefix: RowsPrefix, evaluator: Evaluator) -> Iterator[tuple[int, StoredRow]]:
    """Yield each row with the place where its line ends. Raises ResumeError for what is no row of the evaluator."""
    with open_regular(path) as file:
        for number in range(1, prefix.rows + 1):
            where = place(path, number)
            line = file.readline(MOST)
            if not line.endswith(b"\n"):
                raise ResumeError(f"{where}: the line is longer than {MOST >> 20} MB, or the file is being changed")
            yield file.tell(), _row(line, where, evaluator)


def place(path: Path, line: int) -> str:
    """Return a line of the file, for messages."""
    return f"{printable(whole(os.fspath(path)))}:{line}"


def _row(line: bytes, where: str, evaluator: Evaluator) -> StoredRow:
    try:
        value = DECODER.decode(line.decode())
        row = StoredRow.model_validate(value, strict=True)
    except UnicodeDecodeError as error:
        raise ResumeError(f"{where}: not UTF-8 at byte {error.start + 1}") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the row"
        raise ResumeError(f"{where}: `{printable(name, 60)}`: {first['msg']}") from None
    except RecursionError:
        raise ResumeError(f"{where}: nested too deeply") from None
    except (RowError, ValueError) as error:
        raise ResumeError(f"{where}: not JSON: {printable(str(error), 120)}") from None
    if why := contradiction(row, evaluator.outputs, evaluator.dialect):
        raise ResumeError(f"{where}: {why}")
    return row


def contradiction(row: StoredScore, outputs: Mapping[str, OutputConfig], dialect: str | None) -> str | None:
    """
    Return why no run can have written the row.

    A script of a dialect names its outputs itself, if its header does not.
    """
    bad, error = row.outcome in ("failed", "lost"), row.error
    if bad is (error is None) or (error is not None and (error.kind == "lost") is not (row.outcome == "lost")):
        return f"the outcome is {row.outcome}, and the error {describe(error and error.kind)}"
    scores: dict[str, StoredScore | Score] = dict(row.outputs) if len(outputs) > 1 and not bad else {"": row}
    if len(outputs) > 1 and not bad and [*scores] != [*outputs]:
        return f"its outputs are {describe([*scores])}, and the evaluator's {describe([*outputs])}"
    if bool(row.outputs) is not (len(outputs) > 1 and not bad) and (bad or outputs or dialect is None):
        return "it has outputs that the evaluator does not have"
    configs: list[OutputConfig | None] = [*outputs.values()] or [None]
    for score, config in zip(scores.values(), configs, strict=False):
        if bad and (score.label, score.score, score.explanation) != (None, None, None):
            return f"the outcome is {row.outcome}, and it has a score"
        if not bad and not _fits(config, score, row.outcome):
            return f"label {describe(score.label, 40)} and score {score.score} are none that the output config allows"
    return None


def _fits(config: OutputConfig | None, score: StoredScore | Score, outcome: Outcome) -> bool:
    value = score.score
    if outcome == "abstained":
        return value is None
    if isinstance(config, Categorical) and value is not None:
        fixed = config.labels.get(score.label) if score.label is not None else None
        return score.label in config.labels and fixed in (None, value)
    if isinstance(config, Continuous) and value is not None:
        low, high = config.lower_bound, config.upper_bound
        return (low is None or low <= value) and (high is None or value <= high)
    return True
