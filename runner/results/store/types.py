"""What the store holds, as data. Replies over HTTP are these models too. Imports no database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, Unpack, cast

from pydantic import AwareDatetime, Field, SerializeAsAny, field_serializer

from runner.core.settings import FileSettings, RunSettings
from runner.core.types import DialectFailures, ErrorKind, Evaluator, Finite, InputMapping, Outcome
from runner.engine.scoring.summary import Summary
from runner.inputs.evaluators.entrypoint import NATIVE
from runner.inputs.evaluators.load import HowRead, parse_evaluator
from sandboxes.base import Language, Model, SandboxConfig

RunState = Literal["queued", "running", "finished", "failed", "cancelled", "parked"]
"""`parked`: the server stopped; the run goes on by itself when it starts again."""
OVER: tuple[RunState, ...] = ("finished", "failed", "cancelled")
"""States in which nothing more comes, unless somebody lets the run go on."""
GOING: tuple[RunState, ...] = ("queued", "running")
"""States of a run that somebody does, or will do at once."""
ACTIVE: tuple[RunState, ...] = (*GOING, "parked")
"""States of a run that is not over."""
Owner = Literal["server", "cli"]
Order = Literal["row", "worst", "best", "lowest", "highest"]
T = TypeVar("T")

MOST_COUNT = 1000
"""Items of a page."""
MOST_DEEP = 1_000_000
"""The last row that a page may begin with."""


class Page(Model, Generic[T]):
    """Some items of a list. `next` is the cursor of those after them, None at the end; it is opaque."""

    items: tuple[T, ...] = ()
    next: str | None = None


class EvaluatorInfo(Model):
    """An evaluator's name, and its newest version."""

    name: str
    number: int
    version: str
    language: Language
    description: str = ""
    created: AwareDatetime
    """The time of the first version."""
    saved: AwareDatetime
    """The time of the newest version."""


class EvaluatorVersion(Model):
    """One version of an evaluator. It never changes."""

    name: str
    number: int
    """From 1, in the order in which they were saved."""
    version: str
    """The first 12 hex digits of a SHA-256 of its source and files."""
    language: Language
    created: AwareDatetime
    source: str
    description: str = ""
    dialect: str | None = None
    """The tool that it was written for, if that is not evalcell."""
    entry: str | None = None
    """What is called in a script of another tool."""
    dialect_failures: DialectFailures = "failed"
    asked_dialect: str | None = None
    """The dialect that somebody asked for, or `native`. None: it is the header's, or was seen."""
    asked_entry: str | None = None
    """The entry that somebody asked for. None: it is the header's, or was found."""
    files: dict[str, str] = Field(default_factory=dict)
    """The texts of the files that belong to it, by their paths from the script's folder."""

    @property
    def how_read(self) -> HowRead:
        """How it was read when it was saved, by which it is read again."""
        dialect = self.dialect or (self.asked_dialect if self.entry is None else NATIVE)
        return HowRead(dialect=dialect, entry=self.entry, failures=self.dialect_failures)

    @property
    def reference(self) -> str:
        """How it is asked for: `polite@3`."""
        return f"{self.name}@{self.number}"

    def evaluator(self, **how: Unpack[HowRead]) -> Evaluator:
        """
        Return the script, parsed; `how` is said anew.

        Raises:
            EvaluatorError: Where this evalcell no longer takes it.
        """
        said = {name: value for name, value in how.items() if value not in (None, "failed")}
        read = cast("HowRead", said or self.how_read)
        return parse_evaluator(self.source, self.name, self.reference, language=self.language, files=self.files, **read)


class DatasetInfo(Model):
    """A dataset: a file by its content."""

    name: str
    digest: str
    """SHA-256 of the file, in hex."""
    suffix: str
    """It tells the format: `.jsonl`, `.csv.gz`."""
    bytes: int
    rows: int | None = None
    """None where nobody counted them."""
    columns: tuple[str, ...] = ()
    created: AwareDatetime
    notes: tuple[str, ...] = ()
    """How the file is read, where that is not as its name says. Told when it is added."""


class KeptMapping(Model):
    """How a dataset's columns fill the parameters of an evaluator, or the roles of all."""

    mapping: InputMapping = InputMapping()
    id_column: str = Field(default="", max_length=1000)
    """The column with the rows' ids; empty: `id`."""


class Preset(Model):
    """A sandbox config with a name."""

    name: str
    config: SerializeAsAny[SandboxConfig]
    created: AwareDatetime

    @field_serializer("config")
    def _as_set(self, config: SandboxConfig) -> dict[str, Any]:
        # If no backend was set, one is chosen.
        return config.model_dump(mode="json", exclude_unset=True)


class RunSpec(RunSettings):
    """What is run. When it is stored, its evaluator is an exact version, its sandbox a config, its baseline a run."""

    evaluator: str
    """`name`, `name@3` or `name@` and the beginning of the version's hash."""
    dataset: str
    """A dataset's name, or its digest."""
    sandbox: str | SandboxConfig | None = None
    """A preset's name, or a config. None: one is chosen by the evaluator."""
    title: str = Field(default="", max_length=200)

    @field_serializer("sandbox")
    def _as_set(self, config: str | SandboxConfig | None) -> object:
        return config.model_dump(mode="json", exclude_unset=True) if isinstance(config, SandboxConfig) else config


class StoredSpec(RunSpec, FileSettings):
    """What was run, and how its file was read: that of a command may be no UTF-8, or hold its rows at a place."""


class RunInfo(Model):
    """One run: what it is of, and how far it is."""

    id: str
    """Sorts by the time of its beginning."""
    title: str = ""
    evaluator: str
    number: int | None = None
    """The version's number. None of a run from a folder."""
    version: str
    """The version's hash."""
    dataset: str
    digest: str | None = None
    """The dataset's. None where it could not be read a second time, as standard input."""
    sandbox: str = ""
    """The sandbox and the versions in it, once it is open."""
    why: str = ""
    """The reason for the sandbox."""
    state: RunState
    created: AwareDatetime
    started: AwareDatetime | None = None
    ended: AwareDatetime | None = None
    total: int | None = None
    """Results to come. None: not known."""
    rows: int = 0
    """Results that are stored."""
    counts: dict[Outcome, int] = Field(default_factory=dict)
    mean: float | None = None
    """Of the scores so far, of the first output. None without one, or where no float holds their sum."""
    summary: Summary | None = None
    error: str | None = None
    """What it failed with."""
    command: str = ""
    """The same on the command line."""
    bytes: int = 0
    """What its results take on the disk."""
    owner: Owner = "server"
    """Who runs it: only its own runs does the server go on with."""
    source: Literal["store", "folder"] = "store"

    @property
    def stopped(self) -> bool:
        """True if it stopped as its gates were sure, and has not all rows."""
        return self.summary is not None and self.summary.stop is not None and self.summary.stop.sure

    @property
    def name(self) -> str:
        """What people know the run by."""
        return self.title or (f"{self.evaluator}@{self.number}" if self.number else self.evaluator)


class SegmentInfo(Model):
    """A part of a run's results, in a file that never changes."""

    first: int
    """The number of its first result in the run, from 1."""
    rows: int
    digest: str
    bytes: int
    path: Path
    """JSON lines, as in results.jsonl of a results folder."""


class Selection(Model):
    """Which results of a run, in which order. All that is given must hold."""

    order: Order = "row"
    """
    `worst` and `best` by the first output's direction, `lowest` and `highest` by the score alone; those that abstained
    come after others.
    """
    outcome: Outcome | None = None
    label: Annotated[str, Field(max_length=1000)] | None = None
    error: ErrorKind | None = None
    low: Finite | None = None
    """The least score, and `high` the greatest."""
    high: Finite | None = None
    search: Annotated[str, Field(max_length=200)] = ""
    """Text that stands in the result or in the columns that it carries; upper and lower case are the same."""
    by: Annotated[str, Field(max_length=200)] = ""
    """A column that results carry; `group` is one of its values, as the figures by that column name it."""
    group: Annotated[str, Field(max_length=200)] | None = None
    first: int = Field(default=0, ge=0, le=MOST_DEEP)
    """Matching results to leave out before the first."""
    count: int = Field(default=50, ge=0, le=MOST_COUNT)

    @property
    def reads_rows(self) -> bool:
        """Whether the index does not tell which rows match."""
        return bool(self.search or (self.by and self.group is not None))


class ResultSelection(Model):
    """The results that match, and one page of them."""

    total: int
    """Of all that match."""
    rows: tuple[dict[str, Any], ...] = ()
    """
    Each as a row of results.jsonl, with its `number` in the run before it.

    Fewer than asked for where they would be larger than 16 MB together; at least one.
    """
    complete: bool = True
    """False if a search ended before the last row: it reads no more than 1 GB."""


class PruneReport(Model):
    """What was deleted."""

    runs: tuple[str, ...] = ()
    bytes: int = 0
    """What the disk got back."""


class Usage(Model):
    """What the store holds."""

    evaluators: int
    versions: int
    datasets: int
    runs: int
    bytes: int
    """Of all files; the database comes on top."""
    limit: int
    """The most that they may take."""


class IdempotentReply(Model):
    """The reply to a request with an idempotency key; `digest` is that of the request."""

    digest: str
    reply: str
