"""
Refuse to start programs in words, before the kernel does.

The kernel's refusal reaches some callers late or not at all: `os.system` and `os.spawnv` return a number as if a
program had run and failed, and a pool of `multiprocessing` whose workers are programs starts new ones for ever.
"""

from __future__ import annotations

import errno
import os

from .. import harness

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from typing import Any, NoReturn

harness.hidden_files.add(__file__)

WHY = "this sandbox starts no programs"


def install() -> None:
    """Replace what starts programs, also for modules that are imported later."""
    os.system = _refuse
    os.popen = _refuse  # type: ignore[assignment]
    os._spawnvef = _spawnvef  # type: ignore[attr-defined]  # of all `os.spawn…`
    try:
        import _posixsubprocess
    except ImportError:
        return
    _posixsubprocess.fork_exec = _fork_exec


def _refuse(command: Any, *more: Any, **named: Any) -> NoReturn:
    raise PermissionError(errno.EPERM, WHY, os.fsdecode(command) if isinstance(command, (str, bytes)) else None)


def _spawnvef(mode: int, file: Any, *more: Any) -> NoReturn:
    _refuse(file)


def _fork_exec(arguments: Any, *more: Any) -> NoReturn:
    _refuse(next(iter(arguments), None))
