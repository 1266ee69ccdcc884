"""
Replacements for what a script may expect of an operating system, as there is none.

Without these a sleep, a socket or a read of standard input would end the whole call with a trap; with them a sleep
sleeps, and the others raise what Python raises if something does not exist or is not allowed.
"""

from __future__ import annotations

import _locale
import errno
import locale
import os
import select
import selectors
import socket
import time

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from typing import Any, NoReturn

_now = time.monotonic
_really_setlocale = _locale.setlocale
_LOCALES = frozenset(("C", "POSIX", "C.UTF-8", "C.utf8"))


def sleep(seconds: float, /) -> None:
    """Wait by reading the clock: the host moves it, and its deadline still ends the call."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    until = _now() + seconds
    while _now() < until:
        pass


def _select(
    readable: Any, writable: Any, exceptional: Any, timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    """Wait for the time only, as nothing ever becomes ready here."""
    if timeout is None:
        raise OSError(errno.EINVAL, "nothing can become ready in this sandbox: waiting would never end")
    sleep(max(0, timeout))
    return [], [], []


def _no_network(*args: Any, **kwargs: Any) -> NoReturn:
    raise PermissionError(errno.EPERM, "this sandbox has no network")


def _no_descriptor(*args: Any, **kwargs: Any) -> NoReturn:
    raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _setlocale(category: int, name: str | None = None, /) -> str:
    """Refuse locales that are not there: the C library takes any name, and goes on as if it were C."""
    if name and not _LOCALES.issuperset(name.split(";")):
        raise _locale.Error("unsupported locale setting")
    return _really_setlocale(category, name)


class _NoSocket(socket.socket):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_network()


def install() -> None:
    time.sleep = sleep
    select.select = _select
    selectors.SelectSelector._select = staticmethod(_select)
    selectors.DefaultSelector = selectors.SelectSelector
    for name in ("poll", "epoll", "kqueue"):
        if hasattr(select, name):
            delattr(select, name)
    socket.socket = socket.SocketType = _NoSocket
    for name in ("getaddrinfo", "create_connection", "create_server", "socketpair", "gethostbyname"):
        setattr(socket, name, _no_network)
    _locale.setlocale = locale._setlocale = _setlocale
    os.isatty = lambda descriptor: False
    for name in ("read", "write", "readv", "writev", "fdopen"):
        if hasattr(os, name):
            setattr(os, name, _no_descriptor)
