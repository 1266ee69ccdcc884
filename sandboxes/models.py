"""The data of the interface: configs, scripts, calls and their executions."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator

from sandboxes.judges.grant import Judges
from sandboxes.record import Record

Isolation = Literal["call", "batch"]
Language = Literal["python", "typescript"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
Status = Literal["ok", "error", "timeout", "memory", "output", "crash", "no_result"]

MB = 1 << 20


class Limits(Record):
    """The limits of one call. Sizes are in bytes, times in seconds of wall clock."""

    timeout: float = Field(default=10.0, gt=0, le=86_400)
    """The time of one call."""
    load_timeout: float = Field(default=30.0, gt=0, le=86_400)
    """The time in which the script must be loaded. A run gives it as long as `timeout`, if this is left as it is."""
    memory: int = Field(default=256 * MB, gt=0, le=1 << 40)
    """The memory of the script, with that of its interpreter."""
    cpu: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds of processor time of one call, all its threads and processes together. None: its `timeout` bounds it."""
    output: int = Field(default=64 * 1024, ge=0)
    """Bytes kept from the end of stdout and stderr together. A script that prints 256 times as much is stopped."""
    result: int = Field(default=1 * MB, gt=0)
    """Size of the returned value, as JSON in UTF-8."""

    @property
    def flood(self) -> int:
        """Bytes of output at which a call ends with the status `output`."""
        return max(self.output, 4096) * 256


class SandboxConfig(Record):
    """The choice of a backend, and what it shall allow."""

    backend: str = "wasm"
    """If this is left out, the runner chooses by the other fields."""
    language: Language | None = None
    """Of the scripts, set by the runner. None: the first of the backend's `capabilities.languages`."""
    isolation: Isolation | None = None
    """None: the backend's default, the first of its `capabilities.isolation`."""
    jobs: int | None = Field(default=None, ge=1, le=256)
    """The number of parallel runs. None: the number of cores. 1: inside this process, if the backend can."""
    packages: tuple[str, ...] = ()
    """Requirements as in pip: names, extras, versions, markers. Nothing else is accepted."""
    lock: str | None = None
    """The text of a lock that an earlier run saved. None: the packages are resolved."""
    install_timeout: float = Field(default=300.0, gt=0, le=86_400)
    """Seconds to resolve and install packages and to send files; never counted against the script's time."""
    files: dict[str, str] = Field(default_factory=dict)
    """Files and folders of the host that the script may read, by the name of the variable that will hold the path."""
    disk: int | None = Field(default=None, gt=0, le=1 << 36)
    """Bytes that the script's files may hold. None: the backend's default, 64 MB where files can be written at all."""
    network: bool = False
    """Whether the script may use the network."""
    judges: Judges | None = None
    """What the script may ask of models or other hosts, without the keys and the network."""
    env: tuple[str, ...] = ()
    """Names of the caller's variables that the script may see; their values are masked in all its output."""
    env_file: str | None = None
    """
    A file of `NAME=value` lines, which override the environment: a provider's credentials, and the variables in `env`.
    """
    engine: Literal["docker", "podman"] | None = None
    """The container engine. None: the first that answers, Docker's before Podman's."""
    image: str | None = None
    """The image of containers, such as `python:3.13-slim` or `NAME@sha256:…`. None: Python's own, of this version."""
    runtime: str | None = None
    """The engine's OCI runtime, such as `runsc`. None: its default."""
    allow_weak_isolation: bool = False
    """Whether to run even if the host's files cannot be hidden from the script."""

    @field_validator("image", "runtime")
    @classmethod
    def _plain_name(cls, value: str | None) -> str | None:
        if value is not None and not _NAME.fullmatch(value):
            raise ValueError("must be a name of letters, digits and . _ / : @ -, such as python:3.13-slim")
        return value


class Capabilities(Record):
    """What a backend can do; a config beyond it is refused."""

    languages: tuple[Language, ...]
    isolation: tuple[Isolation, ...]
    packages: bool = False
    files: bool = False
    network: bool = False
    env: bool = False
    judges: bool = False
    """Whether clients in it reach judges at an address of their own; scripts can ask by `evalcell_judge` in all."""
    judge_rounds: bool = False
    """Whether clients of Python scripts can be answered in their own process, and ask judges between calls."""
    disk: bool = False
    """Whether it keeps a limit of what a script writes."""
    cpu: bool = False
    """Whether it keeps a limit of processor time."""
    images: bool = False
    """Whether it runs in containers, of an engine and an image that may be named."""
    elsewhere: bool = False
    """Whether scripts and rows leave this machine; such a backend is only used when it is named."""
    checks: bool = False
    """Whether it can check a script without running it, for example with a compiler."""
    lacks: dict[str, str] = Field(default_factory=dict)
    """The reason why a feature that one might expect is missing, by its name."""
    enforced: tuple[str, ...] = ()
    """Descriptions, one for each limit, for people who choose a backend."""
    tiers: tuple[str, ...] = ()
    """What each tier protects, strongest first, if the protection depends on the machine."""


class PackageImport(NamedTuple):
    """What a script imports of one package."""

    specifier: str
    """As it is written: `zod`, `npm:zod@3/v4`."""
    names: tuple[str, ...] = ()
    """What is imported by name; `$namespace` for all of it."""


class Script(NamedTuple):
    """A program's text, and the function in it that calls go to."""

    source: str
    language: Language
    entrypoint: str
    """The function's name. In TypeScript it is an export, or the default export if there is none of that name."""
    author: str | None = None
    """The part of `source` that others wrote, if that is not all of it."""
    files: tuple[tuple[str, str], ...] = ()
    """The files that belong to it, each with its path from the script's folder and its text: modules, and data."""
    imports: tuple[PackageImport, ...] = ()
    """What it imports of packages, in TypeScript; `evalcell-package:` and the place, from 1, stand for the name."""
    packages: tuple[str, ...] = ()
    """The modules of these: what a sandbox makes of `imports`."""


class Call(Record):
    """One call of a program's function. Everything in it is data; JSON values only."""

    id: int
    """The caller's number for it, repeated in the execution."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    positional: tuple[Any, ...] = ()
    """For parameters that Python accepts by position only. A value may be `Encoded`, that is its JSON text."""
    seed: int | None = None
    """Makes the script's random numbers repeat. None: they differ from call to call."""


class ScriptError(Record):
    """What went wrong in the script, in words for its author."""

    type: str
    """The exception's class, or the limit's name."""
    message: str
    traceback: str = ""
    hint: str | None = None
    """The next step, if one is known."""


class Execution(Record):
    """The result of one call, as the host saw it."""

    call: int
    status: Status
    value: Any = None
    """The returned value, as JSON. Only with the status `ok`."""
    error: ScriptError | None = None
    """Set with every other status."""
    output: str = ""
    """The end of what it printed, stdout and stderr together."""
    truncated: bool = False
    """Whether the beginning of `output` was cut off."""
    duration: float = 0.0
    """Seconds of wall clock that the call took, without waiting."""


class Problem(Record):
    """A problem found in a script without running it. Lines and columns count from 1."""

    line: int
    column: int
    message: str
