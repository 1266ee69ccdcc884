"""What the pool is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from runner.core.types import Result
from runner.engine.request import RunRequest
from runner.engine.scoring.summary import Summary
from runner.results.store.segments import Segment
from runner.runs.audit.types import AuditOptions
from sandboxes.base import Model, Problem
from sandboxes.errors import SandboxLostError
from sandboxes.packages.lock_text import MAX_CHARS

MOST_TRIED = 100
"""Rows of a dry run."""
LOCAL = "local"
"""The worker of all sandboxes that run here; each provider has one of its own, of its name."""
AHEAD = 2
"""Parts of a run that a worker may send before they are taken."""
_NUMBER = 1 << 53
_WORDS = 100_000  # characters; a lock has its own bound
_NOTES = 1000


class TryJob(Model):
    """A dry run: a few rows, in a warm sandbox."""

    request: RunRequest
    """With the evaluator itself, and without a dataset."""
    rows: list[dict[str, Any]] = Field(max_length=MOST_TRIED)
    bare: bool = False
    """Only what was returned is wanted beside the results: all of it, whatever the arguments were."""


class AuditJob(Model):
    """An audit of a grader."""

    request: RunRequest
    """With the evaluator itself; its dataset is one of the store, or there are `rows`."""
    stored: str | None = None
    """The dataset's file."""
    options: AuditOptions
    rows: list[dict[str, Any]] | None = None
    examples: list[dict[str, Any]] | None = None
    """Worked examples of the evaluator."""


class VerifyJob(Model):
    """Rows of a finished run, run again."""

    folder: str
    """What the run is of, as a run writes it."""
    name: str
    """Of the run, for messages."""
    sample: str


class TriedRow(Model):
    """One row of a dry run, with what is between the row and its result."""

    result: Result
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What the evaluator was given, after mapping, by the parameters' names."""
    returned: Any = None
    """What it returned, before that was made a result. None, too, where it returned nothing."""
    line: int | None = None
    column: int | None = None
    """The place in the script where it raised; both count from 1."""
    left_out: bool = False
    """True if arguments and returned value are not here because they are too large to show."""


class TryReply(Model):
    """The results of a dry run, in the rows' order."""

    results: list[TriedRow]
    sandbox: str
    """Its identity, as results have it."""
    why: str
    """The sandbox, and the reason for it: `no packages declared -> wasm`."""
    seconds: float
    """From the request's arrival in the worker to its last result."""
    problems: list[Problem] = Field(default_factory=list)
    """What a compiler finds in the script, where the sandbox has one and was asked."""


class RunJob(Model):
    """A run of a whole dataset."""

    request: RunRequest
    """With the evaluator itself; its dataset is a path."""
    segments: list[Path] = Field(default_factory=list)
    """The data of whole segments that are there already, in their order: the run goes on after them."""


class RunStarted(Model):
    """The sandbox is open, or none is needed; rows follow."""

    total: int | None = Field(ge=0, le=_NUMBER)
    """The results to come, with those that are there already. None: not known yet."""
    sandbox: str = Field(max_length=_WORDS)
    why: str = Field(max_length=_WORDS)
    notes: list[Annotated[str, Field(max_length=_WORDS)]] = Field(default_factory=list, max_length=_NOTES)
    """About the dataset, for people."""
    lock: str | None = Field(default=None, max_length=MAX_CHARS)
    """The lock of the packages; a run that goes on later needs it in its request."""


class PoolStatus(Model):
    """What goes on, for people and for metrics."""

    workers: int = 0
    """Processes."""
    restarts: int = 0
    """Workers that were lost, and started again."""
    sandboxes: int = 0
    """Open, or being opened."""
    programs: int = 0
    """Loaded."""
    bytes: int = 0
    """Memory of all workers with everything below them, as last measured; 0 where the system does not tell."""
    waiting: int = 0
    """Dry runs and runs that wait."""
    running: int = 0
    """Dry runs and runs under way."""


class RunEnded(Model):
    """The last part of a run."""

    state: Literal["finished", "failed", "parked"]
    """`parked`: the pool was closed; what was scored was handed out, and the run may go on after that."""
    summary: Summary | None
    """Of all results so far; its gates are judged if the run is finished."""
    error: str | None = None
    """Why it failed, in words for people, with the next step."""
    kind: str | None = None
    """Of the error: `dataset`, `sandbox-unavailable` and so on; see `runner.runs.pool.faults`."""


@dataclass(frozen=True)
class RunSegment:
    """Results of a run that follow those before. They are the worker's word: `segments.check` compares its parts."""

    segment: Segment
    asked: str = ""
    """What judges were asked so far, in words."""


RunPart: TypeAlias = RunStarted | RunSegment | RunEnded


class PoolBusyError(Exception):
    """There is no room for another dry run; `retry_after` is in seconds."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"too many dry runs are waiting; try again in {max(1, round(retry_after))} s")


class WorkerLostError(SandboxLostError):
    """The worker process died, or was killed; the same request may be sent again."""

    def __init__(self, why: str, what: str = "a worker of the server was lost") -> None:
        super().__init__(f"{what} ({why}); the request may be sent again")
        self.why = why


class PoolClosedError(SandboxLostError):
    """The pool is closed, or being closed: the server stops."""

    def __init__(self) -> None:
        super().__init__("the server stops; send the request again when it is back")
