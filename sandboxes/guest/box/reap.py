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


def open_children() -> int:
    """Return a descriptor that tells of this process's children while it lives, also when /proc is closed to it."""
    return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)


def end_all(pid: int, confined: bool, children: int | None = None) -> None:
    """End every process that the child may have left, and wait for them. `children`: what `open_children` opened."""
    if confined:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, _END)
    while True:
        if not confined:
            _end_descendants(pid, children)
        try:
            found, _ = os.waitpid(-1, 0 if confined else os.WNOHANG)
        except ChildProcessError:
            return
        if not found:
            time.sleep(0.001)


def _end_descendants(pid: int, children: int | None) -> None:
    """End our children, to which orphans belong, and the child's group; for kernels that show no processes but ours."""
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, _END)
    try:
        fd = children if children is not None else open_children()
        left = [int(word) for word in os.pread(fd, 1 << 16, 0).split()]
        if children is None:
            os.close(fd)
    except OSError:
        return
    for found in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found, _END)
