"""The runner's words as types: evaluator, case, input mapping, output config, result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from sandboxes.models import Language
from sandboxes.record import Record

Direction = Literal["maximize", "minimize", "none"]
Outcome = Literal["scored", "abstained", "failed", "lost"]
ErrorKind = Literal["mapping", "raised", "timeout", "memory", "output", "crash", "invalid_result", "lost"]
"""`mapping`: the row could not be made into a call. `lost` occurs only with the outcome `lost`."""
JsonType = Literal["string", "number", "integer", "boolean", "array", "object", "null", "any"]
DialectFailures = Literal["failed", "as-zero"]
"""What an exception of a script is that was written for a tool which takes it for the score 0."""

Empty = Literal["text", "null"]
"""What an empty cell of a CSV file is."""
Show = Literal["worst", "scored", "best", "failed", "abstained"]
"""Which rows to show. `scored`: the worst of those with a score."""

Finite = Annotated[float, Field(allow_inf_nan=False)]

_OWN = "overall"
"""The name of a script's own score beside scores that it names."""


class Categorical(Record):
    """A label from a fixed set; the label determines the score, if it has one."""

    kind: Literal["categorical"] = "categorical"
    labels: dict[str, Finite | None] = Field(min_length=1)
    """Each label with its score; null for a label without one."""
    direction: Direction = "maximize"
    threshold: Finite | None = None


class Continuous(Record):
    """A score, within optional bounds; a label is informational."""

    kind: Literal["continuous"] = "continuous"
    lower_bound: Finite | None = None
    upper_bound: Finite | None = None
    direction: Direction = "maximize"
    threshold: Finite | None = None
    """A score equal to the threshold passes, in either direction."""

    @model_validator(mode="after")
    def _ordered(self) -> Continuous:
        low, high = self.lower_bound, self.upper_bound
        if low is not None and high is not None and low >= high:
            raise ValueError(f"lower_bound {low} is not below upper_bound {high}")
        return self


class Freeform(Record):
    """Any label, any finite score."""

    kind: Literal["freeform"] = "freeform"
    direction: Direction = "none"
    threshold: Finite | None = None


OutputConfig = Annotated[Categorical | Continuous | Freeform, Field(discriminator="kind")]


class InputMapping(Record):
    """
    The source of each parameter's value. A literal takes precedence over a path, a path over a name.

    A path is the name of a column, or an RFC 9535 query over the row's `{id, input, output, reference, metadata}`; its
    `$.` may be left out.
    """

    paths: dict[str, str] = Field(default_factory=dict)
    """Parameters, and the column or path that each is read from."""
    literals: dict[str, Any] = Field(default_factory=dict)
    """Parameters, and the value that each has on every row."""


Columns: TypeAlias = InputMapping | Mapping[str, str]
"""A mapping as Python callers give it; a plain one has the column or path of each parameter."""


class ParameterSpec(Record):
    """A header's declaration of one parameter. Without `choices` and bounds, any value of the types is accepted."""

    types: tuple[JsonType, ...] = ("any",)
    """1.0 is an integer too; a boolean is not a number."""
    default: Any = None
    """Used if nothing else gives the parameter a value. None: there is no default."""
    description: str = ""
    choices: tuple[Any, ...] = ()
    minimum: Finite | None = None
    maximum: Finite | None = None
    """The bounds are inclusive, and apply to numbers only."""
    keys: tuple[str, ...] = ()
    """All that an object may have; none: any."""
    values: Literal["number"] | None = None
    """What is in an object, and in objects within it, are numbers within the bounds."""
    some_above: Finite | None = None
    """One of these numbers at least is above this one."""


class Parameter(Record):
    """One parameter of `evaluate`, as parsed."""

    name: str
    positional_only: bool = False
    required: bool = True
    """True if neither the script nor its header has a default."""
    columns: tuple[str, ...] = ()
    """
    Of a script of another tool: the columns that fill it before one of its own name, the first that a row has.

    They are the script's own words, and a mapping may name it by them.
    """
    by_name: bool = True
    """False if its tool gives it no column: only a mapping or a value for all rows does."""
    declared: ParameterSpec | None = None


class Aggregate(Record):
    """A script's function `aggregate(results, …)`, which judges all rows together. docs/how-to/aggregates.md."""

    parameters: tuple[Parameter, ...] = ()
    """Those after `results`: each takes the value that is the same for all rows, by its name."""
    accepts_any: bool = False
    """True if it takes any name."""


class Evaluator(Record):
    """A script that defines `evaluate`, `aggregate` or both, and its header. It has been parsed, not run."""

    name: str
    """The file's name without its suffix, or the template's."""
    source: str
    """The whole script."""
    language: Language = "python"
    parameters: tuple[Parameter, ...]
    accepts_any: bool = False
    """True if any name may be mapped: `evaluate` has `**kwargs`, or takes an open object in TypeScript."""
    evaluates: bool = True
    """False if the script has no `evaluate`: it judges no row alone, and each one abstains."""
    aggregate: Aggregate | None = None
    apart: bool = False
    """True if `evaluate` may ask for calls apart, which get nothing of the row but what it gives them."""
    description: str = ""
    """The script's docstring, or the header's description."""
    requires_python: str | None = None
    """The Python versions that its header asks for, such as `>=3.12`."""
    packages: tuple[str, ...] = ()
    """The packages that its header asks for."""
    hosts: tuple[str, ...] = ()
    """The hosts that its header wishes to ask; who runs it allows them."""
    files: dict[str, str] = Field(default_factory=dict)
    """
    The texts of the files that belong to it, by their paths from the script's folder: `utils/text.py`.

    Modules that it imports from there, and what its header names in `files`. They go wherever it goes.
    """
    beside: dict[str, str] = Field(default_factory=dict)
    """Files of the user's that it imports, by the name of the module, and that are not taken along."""
    outputs: dict[str, OutputConfig] = Field(default_factory=dict)
    """Output configs by name. A single unnamed one has the empty name."""
    mapping: InputMapping = InputMapping()
    """The mapping of its header."""
    dialect: str | None = None
    """The tool that it was written for, if that is not evalcell: `promptfoo`. docs/coming-from.md."""
    entry: str | None = None
    """What is called, if that is not our own `evaluate`: `get_assert`, `Class.method`, `score`."""
    higher_is_better: bool = False
    """True if its tool says of every script that a higher score is better."""
    dialect_failures: DialectFailures = "failed"
    """What its exceptions are: `as-zero` is the score 0, as its own tool has it."""
    asked_dialect: str | None = None
    """The dialect that somebody asked for, or `native`. None: it is the header's, or the one that is seen."""
    asked_entry: str | None = None
    """The entry that somebody asked for. None: it is the header's, or found."""
    version: str
    """
    The first 12 hex digits of the SHA-256 of the source, of its dialect if it has one, and of its files.

    The same script has the same version anywhere.
    """

    @property
    def called(self) -> str:
        """The function whose parameters these are, by its name."""
        return self.entry if self.entry is not None and self.dialect is None else "evaluate"

    @property
    def is_inline(self) -> bool:
        """True if its source is no script: an expression, lines, or a grader that is JSON."""
        return self.entry is not None and self.entry.startswith("<")

    @property
    def is_template(self) -> bool:
        """True if a row's text becomes a part of its code, as in promptfoo's `output == '{{ expected }}'`."""
        return self.entry == "<inline>" and ("{{" in self.source or "{#" in self.source)

    @property
    def configs(self) -> dict[str, OutputConfig]:
        """What its scores are judged by: its output configs, or what the tool says that it was written for."""
        if not self.outputs and self.higher_is_better:
            return {"": Freeform(direction="maximize")}
        return self.outputs


def config_of(configs: Mapping[str, OutputConfig | None], name: str) -> OutputConfig | None:
    """
    Return the config by which an output is judged; None if there is none.

    One without a name is that of the script's own score, which is `overall` beside named ones.
    """
    return configs.get("" if name == _OWN and _OWN not in configs else name)


def bounds_of(config: OutputConfig | None) -> tuple[float, float] | None:
    """Return the lowest and the highest score that an output can have; None where its config does not say both."""
    if isinstance(config, Categorical):
        scores = [score for score in config.labels.values() if score is not None]
        return (min(scores), max(scores)) if scores else None
    if isinstance(config, Continuous) and config.lower_bound is not None and config.upper_bound is not None:
        return config.lower_bound, config.upper_bound
    return None


class Case(Record):
    """One dataset row, or why it could not be read."""

    number: int
    """The row's number, from 1, with broken rows counted."""
    id: str
    where: str
    """File and line (or element) for messages: `data.jsonl:17`."""
    input: Any = None
    output: Any = None
    reference: Any = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    present: frozenset[str] = frozenset()
    """Those of id, input, output, reference and metadata that the row has. A null column is present."""
    unread: tuple[str, ...] = ()
    """Known columns of the row that were not read, because the mapping does not need them."""
    broken: str | None = None
    """Why the row cannot be used. If set, only number, id and where are valid."""


class ResultError(Record):
    """The reason why a row has no score."""

    kind: ErrorKind
    message: str
    """At least one line for people, with the next step if there is one."""


class Score(Record):
    """The label, score and explanation of one output."""

    label: str | None = None
    score: float | None = None
    explanation: str | None = None


class JudgeExchange(Record):
    """What a judge was asked on a row, and what it answered; of long texts the beginning and the end."""

    model: str
    """As the request names it."""
    asked: str
    answered: str
    """What the judge wrote, or why there is no answer."""
    tokens: int | None = None
    """None where the answer does not say."""


class Result(Record):
    """The result of one case. A failure is never a score."""

    id: str
    number: int
    """The row's number in the dataset, from 1."""
    repeat: int = 1
    """Which of the row's results it is, from 1, where a run makes several of each row."""
    evaluator: str
    version: str
    """The evaluator's version."""
    sandbox: str
    """The sandbox and the versions in it: `wasm/python-3.14.0/wasmtime-50.0.1`."""
    given: str | None = None
    """
    A hash of what the evaluator was given: 8 hex digits for its other arguments, then 8 for the output that it scored.

    None for a row that could not be made into a call.
    """
    outcome: Outcome
    label: str | None = None
    score: float | None = None
    explanation: str | None = None
    outputs: dict[str, Score] = Field(default_factory=dict)
    """By output name, if there are several; label, score and explanation above are then those of the first output."""
    error: ResultError | None = None
    """Why there is no score, if the row failed or was lost."""
    stdout: str = ""
    """What the script printed on this row; of much, the end."""
    truncated: bool = False
    """True if it printed more."""
    duration_ms: float = 0.0
    """The time of the call, in milliseconds, without waiting for judges."""
    waiting_ms: float = 0.0
    """The time for which it waited for judges, in milliseconds; of several asked at once, that of the slowest."""
    cached: bool = False
    """True if an earlier run's score was taken from the cache."""
    exchanges: tuple[JudgeExchange, ...] = ()
    """The first 20 that the script had with judges on this row."""
    row: dict[str, Any] = Field(default_factory=dict)
    """The columns of the dataset's row that the request keeps, by the names that it gave."""
