"""The runner's words as types: evaluator, case, input mapping, output config, result."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation, model_validator

from sandboxes.base import Language, Model

Direction = Literal["maximize", "minimize", "none"]
Outcome = Literal["scored", "abstained", "failed", "lost"]
ErrorKind = Literal["mapping", "raised", "timeout", "memory", "output", "crash", "invalid_result", "lost"]
"""`mapping`: no call could be made of the row; `lost` stands with the outcome `lost` alone."""
JsonType = Literal["string", "number", "integer", "boolean", "array", "object", "null", "any"]


Finite = Annotated[float, Field(allow_inf_nan=False)]


class Categorical(Model):
    """A label out of a fixed set; the score, if any, follows from the label."""

    kind: Literal["categorical"] = "categorical"
    labels: dict[str, Finite | None] = Field(min_length=1)
    direction: Direction = "maximize"
    threshold: Finite | None = None


class Continuous(Model):
    """A score, within bounds where there are any; a label is informational."""

    kind: Literal["continuous"] = "continuous"
    lower_bound: Finite | None = None
    upper_bound: Finite | None = None
    direction: Direction = "maximize"
    threshold: Finite | None = None
    """At the threshold counts as passed, in either direction."""

    @model_validator(mode="after")
    def _ordered(self) -> Continuous:
        low, high = self.lower_bound, self.upper_bound
        if low is not None and high is not None and low >= high:
            raise ValueError(f"lower_bound {low} is not below upper_bound {high}")
        return self


class Freeform(Model):
    """Any label, any finite score."""

    kind: Literal["freeform"] = "freeform"
    direction: Direction = "none"
    threshold: Finite | None = None


OutputConfig = Annotated[Categorical | Continuous | Freeform, Field(discriminator="kind")]


class InputMapping(Model):
    """
    Where each parameter's value comes from. A literal beats a path, a path beats a name.

    `paths` are RFC 9535 queries over those of `{id, input, output, reference, metadata}` that the row has, the leading
    `$.` optional.
    """

    paths: dict[str, str] = Field(default_factory=dict)
    literals: dict[str, Any] = Field(default_factory=dict)


class Declared(Model):
    """What a header declares of one parameter. Without `choices` and bounds, any value of the types will do."""

    types: tuple[JsonType, ...] = ("any",)
    """1.0 is an integer too; a boolean is no number."""
    default: Any = None
    """Fills the parameter where nothing else does. None: there is none."""
    description: str = ""
    choices: tuple[Any, ...] = ()
    minimum: Finite | None = None
    maximum: Finite | None = None
    """The bounds count as within, and hold for numbers alone."""


class Parameter(Model):
    """One parameter of `evaluate`, as parsed."""

    name: str
    positional_only: bool = False
    required: bool = True
    """Whether neither the script nor its header has a default."""
    declared: Declared | None = None


class Evaluator(Model):
    """A script that defines `evaluate`, with what its header says. Nothing of it has been run."""

    name: str
    source: str
    language: Language = "python"
    parameters: tuple[Parameter, ...]
    accepts_any: bool = False
    """Whether `evaluate` has `**kwargs`, or in TypeScript takes an open object, so that any name may be mapped."""
    description: str = ""
    """The script's docstring, or the header's description."""
    requires_python: str | None = None
    packages: tuple[str, ...] = ()
    outputs: dict[str, OutputConfig] = Field(default_factory=dict)
    """By name. One without a name of its own stands under the empty name."""
    mapping: InputMapping = InputMapping()
    version: str
    """The first 12 hex digits of a SHA-256 over source and header; the same script has the same version anywhere."""


class Case(Model):
    """One dataset row, or why it could not be read."""

    number: int
    """Counting from 1, the broken ones too."""
    id: str
    where: str
    """File and line (or element) for messages: `data.jsonl:17`."""
    input: Any = None
    output: Any = None
    reference: Any = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    present: frozenset[str] = frozenset()
    """Which of id, input, output, reference and metadata the row has; null is present, absent is not."""
    unread: SkipValidation[tuple[str, ...]] = ()
    """Columns that the row has and nobody asked for, as far as they are known."""
    broken: str | None = None
    """Why the row cannot be used; nothing else of it holds then."""


class ResultError(Model):
    """Why there is no score."""

    kind: ErrorKind
    message: str
    """For people: at least one line that names the next step where there is one."""


class Score(Model):
    """What one output config made of a returned value."""

    label: str | None = None
    score: float | None = None
    explanation: str | None = None


class Result(Model):
    """One case, judged. A failure is never a score."""

    id: str
    number: int
    evaluator: str
    version: str
    sandbox: str
    outcome: Outcome
    label: str | None = None
    score: float | None = None
    explanation: str | None = None
    outputs: dict[str, Score] = Field(default_factory=dict)
    """By config name, when there are several; label, score and explanation above are then the first one's."""
    error: ResultError | None = None
    stdout: str = ""
    truncated: bool = False
    duration_ms: float = 0.0
