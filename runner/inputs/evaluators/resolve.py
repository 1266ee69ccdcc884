"""Find the evaluator, the dataset and the sandbox that a caller names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack

import templates
from runner.core.errors import EvaluatorError
from runner.core.text import describe, printable, whole
from runner.core.types import Evaluator
from runner.inputs.evaluators.dialect import DIALECTS
from runner.inputs.evaluators.evaluator_files import may_import, own_modules
from runner.inputs.evaluators.header import header_block
from runner.inputs.evaluators.judges import ASKING
from runner.inputs.evaluators.load import HowRead, parse_evaluator, read_evaluator, split_entry
from runner.inputs.evaluators.python.beside import loaded_modules, refuse_strangers
from runner.inputs.evaluators.requirements import plain, refuse_lacking
from sandboxes.base import Capabilities, Language, SandboxConfig
from sandboxes.errors import SandboxUnavailableError, UnsupportedConfigError
from sandboxes.registry import backends, find
from sandboxes.words.wording import Message, Setting

DEFAULT = "wasm"

STORE_PREFIX = "store:"
"""What a stored dataset is asked for with: `store:rows`. No dataset's file has such a name: it would have a suffix."""
_REFERENCE = re.compile(r"[^\W_A-Z][^@\s/\\:A-Z]{0,63}@(latest|[0-9]{1,9}|[0-9a-f]{6,12})")

_NATIVE = re.compile(
    r"\b(bz2|ctypes|fcntl|grp|lzma|mmap|multiprocessing|pty|pwd|readline|resource|ssl|syslog|termios|tty|"
    r"concurrent\.futures\.process)\b"
)
"""Modules of Python's library that need an operating system or a C library, which the wasm sandbox has not."""

_OURS = ("wasm", "process", "deno")  # in this order: what a third party adds is not chosen in their place


class Choice(NamedTuple):
    """A sandbox config, and the reason for it in words: `no packages declared -> wasm`."""

    config: SandboxConfig
    why: str


def find_evaluator(name: str | os.PathLike[str], language: Language | None = None, **how: Unpack[HowRead]) -> Evaluator:
    """
    Return an evaluator from a path, or from the name of a template.

    What exists, or has a suffix or a separator in it, is a path. A template without a `language` is the Python one
    where there is one. Raises EvaluatorError, also for a language that the template is not written in, or that a
    path's suffix contradicts. `how` is what is said of a script of another tool.
    """
    if not isinstance(name, str | os.PathLike):
        raise EvaluatorError(
            f"an evaluator is a script's path, a template's name, a function or an Evaluator, not {describe(name, 60)}"
        )
    path = os.fspath(name)
    if is_path(path):
        evaluator = read_evaluator(path, **how)
        if language not in (None, evaluator.language):
            raise EvaluatorError(
                Message(
                    f"{printable(whole(path))} is {DIALECTS[evaluator.language].name}; leave ",
                    *(Setting("language"), " out"),
                )
            )
        return evaluator
    if path.replace("_", "-") not in templates.names():
        beside = next((f"{path}{suffix}" for suffix in (".py", ".ts") if os.path.isfile(f"{path}{suffix}")), None)
        raise EvaluatorError(_unknown(path, "file and no template", beside))
    language = find_language(path, language)
    where = str(templates.path(path, language))
    return parse_evaluator(templates.source(path, language), path.replace("_", "-"), where, language=language)


def find_language(template: str, language: Language | None) -> Language:
    """
    Return the language asked of a template, or its first.

    Raises:
        EvaluatorError: For a name or language there is not.
    """
    try:
        have = templates.languages(template)
    except KeyError:
        raise EvaluatorError(_unknown(template, "template")) from None
    if language not in (None, *have):
        raise EvaluatorError(f"the template {template} is not written in {language}, but in {', '.join(have)}")
    return language or have[0]


def find_dataset(name: str, evaluator: str, language: Language = "python") -> str:
    """
    Return a dataset's path. `demo` is the rows that come with the template named, in this language, or with
    json-distance.

    A dataset's file always has a suffix, so the word hides none.
    """
    if name != "demo":
        return name
    own = None if is_path(evaluator) or is_reference(evaluator) else templates.demo(evaluator, language)
    return str(own or templates.demo("json-distance"))


def find_files(dataset: object, evaluator: str | os.PathLike[str] | Evaluator) -> dict[str, str]:
    """
    Return the files that a dataset needs beside it, by the variable that holds their path.

    Those of the template named, for its own rows: its `demo`, or its `cases`. Any other dataset needs none.
    """
    if isinstance(evaluator, Evaluator) or not isinstance(dataset, str) or dataset not in ("demo", "cases"):
        return {}
    name = os.fspath(evaluator)
    if is_path(name) or name.replace("_", "-") not in templates.names():
        return {}
    return {variable: str(path) for variable, path in templates.demo_files(name).items()}


def is_path(name: str) -> bool:
    """Return true if an evaluator's name means a file, not a template."""
    if is_reference(name):
        return False
    name = str(split_entry(name)[0])
    if os.path.isdir(name) and name.replace("_", "-") not in templates.names():
        return True
    separators = {os.sep, os.altsep or os.sep}
    return os.path.isfile(name) or bool(os.path.splitext(name)[1]) or any(s in name for s in separators)


def is_reference(name: str) -> bool:
    """
    Return true if an evaluator's name means a version in the store: `polite@3`, `polite@3f9a1c`, `polite@latest`.

    No script that can be run has such a name: it would end with .py or .ts.
    """
    return _REFERENCE.fullmatch(name) is not None


def choose(
    evaluator: Evaluator,
    sandbox: str | SandboxConfig | None = None,
    *,
    script: str | os.PathLike[str] | None = None,
    files: Mapping[str, str] | None = None,
    lock: str = "the lock",
    door: bool = False,
) -> Choice:
    """
    Return the sandbox that runs the evaluator, with the packages that the script declares and then those of the config.

    A config that was not told its backend leaves the choice to what it asks: without packages, files, variables and
    network it is wasm, else the first that has all of it; for modules that wasm has not, it is process. `files` are
    those that the dataset needs; they are added where the config says nothing of their variables. `script` and
    `lock` name these files in messages. Code that a row's text becomes a part of has the isolation `call`. `door`: the
    script's own clients ask judges.

    Raises:
        UnsupportedConfigError: Where it is told to have another, for packages that are no plain requirements, for a
            lock that lacks one of them, and when the sandbox named, or without a name every one, lacks what is asked or
            does not run the language.
    """
    config = with_files(_config(sandbox), files or {})
    name = printable(whole(os.fspath(script))) if script is not None else evaluator.name
    declared = plain(evaluator.packages, f"{name}, `dependencies`")
    added = tuple(p for p in plain(config.packages, "the config's packages") if p not in declared)
    _refuse_language((*declared, *added), evaluator, name)
    refuse_strangers(added, own_modules(evaluator.files) | evaluator.beside, name, None)
    if config.lock is not None:
        refuse_lacking((*declared, *added), config.lock, lock)
    if evaluator.language == "typescript" and may_import(evaluator.source, evaluator.files):
        _refuse_undeclared(evaluator, (*declared, *added), config.lock, name)
    wants = _Wants(declared, added, config, door)
    if is_named(config):
        backend, reason = config.backend, "as asked"
        can = find(backend).capabilities
        if evaluator.language not in can.languages:
            raise UnsupportedConfigError(_other_language(evaluator, wants, backend))
        if declared and not can.packages:
            raise UnsupportedConfigError(_no_packages(evaluator, declared, backend))
        if door and not (can.judges or (can.judge_rounds and evaluator.language == "python")):
            raise UnsupportedConfigError(_no_door(evaluator, wants, backend))
    elif not wants and (module := _native_module(evaluator)) and "process" in _able(evaluator, wants):
        backend, reason = "process", f"imports {module}"
    else:
        backend, reason = _fitting(evaluator, wants), _reason(evaluator, wants)
    chosen = {"backend": backend, "language": evaluator.language, "packages": (*declared, *added)}
    if evaluator.is_template:
        if config.isolation == "batch":
            raise UnsupportedConfigError(
                Message(
                    f"{name}: by its template a row's text becomes code, which with the isolation 'batch' could decide "
                    "the rows after it; leave ",
                    *(Setting("sandbox.isolation"), " out, or write context.vars.NAME in place of {{ NAME }}"),
                )
            )
        chosen["isolation"] = "call"
    config = config.model_copy(update=chosen)
    return Choice(config, f"{reason} -> {backend}")


def _refuse_language(packages: Sequence[str], evaluator: Evaluator, name: str) -> None:
    """Refuse packages of another language than the script's."""
    for each in packages:
        if each.startswith("npm:") != (evaluator.language == "typescript"):
            step = "leave it out" if evaluator.language == "python" else f"write npm:{each} if npm's is meant"
            whose = "npm's" if evaluator.language == "python" else "Python's"
            raise UnsupportedConfigError(
                f"{name}: the package {printable(each, 80)} is one of {whose}, and the script is "
                f"{DIALECTS[evaluator.language].name}; {step}"
            )


def _refuse_undeclared(evaluator: Evaluator, packages: Sequence[str], lock: str | None, name: str) -> None:
    """Refuse an import of a package that neither the script nor the config declares."""
    from runner.inputs.evaluators.typescript.packages import refuse_undeclared  # here: it takes time to import

    if lock is not None:
        from sandboxes.packages import read_lock

        packages = [*packages, *(f"npm:{one}" for one, _ in read_lock(lock, "the lock").packages)]
    has_header = header_block(evaluator.source, evaluator.language) is not None
    where = name.removesuffix(f":{evaluator.asked_entry}")
    refuse_undeclared(evaluator.source, evaluator.files, where, packages, evaluator.packages if has_header else None)


def _config(wanted: str | SandboxConfig | None) -> SandboxConfig:
    if isinstance(wanted, SandboxConfig):
        return wanted
    return SandboxConfig() if wanted is None else SandboxConfig(backend=wanted)


def with_files(config: SandboxConfig, files: Mapping[str, str]) -> SandboxConfig:
    """Return the config with these files too, where it says nothing of their variables."""
    lacking = {name: path for name, path in files.items() if name not in config.env}
    return config.model_copy(update={"files": lacking | config.files}) if lacking else config


def is_named(config: SandboxConfig) -> bool:
    """Say whether the caller named a backend, or passed the config class of one."""
    return "backend" in config.model_fields_set or type(config) is not SandboxConfig


class _Wants:
    """The features that a backend must have, and the reasons in words."""

    def __init__(
        self, declared: tuple[str, ...], added: tuple[str, ...], config: SandboxConfig, door: bool = False
    ) -> None:
        found = (
            ("packages", declared, f"packages declared ({_listed(declared)})"),
            ("packages", added, f"packages asked for ({_listed(added)})"),
            ("packages", config.lock is not None and not declared and not added, "a lock"),
            ("files", config.files, "files"),
            ("env", config.env, "variables"),
            ("network", config.network, "the network"),
            ("judges", door, "a judge that its client asks"),
            ("images", config.engine or config.image or config.runtime, "a container"),
        )
        self._features = {feature for feature, wanted, _ in found if wanted}
        self.words = ", ".join(words for _, wanted, words in found if wanted)

    def __bool__(self) -> bool:
        return bool(self._features)

    def met_by(self, can: Capabilities) -> bool:
        return all(getattr(can, feature) for feature in self._features)


def _fitting(evaluator: Evaluator, wants: _Wants) -> str:
    if not wants and evaluator.language in find(DEFAULT).capabilities.languages:
        return DEFAULT
    if able := _able(evaluator, wants):
        return able[0]
    if not wants and evaluator.language == "typescript":
        find("deno")  # says why it cannot be used here
    raise UnsupportedConfigError(
        f"no sandbox here has all that is asked ({_reason(evaluator, wants)}); "
        "`evalcell sandboxes` shows what each can do"
    )


def _native_module(evaluator: Evaluator) -> str:
    """A module that the script imports when it is loaded, and that the wasm sandbox has not."""
    if evaluator.language != "python" or not _NATIVE.search(evaluator.source):
        return ""
    return next((match[1] for one in loaded_modules(evaluator.source) if (match := _NATIVE.match(one))), "")


def _reason(evaluator: Evaluator, wants: _Wants) -> str:
    """The reason for the choice of the sandbox, in words."""
    if evaluator.language == "python":
        return wants.words or "no packages declared"
    language = DIALECTS[evaluator.language].name
    return f"{language}, {wants.words}" if wants else language


def _able(evaluator: Evaluator, wants: _Wants) -> list[str]:
    """The listed backends of this machine that can be imported and have what is wanted; ours come first."""
    found, every = [], [one for one in backends().values() if not (one.elsewhere or one.by_name)]
    for backend in sorted(every, key=lambda one: one.name not in _OURS):
        try:
            can = find(backend.name).capabilities
        except SandboxUnavailableError:
            continue
        if not backend.hidden and not can.elsewhere and evaluator.language in can.languages and wants.met_by(can):
            found.append(backend.name)
    return found


def _other_language(evaluator: Evaluator, wants: _Wants, backend: str) -> str:
    able = _able(evaluator, wants) or _able(evaluator, _Wants((), (), SandboxConfig()))
    step = f"choose {Setting('sandbox.backend', able[0])}" if able else "`evalcell sandboxes` shows what each can do"
    return f"the {backend} sandbox does not run {DIALECTS[evaluator.language].name}; {step}"


def _no_door(evaluator: Evaluator, wants: _Wants, backend: str) -> str:
    able = _able(evaluator, wants)
    step = f"choose {Setting('sandbox.backend', able[0])}, or ask" if able else "ask"
    return (
        f"in the {backend} sandbox a script's own client, such as an SDK, has no way to a judge: {step} by "
        f"{ASKING[evaluator.language]}, which all sandboxes have"
    )


def _no_packages(evaluator: Evaluator, declared: tuple[str, ...], backend: str) -> str:
    able = _able(evaluator, _Wants(declared, (), SandboxConfig()))
    step = f"choose {Setting('sandbox.backend', able[0])}, or" if able else "no sandbox here installs packages;"
    return (
        f"the script declares packages ({_listed(declared)}), which the {backend} sandbox cannot install: {step} "
        "take them out of its `dependencies`, if it runs on the standard library alone"
    )


def _listed(packages: tuple[str, ...]) -> str:
    return printable(", ".join(packages), 100)


def _unknown(name: str, kind: str, near: str | None = None) -> str:
    import difflib

    near = near or next(iter(difflib.get_close_matches(name.replace("_", "-"), templates.names(), 1)), None)
    hint = f"did you mean {printable(whole(near))}?" if near else "run `evalcell templates` to see them all"
    return f"there is no {kind} named {printable(name, 80)!r}; {hint}"
