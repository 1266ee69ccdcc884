"""
Find what loading a script leaves that its forks would share, or that would act in the process that holds it.

A fork has memory of its own, and nothing else: an open file's offset, a pipe's content, a shared mapping and the files
in the private folder are shared by all. Threads and child processes are in no fork. And what a script hooks into Python
would run between rows, in the process that forks, and pass on what it saw to later forks.

Everything used here after the script has run was bound before.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import json
import os
import random
import resource
import select
import signal
import stat
import struct
import sys
import time
from _thread import _count as _threads
from json import decoder, encoder, scanner
from os import fstat, listdir, statvfs, waitpid
from signal import getitimer, getsignal
from sys import _current_frames, getprofile, gettrace
from types import FunctionType, ModuleType

from .. import harness, wire
from ..box import confine, reap

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Names = Mapping[str, Any]
    Code = tuple[Any, ...] | None
    Was = dict[int, tuple[Names, Names, list[tuple[Any, Code]]]]

harness.hidden_files.add(__file__)
globals()["__builtins__"] = dict(
    vars(builtins)
)  # our own, as a script may change those that it shares with its packages

_PYTHONS = (
    *(builtins, contextlib, decoder, encoder, gc, json, os, os.path, random, resource, scanner, select, signal),
    *(stat, struct, sys.modules["posix"], time),
)
_MOST = 4096  # descriptors looked at: a script can lower its own limit below one that it holds; a box has 64
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: only such a class can be changed
_MONITORS = range(6)
_monitor = getattr(getattr(sys, "monitoring", None), "get_tool", lambda tool: None)


class Snapshot:
    """The state before the script was loaded."""

    def __init__(self, tmp: str | None, own: Iterable[Names] = ()) -> None:
        """`tmp` is the private folder, if there is one; `own` names our modules that will still be used."""
        harness.traceback_class()  # which it then keeps
        self._tmp = tmp
        self._room = _room(tmp)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._numbers = range(min(hard, _MOST) if hard > 0 else _MOST)
        self._descriptors = _descriptors(self._numbers)
        self._signals = _signals()
        self._callbacks = list(gc.callbacks)
        self._names = set(sys.modules)
        self._own: list[Names] = [vars(module) for module in (harness, confine, reap, wire)]
        self._own += [globals(), *own]
        self._was: Was = {}
        for names in (*self._own, *(vars(module) for module in _PYTHONS)):
            _note(names, self._was)
        self._hooked: list[str] = []
        self._put_back = [
            _watch(sys, "addaudithook", self._hooked, lambda hook: True),
            _watch(os, "register_at_fork", self._hooked, _in_parent),
            _watch(sys.modules["posix"], "register_at_fork", self._hooked, _in_parent),
        ]

    def changes(self) -> list[str]:
        """
        Return what has changed since, in words of this module; to be called once, before anything is ended or removed.
        """
        for put_back in self._put_back:
            put_back()
        found = []
        if _descriptors(self._numbers) != self._descriptors:
            found.append("descriptors")
        if _threads() or len(_current_frames()) > 1:
            found.append("threads")
        if _any_child():
            found.append("processes")
        if self._tmp and listdir(self._tmp):
            found.append("files")
        if _signals() != self._signals or any(any(getitimer(which)) for which in range(3)):
            found.append("signals")
        tools = any(_monitor(tool) is not None for tool in _MONITORS)
        if self._hooked or tools or gettrace() or getprofile() or list(gc.callbacks) != self._callbacks:
            found.append("hooks")
        if self._patched():
            found.append("patches")
        return found

    def holds_removed_files(self) -> bool:
        """Say whether removed files are still held, by a mapping or a descriptor."""
        return _room(self._tmp) != self._room

    def new_modules(self) -> list[str]:
        """Return the names of the modules that have been imported from files since, in order."""
        found = []
        for name, module in list(sys.modules.items()):
            if name not in self._names and isinstance(name, str) and not name.endswith("__main__"):
                with contextlib.suppress(Exception):
                    if module.__spec__ is not None and module.__spec__.name == name:
                        found.append(name)
        return found

    def _patched(self) -> bool:
        if any(type(module) is not ModuleType for module in _PYTHONS):  # it may be given a class that is the script's
            return True
        for names, was, _ in self._was.values():
            for name, value in was.items():
                if name not in names or not _same(names[name], value):
                    return True
        if any(_code(value) != code for _, _, codes in self._was.values() for value, code in codes):
            return True
        common = vars(builtins)
        return any(name in common and name not in self._was[id(names)][1] for names in self._own for name in names)


def _same(value: Any, was: Any) -> bool:
    """Whether it is the same object, or an equal tuple of texts: `time.tzname` is made again by time.tzset."""
    if value is was:
        return True
    plain = type(value) is type(was) is tuple and all(type(part) is str for part in (*value, *was))
    return plain and bool(value == was)


def _note(names: Names, was: Was) -> None:
    """Names and code of a module's functions and of those of its classes."""
    if id(names) in was:
        return
    values = dict(names)
    was[id(names)] = (names, values, [(value, _code(value)) for value in values.values() if _code(value)])
    for value in values.values():
        if isinstance(value, type) and value.__flags__ & _HEAP_TYPE:
            for kind in value.__mro__[:-1]:
                if kind.__flags__ & _HEAP_TYPE and id(kind) not in was:
                    inside = dict(vars(kind))
                    codes = [(each, _code(each)) for each in inside.values() if _code(each)]
                    was[id(kind)] = (vars(kind), inside, codes)


def _code(value: Any) -> Code:
    if type(value) is not FunctionType:
        return None
    return value.__code__, value.__defaults__, value.__kwdefaults__


def _watch(module: Any, name: str, hooked: list[str], counts: Callable[..., bool]) -> Callable[[], None]:
    """Record when this function installs a hook; returns what removes the recording."""
    real = getattr(module, name)

    def noted(*given: Any, **named: Any) -> Any:
        if counts(*given, **named):
            hooked.append(name)
        return real(*given, **named)

    def put_back() -> None:
        setattr(module, name, real)

    setattr(module, name, noted)
    return put_back


def _in_parent(*, before: Any = None, after_in_parent: Any = None, after_in_child: Any = None) -> bool:
    """Count a script's own hooks; those of packages and the standard library hold a lock during the fork."""
    own = sys._getframe(2).f_globals.get("__spec__") is None
    return own and (before is not None or after_in_parent is not None)


def _descriptors(numbers: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The open descriptors and their files. The streams are made our own again, whatever a script did to them."""
    found: dict[int, tuple[int, ...]] = {}
    for fd in numbers:
        if fd not in (1, 2):
            with contextlib.suppress(OSError):
                about = fstat(fd)
                found[fd] = (about.st_dev, about.st_ino, about.st_mode, about.st_rdev)
    return found


def _any_child() -> bool:
    try:
        waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _signals() -> list[Any]:
    return [getsignal(number) for number in signal.valid_signals()]


def _room(tmp: str | None) -> tuple[int, int] | None:
    """The free bytes and files of the private folder; nothing if the kernel does not count its files."""
    if not tmp:
        return None
    found = statvfs(tmp)
    return found.f_bfree, found.f_ffree
