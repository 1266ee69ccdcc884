"""A command line as click parsed it: a run's settings, and what the command has beside them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, Self

from runner.cli import values
from runner.cli.option_groups import option_of
from runner.core.errors import InputError
from runner.core.settings import SETTINGS, value_of
from runner.core.text import near, printable, whole, why
from runner.core.types import Evaluator, InputMapping
from runner.engine.request import RunRequest
from runner.runs.flat import LANGUAGES, flat_request
from runner.runs.store_references import find
from sandboxes.host.env import all_variables as variables
from sandboxes.refusals import VARIABLE_NAME


class CommandOptions:
    """The settings that were given, by name, as items; what a command has beside them, as attributes."""

    def __init__(self, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self.settings = settings
        self._own = own

    @classmethod
    def of(cls, parsed: Mapping[str, Any]) -> Self:
        """Return what click parsed: an option that was left out is None, False or empty."""
        own = {name: value for name, value in parsed.items() if name not in SETTINGS}
        unset = (None, False, ())
        said = {n: value for n, value in parsed.items() if n in SETTINGS and not any(value is one for one in unset)}
        return cls(said, own)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name] if name in self.settings else value_of(name).default

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._own:
            raise AttributeError(name)
        return self._own[name]

    def but(self, **changes: Any) -> Self:
        """Return the same with others of both; a setting that is None stays."""
        said = {name: value for name, value in changes.items() if name in SETTINGS and value is not None}
        own = {name: value for name, value in changes.items() if name not in SETTINGS}
        return type(self)({**self.settings, **said}, {**self._own, **own})

    def find(self, name: str) -> Evaluator:
        """Return the evaluator of a name, or the code of `--inline`. Raises EvaluatorError and StoreError."""
        language, dialect, failures = self.settings.get("lang"), self["dialect"], self["dialect_failures"]
        if self["inline"] is not None:
            from runner.inputs.evaluators.inline import read_inline  # here: most evaluators are files

            spoken = LANGUAGES[language or "py"]
            return read_inline(self["inline"], dialect=dialect or "promptfoo", language=spoken, failures=failures)
        return find(name, LANGUAGES[language] if language else None, dialect=dialect, failures=failures)

    def request(self, evaluator: str, dataset: str | None, read: Evaluator | None = None) -> RunRequest:
        """
        Return the request. `read`: the evaluator that the mapping is for; without it the mapping is left out.

        Raises:
            InputError: An argument cannot be used.
            UnsupportedConfigError: The sandbox cannot do what is asked for.
        """
        files = _files(self.settings.get("file", ()))
        env = _variables(self["env"], files, self["env_file"])
        checked = {"file": files, "env": env, "sandbox": whole(self["sandbox"])}
        return flat_request(
            {name: checked.get(name, value) for name, value in self.settings.items()},
            evaluator=evaluator if self["inline"] is None or read is None else read,
            dataset=dataset,
            mapping=InputMapping() if read is None else self.mapping(read),
            called=option_of,
        )

    def mapping(self, evaluator: Evaluator) -> InputMapping:
        """Join `--map` and `--set` to one mapping. Raises InputError."""
        return values.mapping(self.settings.get("map", ()), self.settings.get("set", ()), evaluator)

    @property
    def lock_named(self) -> str:
        """The name of the lock file for messages."""
        return "--lock" if self["lock"] is None else f"--lock {printable(whole(self['lock']))}"


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
    """The absolute path of a file or folder, without links: what the script is shown does not change when one does."""
    try:
        real = os.path.realpath(path, strict=True)
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file{near(path)}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{shown} cannot be read ({why(error)}); name another file") from None
    if real != whole(real):
        raise InputError(f"{shown} has a name that is not UTF-8; rename it")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError(f"{shown} is not a regular file; copy what it gives into one")
    if not os.access(real, os.R_OK | (os.X_OK if stat.S_ISDIR(mode) else 0)):
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
