"""The one interface of every backend: open, load, run, close."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from sandboxes.refusals import refuse_unsupported
from sandboxes.shield import finish

Isolation = Literal["call", "batch"]
Language = Literal["python", "typescript"]
Status = Literal["ok", "error", "timeout", "memory", "output", "crash", "no_result"]

MB = 1 << 20
LOG = logging.getLogger("evalcell")


# Models are frozen; asked of their slots, this takes half as long as by `object.__setattr__`.
_set_values, _set_named, _set_extra, _set_private = (
    BaseModel.__dict__[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class Model(BaseModel):
    """Frozen, and refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field_names: ClassVar[set[str]]
    """The names of all fields; nobody adds to it."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.field_names = set(cls.model_fields)

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """
        An instance of these values, one for every field, which nobody looks at again; the dict is not to be used on.

        For the few objects that each row has, of values that we made or checked. It takes a fraction of the time.
        """
        made = cls.__new__(cls)
        _set_values(made, values)
        _set_named(made, cls.field_names)
        _set_extra(made, None)
        _set_private(made, None)
        return made


class Limits(Model):
    """What one call may use. Sizes are bytes, times are seconds of wall clock."""

    timeout: float = Field(default=10.0, gt=0, le=86_400)
    load_timeout: float = Field(default=30.0, gt=0, le=86_400)
    memory: int = Field(default=256 * MB, gt=0, le=1 << 40)
    output: int = Field(default=64 * 1024, ge=0)
    """Kept of stdout and stderr together, the tail. A script that prints 256 times as much is stopped."""
    result: int = Field(default=1 * MB, gt=0)
    """The returned value, as JSON in UTF-8."""

    @cached_property
    def flood(self) -> int:
        """Printing more than this ends the call with the status `output`."""
        return max(self.output, 4096) * 256


class SandboxConfig(Model):
    """Which backend, and what it is asked to allow."""

    backend: str = "wasm"
    """The runner chooses by what else is asked where this is left out."""
    language: Language | None = None
    """Of the scripts. The runner says it; None: the first of the backend's `capabilities.languages`."""
    isolation: Isolation | None = None
    """None: the backend's own default, the first of its `capabilities.isolation`."""
    jobs: int | None = Field(default=None, ge=1, le=256)
    """How many runs go on at once. None: as many as there are cores. 1: inside this process, where the backend can."""
    packages: tuple[str, ...] = ()
    """Requirements as pip writes them: names, extras, versions, markers. Nothing else is accepted."""
    lock: str | None = None
    """The text of a hash-locked set that an earlier run saved; None: the packages are resolved."""
    install_timeout: float = Field(default=300.0, gt=0, le=86_400)
    """Seconds that resolving and installing packages, and sending files, may take; never charged to the script."""
    files: dict[str, str] = Field(default_factory=dict)
    """
    Files of the host that the script may read, by the name of the variable in which it finds the file's path.
    """
    network: bool = False
    env: tuple[str, ...] = ()
    """Names of the caller's variables that the script may see; their values are masked in all it says."""
    env_file: str | None = None
    """A file of `NAME=value` lines, which go over the environment: a provider's credentials, and what `env` names."""
    allow_weak_isolation: bool = False
    """Whether to run where the host's files cannot be hidden from the script."""


class Capabilities(Model):
    """What a backend can do at all; a config beyond it is refused."""

    languages: tuple[Language, ...]
    isolation: tuple[Isolation, ...]
    packages: bool = False
    files: bool = False
    network: bool = False
    env: bool = False
    elsewhere: bool = False
    """Whether scripts and rows leave this machine; such a backend is only used when it is named."""
    checks: bool = False
    """Whether it finds what is wrong with a script without running it, as by a compiler."""
    lacks: dict[str, str] = Field(default_factory=dict)
    """By the name of a feature that one might expect: why it is not there, in words."""
    enforced: tuple[str, ...] = ()
    """In words, one a limit, for people who choose a backend."""
    tiers: tuple[str, ...] = ()
    """In words, where protection depends on the machine: what each tier protects, strongest first."""


class Script(NamedTuple):
    """A program's text, and the function of it that calls go to."""

    source: str
    language: Language
    entrypoint: str
    """The function's name. In TypeScript it is an export; where there is none of that name, the default export."""


class Call(Model):
    """One evaluation to run. Everything in it is data; JSON values only."""

    id: int
    """The caller's number for it; the execution carries the same."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    positional: tuple[Any, ...] = ()
    """For parameters that Python accepts by position only."""
    seed: int | None = None
    """Makes the script's random numbers repeat. None: they differ from call to call."""


class ScriptError(Model):
    """What went wrong in the script, in words for its author."""

    type: str
    """The exception's class, or the limit's name."""
    message: str
    traceback: str = ""
    hint: str | None = None
    """The next step, where we know one."""


class Execution(Model):
    """What became of one call, as the host saw it."""

    call: int
    status: Status
    value: Any = None
    """What the function returned, as JSON. Only with the status `ok`."""
    error: ScriptError | None = None
    """Set with every other status."""
    output: str = ""
    """The tail of what it printed, stdout and stderr together."""
    truncated: bool = False
    """Whether `output` lacks what was printed before it."""
    duration: float = 0.0
    """Seconds of wall clock that the call took, without waiting."""


class Problem(Model):
    """What speaks against a script that has not been run. Lines and columns count from 1."""

    line: int
    column: int
    message: str


class Program(ABC):
    """A script, loaded and ready."""

    loaded: Execution
    """How loading went. With any status but `ok`, every call's execution repeats it."""

    @abstractmethod
    def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        """
        One execution for each call, in any order. Runs may overlap.

        Closing the iterator early stops what still runs. Raises SandboxLostError when the sandbox died; the calls
        that gave no execution by then may be run again.
        """

    async def close(self) -> None:  # noqa: B027  (nothing to let go of is the usual case)
        """Lets go of the program; safe twice."""


class Sandbox(ABC):
    """One configured backend."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    def __init__(self, config: SandboxConfig) -> None:
        """Checks the config, does no I/O. Raises UnsupportedConfigError."""
        refuse_unsupported(self.name, self.capabilities, config)
        self.config = config
        self.isolation: Isolation = config.isolation or self.capabilities.isolation[0]
        self.language: Language = config.language or self.capabilities.languages[0]
        self.progress: Callable[[str], None] = LOG.info
        """Called with a line for the user when something takes long. By default it is logged."""
        self.warn: Callable[[str], None] = LOG.warning
        """Called with a line that the user should know of. By default it is logged."""

    @property
    def concurrency(self) -> int:
        """How many runs can usefully go on at once."""
        return 1

    @property
    def batch(self) -> int:
        """How many calls a run has at most; with isolation `batch` they share their state. The same for every run."""
        return 64

    @property
    def run_seconds(self) -> float:
        """How long a run should last, so that what it costs beside its calls counts little."""
        return 0.05

    @property
    def identity(self) -> str:
        """The backend and the versions that decide what a script does in it; stands in every result row."""
        return self.name

    @property
    def python(self) -> str | None:
        """The version of Python that scripts run under. None: it runs none, or does not know yet."""
        return None

    @property
    def lock(self) -> str | None:
        """The hash-locked packages that scripts run with, to be saved and given back. None: there are none."""
        return None

    @property
    def manifest(self) -> dict[str, Any]:
        """What a reader of the results may want to know of where the script ran; JSON. Complete once it is open."""
        return {"sandbox": self.identity}

    async def open(self) -> None:  # noqa: B027
        """The slow part of starting. Raises SandboxUnavailableError."""

    @abstractmethod
    async def load(self, script: Script, limits: Limits) -> Program:
        """
        Makes one script callable.

        What the script does wrong while loading is told by `Program.loaded`; only the sandbox's own failure raises.
        Raises UnsupportedConfigError for a language that it was not made for.
        """

    async def problems(self, source: str, seconds: float = 60) -> list[Problem] | None:
        """
        What a compiler finds wrong with a script, such as its type errors; it is not run. The sandbox must be open.

        None: there is no such check here. Raises SandboxError when it fails, or takes longer than so many seconds.
        """
        return None

    async def close(self) -> None:  # noqa: B027
        """Stops everything it started; safe twice. Returns when nothing of it is left, be it cancelled meanwhile."""

    @classmethod
    def check(cls) -> str:
        """
        Whether it could be opened on this machine, found out without starting anything.

        Returns a short note on what is active here. Raises SandboxUnavailableError.
        """
        return ""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await finish(self.close)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await finish(self.close)
