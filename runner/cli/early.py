"""Whether a run is likely to be in the wasm sandbox, asked before anything is imported that takes long."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_ELSEWHERE = (
    "with",
    "with_requirements",
    "file",
    "env",
    "env_file",
    "allow_network",
    "evaluators",
    "project",
    "inline",
    "lock",
)
"""Options with which another sandbox is taken, or with which this takes longer to say."""
_HEAD = 64 << 10
_PACKAGES = re.compile(rb"dependencies\s*=\s*\[[#\s]*[\"']")


@contextmanager
def worker(given: Mapping[str, Any]) -> Iterator[None]:
    """
    Begin a worker of the wasm sandbox if the options and the script look as if the run needs one.

    If nobody has taken it at the end of the block, it is ended.
    """
    if not _wanted(given):
        yield
        return
    from sandboxes.wasm import early

    early.begin()
    try:
        yield
    finally:
        early.drop()


def _wanted(given: Mapping[str, Any]) -> bool:
    if given["sandbox"] not in (None, "wasm") or given["lang"] not in (None, "py"):
        return False
    if any(given[name] for name in _ELSEWHERE) or any(sign in (given["dataset"] or "*") for sign in "*?["):
        return False  # a run of several files has its workers elsewhere
    return _plain_python(given["evaluator"])


def _plain_python(evaluator: str | None) -> bool:
    """Whether this is a Python file, or a template, without packages. It is only read if it is a regular file."""
    if not evaluator:
        return False
    path = evaluator if evaluator.endswith(".py") else _template(evaluator)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb") as file:
            return _PACKAGES.search(file.read(_HEAD)) is None
    except (OSError, ValueError):
        return False


def _template(name: str) -> str:
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "templates")
    return os.path.join(folder, os.path.basename(name).replace("-", "_"), "evaluator.py")
