"""End the processes of a box, whatever they have become."""

from __future__ import annotations

import contextlib
import os
import signal
import time

_END = signal.SIGKILL


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor that can be read once the process has ended, or None if the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def end_all(pid: int, confined: bool) -> None:
    """End every process that the child may have left, and wait for them."""
    if confined:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, _END)
    while True:
        if not confined:
            _end_descendants(pid)
        try:
            found, _ = os.waitpid(-1, 0 if confined else os.WNOHANG)
        except ChildProcessError:
            return
        if not found:
            time.sleep(0.001)


def _end_descendants(pid: int) -> None:
    """End our children, to which orphans belong, and the child's group; for kernels that show no processes but ours."""
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, _END)
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            left = [int(word) for word in file.read().split()]
    except OSError:
        return
    for found in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found, _END)
