"""
A worker process that is begun before anybody has asked for one.

The command line imports for as long as a worker does. With the first worker begun before these imports, both go on at
the same time. Nothing is imported here that takes long.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from sandboxes.handle import own_handle
from sandboxes.wasm.boot import boot

_begun: list[subprocess.Popen[bytes]] = []


@contextlib.contextmanager
def command(reset: str) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """What starts a worker, and the descriptors that it takes over; here they are closed after the block."""
    host = own_handle()
    passed = () if host is None else (host,)
    try:
        yield boot("sandboxes.wasm.worker", reset, *map(str, passed)), passed
    finally:
        for descriptor in passed:
            os.close(descriptor)


def begin() -> None:
    """Begin a worker that `take` gives to the first lane. Where none can be started, that lane says why."""
    if os.name != "posix":
        return  # elsewhere an event loop takes over no pipes of others
    pipe = subprocess.PIPE
    with contextlib.suppress(OSError), command("auto") as (words, passed):
        _begun.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=passed))


def check() -> None:
    """If a worker was begun, begin to check the code that it will load: the guest's hash takes as long as a start."""
    if _begun:
        from sandboxes.wasm.native_code import begin_checks

        begin_checks()


def take(reset: str) -> subprocess.Popen[bytes] | None:
    """The worker that was begun, if it resets guests in this way."""
    if reset != "auto":
        return None
    with contextlib.suppress(IndexError):
        return _begun.pop()
    return None


def drop() -> None:
    """End the worker that was begun, if nobody has taken it, and forget what was checked for it."""
    if (native_code := sys.modules.get("sandboxes.wasm.native_code")) is not None:
        native_code.drop_checks()
    while _begun:
        process = _begun.pop()
        process.kill()
        process.communicate()
