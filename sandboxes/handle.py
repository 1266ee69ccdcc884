"""A handle on this process, for those that must not outlive it."""

from __future__ import annotations

import os


def own_handle() -> int | None:
    """
    A descriptor that can be read once this process has ended; to be closed by the caller. None: there is no such thing.

    The end of a pipe or socket does not tell that: a child that this process has forked may hold the other end, too.
    """
    try:
        return os.pidfd_open(os.getpid())
    except (AttributeError, OSError):  # not Linux, or not 5.3 yet
        return None
