"""
A run's settings, each declared once: its field (type, default, bounds) and its entry in `SETTINGS`.

All entry points are made of these: options of the command line, keys of evalcell.toml, parameters of Python and of the
client, fields of HTTP, arguments of MCP, and the page's form. `ENTRY_POINTS` says which entry point lacks one, and why.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args, get_origin, get_type_hints

from pydantic import Field, PlainValidator, field_validator

from runner.core.types import Columns, DialectFailures, Empty, Finite, InputMapping, Show
from sandboxes.models import MB, Language, Limits, SandboxConfig
from sandboxes.record import Record

WORST = 5
"""Rows that are shown if nobody says how many."""


def as_texts(value: object) -> object:
    """Return a tuple of one text, or of a list of them."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _as_path(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


Name = Annotated[str, PlainValidator(_name)]
"""A name or a path; a path need not be valid UTF-8."""


class CellSettings(Record):
    """How the cells of a dataset are read."""

    empty: Empty = "text"
    json_columns: tuple[str, ...] = ()
    csv_separator: str | None = None

    @field_validator("csv_separator")
    @classmethod
    def _separator(cls, value: str | None) -> str | None:
        value = "\t" if value in ("tab", "\\t") else value
        if value is not None and (len(value) != 1 or value in '"\r\n' or ord(value) > 127):
            raise ValueError("must be one character of ASCII, such as ; or |, or `tab`")
        return value

    _texts = field_validator("json_columns", mode="before")(as_texts)


class FileSettings(CellSettings):
    """How the file of a dataset is read."""

    encoding: str | None = None
    rows: str | None = None


class JudgeSettings(Record):
    """What scripts may ask of judges, as people write it."""

    judge: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    budget: str | None = None
    judge_price: tuple[str, ...] = ()
    in_flight: int = Field(default=16, ge=1, le=256)
    judge_timeout: float = Field(default=120.0, gt=0, le=86_400)
    record: Name | None = None
    replay: Name | None = None

    _several = field_validator("judge", "allow_host", "secret", "judge_price", mode="before")(as_texts)
    _path = field_validator("record", "replay", mode="before")(_as_path)


class RunSettings(CellSettings):
    """How rows are scored and judged, wherever that is."""

    limits: Limits = Limits()
    mapping: InputMapping = InputMapping()
    seed: int | None = None
    repeat: int = Field(default=1, ge=1, le=1000)
    cache: bool = False
    limit: int | None = Field(default=None, ge=1, le=10**15)
    id: str | None = None
    keep: tuple[str, ...] = ()
    by: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    require: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    max_failed: str | None = None
    max_abstained: str | None = None
    baseline: Name | None = None
    fail_if_worse: Finite | None = Field(default=None, ge=0)
    allow_inconclusive: bool = False
    stop_when_sure: bool = False
    aggregate_timeout: float = Field(default=60.0, gt=0, le=86_400)

    @field_validator("max_failed", "max_abstained", mode="before")
    @classmethod
    def _count(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    _path = field_validator("baseline", mode="before")(_as_path)
    _several = field_validator("keep", "require", "gates", mode="before")(as_texts)


class LocalSettings(RunSettings, FileSettings):
    """The same of a run on this machine, whose script and dataset are files."""

    language: Language | None = None
    dialect: str | None = None
    entry: str | None = None
    dialect_failures: DialectFailures = "failed"
    sandbox: SandboxConfig = SandboxConfig()
    judges: JudgeSettings = JudgeSettings()
    on: str | None = None
    decimal_comma: bool = False
    worst: int = Field(default=WORST, ge=0, le=1000)
    show: Show = "worst"


class CommandSettings(Record):
    """Settings that a request has no field for: they become others, or say where results go."""

    inline: str | None = None
    preset: Literal["openai-grader"] | None = None
    with_requirements: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    report: tuple[str, ...] = ()
    save: bool = False
    resume: bool = False
    overwrite: bool = False


class CallOptions(TypedDict, total=False):
    """Parameters of Python: how a script is called."""

    mapping: Columns | None
    limits: Limits | None
    seed: int | None


class DialectOptions(TypedDict, total=False):
    """How a script is read."""

    language: Language | None
    dialect: str | None
    entry: str | None
    dialect_failures: DialectFailures


class ScriptOptions(CallOptions, DialectOptions, total=False):
    """Both."""


class ColumnOptions(TypedDict, total=False):
    """Which columns there are."""

    id: str | None
    json_columns: str | Sequence[str]


class CellOptions(ColumnOptions, total=False):
    """How rows are read, and how many."""

    limit: int | None
    empty: Empty
    csv_separator: str | None


class FileOptions(TypedDict, total=False):
    """How the file of a dataset is read."""

    encoding: str | None
    rows: str | None


class PlaceOptions(TypedDict, total=False):
    """Where a script runs."""

    sandbox: str | SandboxConfig | None


class JudgeOptions(TypedDict, total=False):
    """What it may ask of judges."""

    judges: JudgeSettings | None


class ClusterOptions(TypedDict, total=False):
    """On which machines."""

    on: str | None


class KeepOptions(TypedDict, total=False):
    """What results carry."""

    keep: str | Sequence[str]


class ScoreOptions(TypedDict, total=False):
    """How often a row is scored."""

    repeat: int
    cache: bool


class StopOptions(TypedDict, total=False):
    """When there are rows enough."""

    require: str | Sequence[str]
    gates: str | Sequence[str]
    max_failed: int | str | None
    max_abstained: int | str | None
    baseline: str | os.PathLike[str] | None
    fail_if_worse: float | None
    stop_when_sure: bool


class GateOptions(StopOptions, total=False):
    """What a run is judged by."""

    allow_inconclusive: bool
    aggregate_timeout: float


class GroupOptions(TypedDict, total=False):
    """What there are figures by."""

    by: str | None


class TableOptions(TypedDict, total=False):
    """How results files are written."""

    decimal_comma: bool


class ShowOptions(TypedDict, total=False):
    """What is shown of a run."""

    worst: int
    show: Show


class ExampleOptions(ScriptOptions, PlaceOptions, JudgeOptions, total=False):
    """The parameters of `check_examples`."""


class ParityOptions(ScriptOptions, CellOptions, FileOptions, total=False):
    """Those of `parity`."""


class AuditedOptions(ParityOptions, PlaceOptions, JudgeOptions, total=False):
    """Those of `audit`."""


class ComparedOptions(ParityOptions, PlaceOptions, total=False):
    """Those of `compare_datasets`."""


class WarmOptions(ScriptOptions, ColumnOptions, PlaceOptions, ClusterOptions, KeepOptions, total=False):
    """Those of what scores rows one by one."""


class RowOptions(ComparedOptions, JudgeOptions, ClusterOptions, KeepOptions, ScoreOptions, total=False):
    """Those of what scores the rows of a dataset."""


class StreamOptions(RowOptions, StopOptions, total=False):
    """Those of `stream`."""


class RunOptions(RowOptions, GateOptions, ShowOptions, GroupOptions, TableOptions, total=False):
    """Those of `evaluate`."""


class ServerOptions(
    CallOptions, CellOptions, PlaceOptions, KeepOptions, ScoreOptions, GateOptions, GroupOptions, total=False
):
    """Those of a run on a server."""


class ClientOptions(ServerOptions, DialectOptions, FileOptions, ShowOptions, total=False):
    """Those of `Client.evaluate`."""


class ClientAuditOptions(CallOptions, DialectOptions, FileOptions, PlaceOptions, total=False):
    """Those of `Client.audit`."""


Kind = Literal[
    "script",
    "mapping",
    "limits",
    "packages",
    "judges",
    "place",
    "file",
    "csv",
    "rows",
    "scores",
    "results",
    "gates",
    "output",
]
"""What a setting is about: an entry point takes, or lacks, most of a kind together."""
ROWS, SANDBOX, PACKAGES, ALLOWED = "Rows", "Sandbox", "Packages", "What the script may use"
RESULTS, COMPARED, JUDGES = "Results", "Comparison", "Judges"


class SettingSpec(NamedTuple):
    """What is said of a setting beside its field. Its name is the option's, and the key of evalcell.toml."""

    kind: Kind
    help: str
    """A sentence for the command line, and for all others where there is no `about`."""
    metavar: str | None = None
    about: str = ""
    heading: str = ""
    """In the help, if not that of its kind."""
    field: str = ""
    """Where a request has it, if not by its own name: `limits.memory`."""
    unit: int = 1
    """What one of it is in the field."""
    words: tuple[str, ...] = ()
    """Values of the command line, if not those of the field."""
    short: str = ""
    bare: float | None = None
    """The value of an option that is given without one."""
    common: bool = False
    """Whether it is one of those that people use: a long help shows these, and `--help-all` the others."""


HEADINGS: dict[Kind, str] = {
    **dict.fromkeys(("script", "mapping", "file", "csv", "rows", "scores"), ROWS),
    **dict.fromkeys(("limits", "place"), SANDBOX),
    **dict.fromkeys(("results", "output", "gates"), RESULTS),
    "packages": ALLOWED,
    "judges": JUDGES,
}
SETTINGS: dict[str, SettingSpec] = {
    "lang": SettingSpec(
        "script", "The language of a template that has several.", field="language", words=("py", "ts", "js")
    ),
    "map": SettingSpec(
        "mapping",
        "The column, or path, of the output, the reference or another parameter: output=prediction, a=$.output.x.",
        "NAME=COLUMN",
        "The column, or path, of the output, the reference, the input or another parameter; `NAME.parameter` is "
        "for one of several evaluators.",
        field="mapping.paths",
        common=True,
    ),
    "set": SettingSpec(
        "mapping",
        "Give a parameter a value: limit=3.",
        "NAME=JSON",
        "The value of each parameter.",
        field="mapping.literals",
        common=True,
    ),
    "dialect": SettingSpec(
        "script",
        "The tool that the script was written for: promptfoo, langsmith, …",
        "NAME",
        "The tool that the script was written for, if it could be several: `promptfoo`, or `native`.",
    ),
    "entry": SettingSpec("script", "What is called in a script of another tool; `FILE.py:NAME` says it as well."),
    "inline": SettingSpec("script", "Code of promptfoo's config, or of --dialect, in place of a script.", "CODE"),
    "dialect_failures": SettingSpec(
        "script", "An exception of a promptfoo assertion fails the row, or is the score 0, as promptfoo has it."
    ),
    "encoding": SettingSpec("file", "The encoding of the dataset: cp1252.  [default: UTF-8]", "NAME"),
    "rows": SettingSpec("file", "The place of the rows in a .json file that is no array: data, data[*].x.", "PATH"),
    "empty": SettingSpec("csv", "An empty cell of a CSV file is empty text, or null."),
    "json_columns": SettingSpec("rows", "The texts of this column are JSON, such as lists in CSV.", "COLUMN"),
    "csv_separator": SettingSpec(
        "csv",
        "What stands between the columns of a CSV file: ';', '|' or tab; a dataset's, and that of results.  "
        "[default: what fits a dataset's first rows; a comma in results]",
        "CHAR",
    ),
    "id": SettingSpec("rows", "The column with the rows' ids.  [default: id]", "COLUMN", common=True),
    "limit": SettingSpec("rows", "Score the first N rows only.", "N", common=True),
    "seed": SettingSpec("scores", "Make the script's random numbers repeat.", "N"),
    "repeat": SettingSpec("scores", "Score each row K times.", "K"),
    "sandbox": SettingSpec(
        "place", "Where the script runs.  [default: what fits it]", "NAME", field="sandbox.backend", common=True
    ),
    "timeout": SettingSpec("limits", "Seconds a call may take.", "S", field="limits.timeout", common=True),
    "memory": SettingSpec("limits", "Memory a call may use.", "MB", field="limits.memory", unit=MB),
    "cpus": SettingSpec(
        "limits", "Seconds of the processor a call may use, on all cores together.", "S", field="limits.cpu"
    ),
    "disk": SettingSpec(
        "packages",
        "What a script's files may hold.  [default: 64, where it can write any]",
        "MB",
        heading=SANDBOX,
        field="sandbox.disk",
        unit=MB,
    ),
    "preset": SettingSpec(
        "limits", "The limits of OpenAI's graders: 2 minutes, 2 GB of memory, 1 GB of disk, no network."
    ),
    "isolation": SettingSpec("packages", "What gets a fresh state.", heading=SANDBOX, field="sandbox.isolation"),
    "jobs": SettingSpec(
        "packages",
        "Parallel workers.  [default: the number of CPU cores]",
        "N",
        heading=SANDBOX,
        field="sandbox.jobs",
        short="-j",
    ),
    "on": SettingSpec(
        "place",
        "Run it on a Ray cluster: `ray`, the one of RAY_ADDRESS or of this machine, or ray://HOST:10001.",
        "CLUSTER",
    ),
    "with": SettingSpec(
        "packages",
        "Install this too, as in scikit-learn>=1.5.",
        "PKG",
        heading=PACKAGES,
        field="sandbox.packages",
        common=True,
    ),
    "with_requirements": SettingSpec(
        "packages", "Install what this requirements file lists.", "FILE", heading=PACKAGES
    ),
    "lock": SettingSpec(
        "packages", "Install exactly the packages of an earlier run.", "FILE", heading=PACKAGES, field="sandbox.lock"
    ),
    "install_timeout": SettingSpec(
        "packages", "Seconds to install them, or send files.", "S", heading=PACKAGES, field="sandbox.install_timeout"
    ),
    "file": SettingSpec(
        "packages", "A file or folder to read; os.environ[NAME] is its path.", "NAME=PATH", field="sandbox.files"
    ),
    "env": SettingSpec("packages", "A variable of your environment.", "NAME", field="sandbox.env"),
    "env_file": SettingSpec(
        "packages", "Read variables, and providers' keys, from FILE first.", "FILE", field="sandbox.env_file"
    ),
    "engine": SettingSpec(
        "packages",
        "The engine of containers.  [default: the first that answers]",
        heading=SANDBOX,
        field="sandbox.engine",
    ),
    "image": SettingSpec(
        "packages",
        "The image of containers, with Python.  [default: python:3.N-slim, of this version]",
        "NAME",
        heading=SANDBOX,
        field="sandbox.image",
    ),
    "runtime": SettingSpec(
        "packages", "The engine's OCI runtime, as runsc.", "NAME", heading=SANDBOX, field="sandbox.runtime"
    ),
    "allow_network": SettingSpec("packages", "Let it use the network.", field="sandbox.network"),
    "allow_weak_isolation": SettingSpec(
        "packages", "Run even where your files cannot be hidden.", field="sandbox.allow_weak_isolation"
    ),
    "judge": SettingSpec(
        "judges",
        "A model that the script may ask, its key kept outside: openai, anthropic, openrouter, grader=openai/MODEL, "
        "or a URL such as http://127.0.0.1:8000/v1.",
        "[ROLE=]JUDGE",
        field="judges.judge",
    ),
    "allow_host": SettingSpec(
        "judges",
        "Another host that the script may ask over HTTP; os.environ[NAME_URL] is where, as API_EXAMPLE_COM_URL.",
        "HOST",
        field="judges.allow_host",
    ),
    "secret": SettingSpec(
        "judges",
        "A variable of yours that this host is sent as a key, and the script never sees.",
        "NAME@HOST",
        field="judges.secret",
    ),
    "budget": SettingSpec(
        "judges",
        "The most that judges are asked in all: requests=500,tokens=2M,usd=5.",
        "LIMITS",
        field="judges.budget",
    ),
    "judge_price": SettingSpec(
        "judges",
        "What a model costs, in US dollars for a million tokens asked and answered: gpt-5-mini=0.25/2.",
        "MODEL=IN/OUT",
        field="judges.judge_price",
    ),
    "in_flight": SettingSpec("judges", "Requests to judges at once.", "N", field="judges.in_flight"),
    "judge_timeout": SettingSpec(
        "judges",
        "Seconds of a judge's answer with all tries, apart from the script's --timeout.",
        "S",
        "Seconds of a judge's answer with all tries, apart from the script's timeout.",
        field="judges.judge_timeout",
    ),
    "record": SettingSpec("judges", "Write each exchange with judges here.", "FILE", field="judges.record"),
    "replay": SettingSpec(
        "judges",
        "Take judges' answers from an earlier --record; nothing is sent.",
        "FILE",
        "Take judges' answers from an earlier record; nothing is sent, unless `record` names the same file.",
        field="judges.replay",
    ),
    "worst": SettingSpec("results", "Show the N worst rows.", "N"),
    "show": SettingSpec("results", "Show these rows instead of the worst."),
    "keep": SettingSpec(
        "results", "Carry this column of the dataset, or `all`, into the results.", "COLUMN", common=True
    ),
    "by": SettingSpec(
        "results",
        "Figures also by the values of this column.",
        "COLUMN",
        "A column of the dataset, for whose values there are figures of their own; results carry it.",
    ),
    "output": SettingSpec("output", "Write each row here; FOLDER/ for all.", "FILE", short="-o", common=True),
    "decimal_comma": SettingSpec(
        "output", "Write 0,5 in results that are CSV, and ; between columns, as spreadsheets of many countries read it."
    ),
    "report": SettingSpec(
        "output", "Write a report: .html, .md, .xml (JUnit) or .codequality.json (GitLab).", "FILE", common=True
    ),
    "save": SettingSpec("output", "Keep the run in the store: `evalcell runs` lists it."),
    "resume": SettingSpec("output", "Go on with the run in -o FOLDER/ after its last whole row."),
    "overwrite": SettingSpec("output", "Start anew though -o FOLDER/ has rows of an earlier run."),
    "require": SettingSpec(
        "gates",
        "Exit with 1 unless it is true: 'mean>=0.9'.",
        "GATE",
        "What must be true, or the run fails: `mean>=0.8`.",
        common=True,
    ),
    "fail_if": SettingSpec(
        "gates",
        "Exit with 1 if it is true: 'mean<0.9'.",
        "GATE",
        "What must not be true: `mean<0.8` fails the run.",
        field="gates",
    ),
    "max_failed": SettingSpec(
        "gates",
        "Exit with 1 if more rows fail or are lost. Without it, gates on scores allow none.",
        "N|P%",
        "Rows that may fail or be lost: a number, or a share, `5%`. Without it, gates on scores allow none.",
        common=True,
    ),
    "max_abstained": SettingSpec(
        "gates", "Exit with 1 if more rows abstain.", "N|P%", "Rows that may abstain, as `max_failed`."
    ),
    "aggregate_timeout": SettingSpec("gates", "Seconds the script's `aggregate` may take.", "S"),
    "baseline": SettingSpec(
        "gates",
        "Compare with this run: a results file, a run's folder, or a run of the store: its id, or `latest`.",
        "RUN",
        "A results file, a run's folder, or the id of a run that is kept; of several evaluators the folder of theirs.",
        heading=COMPARED,
        common=True,
    ),
    "fail_if_worse": SettingSpec(
        "gates",
        "Exit with 1 if it is worse, by more than D; with 3 without enough evidence.",
        "[D]",
        "Fails the run if its mean is worse than the baseline's by more than this.",
        heading=COMPARED,
        bare=0.0,
        common=True,
    ),
    "allow_inconclusive": SettingSpec(
        "gates",
        "Exit with 0 without enough evidence, too.",
        about="Without enough evidence for `fail_if_worse`, too, the run passes.",
        heading=COMPARED,
    ),
    "stop_when_sure": SettingSpec(
        "gates",
        "Score rows in random order, and stop as soon as the gates are sure, at a risk of 5%.",
    ),
    "cache": SettingSpec("scores", "Take scores from earlier runs, and keep those of this one.", heading=RESULTS),
}
"""In the order in which the help of `evalcell run` has them."""

PARTS = {
    "mapping": "Which column, or path, is the output, the reference, the input or another parameter, over the script's "
    'own mapping: `{"output": "prediction"}`. An `InputMapping` has values as well.',
    "limits": "The limits of a call, such as `Limits(timeout=2)`.",
    "sandbox": "A backend's name, or a `SandboxConfig`, whose packages are added to the script's own. Without a "
    "backend, the one that fits is chosen.",
    "judges": 'What the script may ask of models or other hosts: `JudgeSettings(judge="openai")`. Keys stay outside.',
}
"""Of parameters that have several settings in them."""


class Value(NamedTuple):
    """What a setting's field holds."""

    type: Any
    """Of one: int, float, bool, str; `dict` for pairs."""
    many: bool
    choices: tuple[str, ...]
    default: Any
    bounds: Mapping[str, Any]
    annotation: Any
    """The whole type, with its bounds."""


_HOLDERS: tuple[tuple[str, type[Record]], ...] = (
    ("", LocalSettings),
    ("", CommandSettings),
    ("limits", Limits),
    ("sandbox", SandboxConfig),
    ("mapping", InputMapping),
    ("judges", JudgeSettings),
)


@cache
def _hints(holder: type[Record]) -> dict[str, Any]:
    return get_type_hints(holder, include_extras=True)


@cache
def value_of(name: str) -> Value:
    """Return what the field of a setting holds."""
    part, _, field = (SETTINGS[name].field or name).rpartition(".")
    holder = next(kind for path, kind in _HOLDERS if path == part and field in kind.model_fields)
    options, annotation = holder.model_fields[field], _hints(holder)[field]
    bare = _bare(annotation)
    choices = get_args(bare) if get_origin(bare) is Literal else ()
    many = get_origin(bare) is tuple
    kind = str if many or choices else dict if get_origin(bare) is dict else bare
    default = {} if options.default_factory is not None else options.default
    bounds = {name: bound for mark in options.metadata for name, bound in asdict(mark).items()}
    return Value(kind, many, choices, default, bounds, annotation)


def _bare(annotation: Any) -> Any:
    """The type without None and marks."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    others = [one for one in get_args(annotation) if one is not type(None)]
    union = get_origin(annotation) not in (Literal, tuple, dict) and others
    return _bare(others[0]) if union else annotation


def parameter(name: str) -> str:
    """Return the field of a request that has the setting, itself or in it: a parameter of Python, a field of HTTP."""
    return (SETTINGS[name].field or name).partition(".")[0]


def nest_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their own names as fields of a request: `memory=2` is `limits={"memory": 2 MB}`."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        part, _, field = (SETTINGS[name].field or name).rpartition(".")
        holder = fields.setdefault(part, {}) if part else fields
        unit = SETTINGS[name].unit
        holder[field] = value if unit == 1 else value * unit
    return fields
