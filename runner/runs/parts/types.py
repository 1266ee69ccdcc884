"""What a run in parts is made of: its plan, and what the workers say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from runner.core.types import Evaluator
from runner.engine.request import RunRequest
from runner.engine.scoring.run_totals import PartialSums
from runner.inputs.datasets.rows import RowReading
from runner.inputs.datasets.slices import Slice
from sandboxes.base import Model
from sandboxes.errors import SandboxLostError

IDS, FIGURES = "ids", "figures.json"
"""Beside the folders of the parts their plan and the keys of ids; in each its figures."""


class PartLostError(SandboxLostError):
    """A worker is gone; its part can be run by another."""


class Part(Model):
    """A part of the dataset, and its rows by the count before the run."""

    slice: Slice
    rows: int = Field(ge=0)


class PartPlan(Model):
    """The parts in their order, which does not depend on the number of workers."""

    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(part.rows for part in self.parts)


class Look(Model):
    """What the footer of a Parquet file says."""

    groups: tuple[tuple[int, int], ...]
    """The rows and bytes of each row group; none where that is not known."""
    rows: int | None
    ids: bool
    """Whether it has the column with the rows' ids."""


class Count(Model):
    """What a part has, by reading it once."""

    rows: int = Field(ge=0)
    lines: int = Field(default=0, ge=0)
    """Lines of JSON, blank ones too."""
    ids: int = Field(default=0, ge=0)
    """Rows with an id of their own; their keys are in a file."""
    repeated: bool = False
    """Whether two of its rows have the same id."""
    numbered: bool = False
    """Whether an id is a number as a row without one is called by, or ends with `#` and a number, as we rename it."""


class PartFigures(Model):
    """What a finished part adds to the whole, kept beside its rows."""

    size: int = Field(ge=0)
    """Bytes of its rows file."""
    sums: PartialSums
    sandbox: str
    repeated: int = Field(ge=0)
    """Rows whose id an earlier row has."""
    remarks: tuple[str, ...] = ()
    complete: bool = True
    """False if its file could not be read to the end."""


class WorkerGreeting(Model):
    """A worker that is ready: what decides scores, and must be the same for all."""

    identity: str
    lock: str | None
    manifest: dict[str, Any]


@dataclass(frozen=True)
class LookTask:
    """Read a file's footer."""

    path: str
    id: str | None


@dataclass(frozen=True)
class CountTask:
    """Count a part's rows, and write the keys of their ids."""

    slice: Slice
    reading: RowReading
    id: str | None
    keys: str


@dataclass(frozen=True)
class BeginTask:
    """Open the sandbox."""

    request: RunRequest
    evaluator: Evaluator


@dataclass(frozen=True)
class PartTask:
    """Score a part, or what is left of it."""

    slice: Slice
    limit: int | None
    folder: str


Task = LookTask | CountTask | BeginTask | PartTask
