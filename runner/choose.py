"""What a caller named -> an evaluator, a sandbox config; and why."""

from __future__ import annotations

import difflib
import os
from typing import NamedTuple

import templates
from runner.errors import EvaluatorError
from runner.evaluator import parse_evaluator, read_evaluator
from runner.shown import printable
from runner.types import Evaluator
from sandboxes.base import SandboxConfig
from sandboxes.errors import UnsupportedConfigError
from sandboxes.registry import find, installers

DEFAULT = "wasm"


class Choice(NamedTuple):
    """A sandbox config, and the reason for it in words: `no packages declared -> wasm`."""

    config: SandboxConfig
    why: str


def find_evaluator(name: str | os.PathLike[str]) -> Evaluator:
    """
    An evaluator from a path, or from the name of a template.

    What exists, or has a suffix or a separator in it, is a path. Raises EvaluatorError.
    """
    path = os.fspath(name)
    if is_path(path):
        return read_evaluator(path)
    try:
        script = templates.path(path)
    except KeyError:
        raise EvaluatorError(_unknown(path)) from None
    return parse_evaluator(script.read_bytes(), path.replace("_", "-"), str(script))


def find_dataset(name: str, evaluator: str) -> str:
    """
    A dataset's path. `demo` is the rows that come with the template named, or with json-distance.

    A dataset's file always has a suffix, so the word hides none.
    """
    if name != "demo":
        return name
    own = templates.demo(evaluator) if not is_path(evaluator) else None
    return str(own or templates.demo("json-distance"))


def is_path(name: str) -> bool:
    """Whether an evaluator's name means a file rather than a template."""
    separators = {os.sep, os.altsep or os.sep}
    return os.path.isfile(name) or bool(os.path.splitext(name)[1]) or any(s in name for s in separators)


def choose(evaluator: Evaluator, wanted: str | SandboxConfig | None = None) -> Choice:
    """
    The sandbox that runs the evaluator: the one wanted, with the packages that the script declares.

    Raises UnsupportedConfigError when that sandbox, or without a wish every one, lacks what the script needs.
    """
    if isinstance(wanted, SandboxConfig):
        config, reason = wanted, "as asked"
    elif wanted is not None:
        config, reason = SandboxConfig(backend=wanted), "as asked"
    else:
        config, reason = _default(evaluator)
    missing = tuple(p for p in evaluator.packages if p not in config.packages)
    if missing and not find(config.backend).capabilities.packages:
        raise UnsupportedConfigError(_no_packages(evaluator.packages, config.backend))
    if missing:
        config = config.model_copy(update={"packages": config.packages + missing})
    return Choice(config, f"{reason} -> {config.backend}")


def _default(evaluator: Evaluator) -> tuple[SandboxConfig, str]:
    if not evaluator.packages:
        return SandboxConfig(backend=DEFAULT), "no packages declared"
    able = installers()
    if not able:
        raise UnsupportedConfigError(_no_packages(evaluator.packages, DEFAULT))
    return SandboxConfig(backend=able[0]), f"packages declared ({_listed(evaluator.packages)})"


def _no_packages(packages: tuple[str, ...], backend: str) -> str:
    able = installers()
    step = f"choose --sandbox {able[0]}" if able else "no sandbox of this version installs packages yet"
    return (
        f"the script declares packages ({_listed(packages)}), which the {backend} sandbox cannot install: "
        f"{step}; "
        "or take them out of its `dependencies`, if it runs on the standard library alone"
    )


def _listed(packages: tuple[str, ...]) -> str:
    return printable(", ".join(packages), 100)


def _unknown(name: str) -> str:
    known = templates.names()
    close = difflib.get_close_matches(name.replace("_", "-"), known, 1)
    hint = f"did you mean {close[0]}?" if close else f"the templates are: {', '.join(known)}"
    return f"there is no file and no template named {printable(name, 80)!r}; {hint}"
