"""What `evalcell.toml` may say. Each key is the option of `evalcell run` of the same name, with `_` for `-`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from runner.core.types import DialectFailures
from runner.engine.row import MOST_REPEATS
from runner.engine.scoring.worst import Show
from runner.inputs.datasets.rows import Empty
from sandboxes.base import Isolation, Model

T = TypeVar("T")
Seconds = Annotated[float, Field(gt=0, le=86_400)]


def _list(value: object) -> object:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _share(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_list)]
"""One text, or several."""
Most = Annotated[str, BeforeValidator(_share)]
"""A number of rows, or a percentage."""


class Settings(Model):
    """How rows are scored and judged. Above all runs: what each of them says, unless it says otherwise."""

    dataset: str | None = None
    """A path, or `demo`."""
    evaluator: str | None = None
    """A script's path, or a template's name."""
    evaluators: Annotated[tuple[str, ...] | dict[str, str] | None, BeforeValidator(_list)] = None
    """Several of them, or a table of names and evaluators."""
    lang: str | None = Field(default=None, pattern="^(py|ts)$")
    """The language of a template that has several: `py` or `ts`."""
    dialect: str | None = None
    """The tool that the script was written for, if it could be several; `FILE.py:NAME` names its function."""
    dialect_failures: DialectFailures | None = None
    """`as-zero`: an exception is the score 0, where its own tool has it so."""
    map: dict[str, str] = Field(default_factory=dict)
    """The column, or path, of each parameter; `NAME.parameter` is for one of several evaluators."""
    set: dict[str, Any] = Field(default_factory=dict)
    """The value of each parameter."""
    id: str | None = None
    """The column with the rows' ids."""
    encoding: str | None = None
    rows: str | None = None
    """The place of the rows in a .json file that is no array."""
    empty: Empty | None = None
    """An empty cell of a CSV file is empty text, or null."""
    json_columns: Texts = ()
    """Columns whose texts are JSON, such as lists in CSV."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Score the first rows only."""
    seed: int | None = None
    repeat: Annotated[int, Field(ge=1, le=MOST_REPEATS)] | None = None
    """The number of results of each row."""
    cache: bool | None = None
    """Take scores from earlier runs, and keep those of this one."""
    sandbox: str | None = None
    on: str | None = None
    """A Ray cluster to run on: `ray`, or `ray://HOST:10001`."""
    timeout: Seconds | None = None
    """Seconds that a call may take."""
    memory: Annotated[int, Field(ge=1, le=1 << 20)] | None = None
    """MB that a call may use."""
    cpus: Seconds | None = None
    """Seconds of the processor that a call may use."""
    disk: Annotated[int, Field(ge=1, le=1 << 16)] | None = None
    """MB that a script's files may hold."""
    preset: Literal["openai-grader"] | None = None
    """The limits of another product, where none of these says otherwise."""
    isolation: Isolation | None = None
    jobs: Annotated[int, Field(ge=1, le=256)] | None = None
    with_: Texts = Field(default=(), alias="with")
    """Packages to install too."""
    with_requirements: Texts = ()
    """Requirements files, whose packages are installed too."""
    lock: str | None = None
    """A file: install exactly the packages of an earlier run."""
    install_timeout: Seconds | None = None
    file: dict[str, str] = Field(default_factory=dict)
    """Files that the script may read, by the variable that has the path."""
    env: Texts = ()
    """Names of variables of the environment that the script may see."""
    env_file: str | None = None
    allow_network: bool = False
    allow_weak_isolation: bool = False
    keep: Texts = ()
    """Columns of the dataset that results carry."""
    worst: Annotated[int, Field(ge=0, le=1000)] | None = None
    show: Show | None = None
    output: Texts = ()
    """Results files, or a folder: `results/`."""
    overwrite: bool = False
    """Whether a run starts anew where its folder has rows of an earlier one."""
    report: Texts = ()
    """Reports: .html, .md, .xml, .codequality.json."""
    require: Texts = ()
    """What must be true, such as `mean>=0.8`."""
    fail_if: Texts = ()
    """What must not be true."""
    max_failed: Most | None = None
    """Rows that may fail: a number, or a percentage of all."""
    max_abstained: Most | None = None
    aggregate_timeout: Seconds | None = None
    baseline: str | None = None
    """A results file, or a run's folder, to compare with; of several evaluators the folder that has theirs."""
    fail_if_worse: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """By how much the mean may be worse than the baseline's."""
    allow_inconclusive: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Settings:
        if self.evaluator is not None and self.evaluators is not None:
            raise ValueError("give `evaluator` for one or `evaluators` for several, not both")
        return self

    def over(self, above: Settings) -> Settings:
        """These settings, and those above where these say nothing. The tables `map`, `set` and `file` are joined."""
        mine, theirs = ({name: getattr(one, name) for name in one.model_fields_set} for one in (self, above))
        if "evaluator" in mine or "evaluators" in mine:
            theirs = {name: value for name, value in theirs.items() if name not in ("evaluator", "evaluators")}
        theirs = {name: value for name, value in theirs.items() if name not in ("run", "datasets")}
        joined: dict[str, Any] = {
            name: {**theirs[name], **mine[name]} for name in ("map", "set", "file") if name in mine and name in theirs
        }
        return Settings.model_construct(**{**theirs, **mine, **joined})


class Columns(Model):
    """What a dataset calls what evaluators take: the column, or path, of each."""

    output: str | None = None
    reference: str | None = None
    input: str | None = None
    metadata: str | None = None
    context: str | None = None

    def named(self) -> dict[str, str]:
        """Those that are there, by their roles."""
        return {name: getattr(self, name) for name in self.model_fields_set if getattr(self, name) is not None}


class NamedDataset(Model):
    """A dataset that runs call by its name, and how its columns are to be taken."""

    path: str
    """A path, or `demo`."""
    columns: Columns = Columns()
    """Its columns by their roles, for each evaluator; a run's `map` takes precedence."""


class Project(Settings):
    """The whole file. Its keys are for all runs; a table `[run.NAME]` for each run has its own."""

    datasets: dict[str, NamedDataset] = Field(default_factory=dict)
    """Datasets by the names that `dataset` may give them."""
    run: dict[str, Settings] = Field(default_factory=dict)
    """The runs, by name. Without any, the file is one run, called `default`."""

    def entries(self) -> dict[str, Settings]:
        """Each run with what it takes over."""
        runs = self.run or {"default": Settings()}
        return {name: one.over(self) for name, one in runs.items()}

    def path_of(self, dataset: str | None) -> str:
        """The path of the dataset that a run names."""
        return self.datasets[dataset].path if dataset in self.datasets else dataset or ""

    def columns_of(self, dataset: str | None) -> dict[str, str]:
        """Its columns by their roles."""
        return self.datasets[dataset].columns.named() if dataset in self.datasets else {}
