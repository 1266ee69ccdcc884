"""
A pytest plugin: for evalcell's own modules this is macOS or Windows, by EVALCELL_TEST_PLATFORM (darwin, win32).

What they import is without the modules, functions and constants that only Unix or only Linux has, and `sys.platform`
says so. Files below /proc are not there. Under win32 event loops and processes refuse what they refuse on Windows. The
kernel, paths and locks stay those of Linux, and so does the standard library for all others.
"""

from __future__ import annotations

import asyncio
import builtins
import io
import os
import subprocess
import sys
from types import ModuleType
from typing import Any, NoReturn

OURS = ("evalcell", "runner", "sandboxes", "templates")
UNIX_ONLY = ("sandboxes.boxes", "sandboxes.process", "sandboxes.deno", "sandboxes.guest.")
"""What the tests of all backends import, and no run in wasm. `EVALCELL_TEST_ALL`: these get nothing more either."""

LINUX = {
    "os": ("pidfd_open", "memfd_create", "sched_getaffinity", "posix_fadvise", "O_TMPFILE", "MFD_CLOEXEC", "splice"),
    "signal": ("pidfd_send_signal", "SIGRTMIN", "sigtimedwait"),
    "select": ("epoll",),
}
UNIX = {
    "os": (
        *("getuid", "geteuid", "getgid", "getegid", "getgroups", "fork", "forkpty", "setsid", "killpg", "getpgid"),
        *(
            "mkfifo",
            "mknod",
            "chown",
            "lchown",
            "fchown",
            "sysconf",
            "statvfs",
            "fstatvfs",
            "wait4",
            "WNOHANG",
            "waitid",
        ),
        *("O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "register_at_fork", "posix_spawn"),
        *("uname", "nice", "getloadavg", "setuid", "setgid", "sendfile", "confstr", "pread", "pwrite", "preadv"),
    ),
    "signal": ("SIGHUP", "SIGKILL", "SIGQUIT", "SIGPIPE", "SIGUSR1", "SIGCHLD", "pthread_sigmask", "setitimer"),
    "socket": ("AF_UNIX", "send_fds", "recv_fds", "SCM_RIGHTS"),
    "select": ("poll", "epoll", "POLLIN"),
    "mmap": ("PROT_READ", "PROT_WRITE", "PROT_EXEC", "MAP_PRIVATE", "MAP_SHARED", "MAP_ANONYMOUS"),
    "time": ("pthread_getcpuclockid", "CLOCK_MONOTONIC", "CLOCK_REALTIME"),
}
NO_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog")


class _Reduced:
    """A module without some of its names, and with others instead."""

    __slots__ = ("_gone", "_instead", "_real")

    def __init__(self, real: ModuleType, gone: set[str], **instead: Any) -> None:
        for name, value in (("_real", real), ("_gone", gone), ("_instead", instead)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self._gone:
            raise AttributeError(f"module {self._real.__name__!r} has no attribute {name!r} on {PLATFORM}")
        return self._instead[name] if name in self._instead else getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def _reduced() -> dict[str, _Reduced]:
    tables = [LINUX, UNIX] if WINDOWS else [LINUX]
    gone: dict[str, set[str]] = {}
    for table in tables:
        for name, words in table.items():
            gone.setdefault(name, set()).update(words)
    found = {name: _Reduced(__import__(name), words) for name, words in gone.items()}
    found["sys"] = _Reduced(sys, set(), platform=PLATFORM)
    return found


def _is_ours(names: Any) -> bool:
    name = str(names.get("__name__", "")) if names else ""
    return name.partition(".")[0] in OURS and ("EVALCELL_TEST_ALL" in os.environ or not name.startswith(UNIX_ONLY))


def _imported(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    if level == 0 and _is_ours(globals):
        if WINDOWS and name in NO_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in REDUCED:
            return REDUCED[name]
    return _import(name, globals, locals, fromlist or (), level)


def _without_proc(real: Any) -> Any:
    def opened(path: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))
        return real(path, *arguments, **named)

    return opened


def _not_here(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError


def _popen(self: Any, *arguments: Any, **named: Any) -> None:
    if refused := [
        word for word in ("pass_fds", "preexec_fn", "start_new_session", "process_group") if named.get(word)
    ]:
        raise ValueError(f"{refused[0]} not supported on Windows platforms")
    _start(self, *arguments, **named)


PLATFORM = os.environ["EVALCELL_TEST_PLATFORM"]
WINDOWS = PLATFORM == "win32"
REDUCED = _reduced()
_import = builtins.__import__
_start = subprocess.Popen.__init__
builtins.__import__ = _imported
builtins.open = io.open = _without_proc(open)
if WINDOWS:
    subprocess.Popen.__init__ = _popen  # type: ignore[method-assign]
    for _name in ("add_signal_handler", "remove_signal_handler", "add_reader", "add_writer"):
        setattr(asyncio.SelectorEventLoop, _name, _not_here)
