"""The options about the evaluator and its sandbox, as a request. Error messages name the option."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from runner.cli import values
from runner.core.errors import InputError
from runner.core.text import near, printable, read_bounded, whole, why
from runner.core.types import DialectFailures, Evaluator, InputMapping
from runner.engine.request import RunRequest
from runner.engine.scoring.worst import Show
from runner.inputs.datasets.rows import Empty
from runner.inputs.evaluators.requirements import plain, read_requirements
from runner.runs.project.presets import PRESETS
from runner.runs.stored import find
from sandboxes.base import MB, Isolation, Language, Limits, SandboxConfig
from sandboxes.env import all_variables as variables
from sandboxes.refusals import VARIABLE_NAME

MAX_LOCK = 4 << 20
"""Bytes of a lock file; a hundred packages with all their hashes take some hundred KB."""


class More(TypedDict, total=False):
    """The options that only some of the commands have."""

    on: str | None
    seed: int | None
    repeat: int
    cache: bool
    limit: int | None
    id: str | None
    keep: tuple[str, ...]
    worst: int
    show: Show
    gates: tuple[str, ...]
    require: tuple[str, ...]
    max_failed: str | None
    max_abstained: str | None
    baseline: str | None
    fail_if_worse: float | None
    allow_inconclusive: bool
    aggregate_timeout: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # to make these methods takes time at each start
class SandboxOptions:
    """The options that decide which script runs, in which sandbox, and what it may use."""

    language: Language | None = None
    dialect: str | None = None
    inline: str | None = None
    dialect_failures: DialectFailures = "failed"
    sandbox: str | None = None
    isolation: Isolation | None = None
    jobs: int | None = None
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    lock: str | None = None
    install_timeout: float | None = None
    readable: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    env_file: str | None = None
    network: bool = False
    weak: bool = False
    paths: tuple[str, ...] = ()
    literals: tuple[str, ...] = ()
    encoding: str | None = None
    rows: str | None = None
    empty: Empty = "text"
    json_columns: tuple[str, ...] = ()
    timeout: float | None = None
    memory: int | None = None
    """MB."""
    cpus: float | None = None
    """Seconds of the processor."""
    disk: int | None = None
    """MB."""
    preset: str | None = None

    def find(self, name: str) -> Evaluator:
        """The evaluator of a name, or the code of `--inline`. Raises EvaluatorError and StoreError."""
        if self.inline is not None:
            from runner.inputs.evaluators.inline import read_inline  # here: most evaluators are files

            language, failures = self.language or "python", self.dialect_failures
            return read_inline(self.inline, dialect=self.dialect or "promptfoo", language=language, failures=failures)
        return find(name, self.language, dialect=self.dialect, failures=self.dialect_failures)

    def request(
        self, evaluator: str, dataset: str | None, read: Evaluator | None = None, **more: Unpack[More]
    ) -> RunRequest:
        """`read`: the evaluator that the mapping is for; without it the mapping is left out. Raises as `config`."""
        return RunRequest(
            evaluator=evaluator if self.inline is None or read is None else read,
            dataset=dataset,
            language=self.language,
            dialect=self.dialect,
            dialect_failures=self.dialect_failures,
            sandbox=self.config(),
            limits=self.limits(),
            mapping=InputMapping() if read is None else self.mapping(read),
            encoding=values.encoding(self.encoding),
            rows=values.place(self.rows),
            empty=self.empty,
            json_columns=self.json_columns,
            **more,
        )

    def limits(self) -> Limits:
        """The limits of a call: those that are given, else those of the preset. Raises InputError."""
        preset = {} if self.preset is None else PRESETS[self.preset]
        timeout, memory = preset.get("timeout"), preset.get("memory")
        return values.limits(
            timeout if self.timeout is None else self.timeout,
            memory if self.memory is None else self.memory,
            self.cpus,
        )

    def mapping(self, evaluator: Evaluator) -> InputMapping:
        """Join `--map` and `--set` to one mapping. Raises InputError."""
        return values.mapping(self.paths, self.literals, evaluator)

    def config(self) -> SandboxConfig:
        """Make the config; the backend is set only if one was named. Raises InputError and UnsupportedConfigError."""
        if self.preset is not None and (self.network or self.env):
            option = "--allow-network" if self.network else "--env"
            raise InputError(f"--preset {self.preset} has no network and no environment; leave {option} out")
        disk = self.disk if self.disk is not None or self.preset is None else PRESETS[self.preset].get("disk")
        files = _files(self.readable)
        listed = [one for file in self.requirements for one in read_requirements(file, "--with-requirements")]
        wanted: dict[str, Any] = {
            "backend": None if self.sandbox is None else whole(self.sandbox),
            "isolation": self.isolation,
            "jobs": self.jobs,
            "packages": tuple(dict.fromkeys((*plain(self.packages, "--with"), *listed))),
            "lock": None if self.lock is None else read_bounded("--lock", self.lock, MAX_LOCK),
            "install_timeout": self.install_timeout,
            "files": files,
            "env": _variables(self.env, files, self.env_file),
            "env_file": self.env_file,
            "disk": None if disk is None else disk * MB,
            "network": self.network,
            "allow_weak_isolation": self.weak,
        }
        nothing: tuple[Any, ...] = (None, (), {}, False)
        return SandboxConfig.model_validate({name: value for name, value in wanted.items() if value not in nothing})

    @property
    def lock_named(self) -> str:
        """The name of the lock file for messages."""
        return "--lock" if self.lock is None else f"--lock {printable(whole(self.lock))}"


def _files(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not path:
            raise InputError(
                f"--file {printable(whole(pair), 80)!r} is not NAME=PATH; write for example --file MODEL=model.json"
            )
        _refuse_name("--file", name)
        if name in found:
            raise InputError(f"--file names the variable {name} twice; give each file a name of its own")
        found[name] = _regular(f"--file {name}={printable(whole(path))}", path)
    return found


def _regular(shown: str, path: str) -> str:
    """The file's absolute path without links: what the script is shown does not change when a link does."""
    try:
        real = os.path.realpath(path, strict=True)
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file{near(path)}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{shown} cannot be read ({why(error)}); name another file") from None
    if real != whole(real):
        raise InputError(f"{shown} has a name that is not UTF-8; rename it")
    if stat.S_ISDIR(mode):
        raise InputError(f"{shown} is a folder; give each file in it that the script needs a --file of its own")
    if not stat.S_ISREG(mode):
        raise InputError(f"{shown} is not a regular file; copy what it gives into one")
    if not os.access(real, os.R_OK):
        raise InputError(f"{shown} cannot be read (no permission); name another file")
    return real


def _variables(names: Sequence[str], files: dict[str, str], env_file: str | None) -> tuple[str, ...]:
    known = variables(env_file) if names or env_file else {}
    for name in names:
        if name and name not in known and name in known.values():
            raise InputError("--env was given the value of a variable; write its name, without a $")
        given, equals, _ = name.partition("=")
        if equals:  # what follows may be a secret, and is not repeated
            raise InputError(
                f"--env {printable(whole(given), 80)} takes a name alone; the value comes from your own environment"
            )
        _refuse_name("--env", name)
        if name in files:
            raise InputError(f"--env {name} is also the name of a --file; give the file another name")
        if name not in known:
            where = "your environment" if env_file is None else "your environment or the --env-file"
            raise InputError(f"--env {name}: there is no such variable in {where}; run: export {name}=…")
    return tuple(dict.fromkeys(names))


def _refuse_name(option: str, name: str) -> None:
    if not VARIABLE_NAME.fullmatch(name):
        raise InputError(
            f"{option} {printable(whole(name), 80)!r} is not a variable name; use letters, digits and underscores"
        )
