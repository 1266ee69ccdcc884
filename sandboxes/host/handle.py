"""A handle on this process, for processes that must end with it."""

from __future__ import annotations

import os


def own_handle() -> int | None:
    """
    Return a descriptor that becomes readable when this process has ended, to be closed by the caller; None if there is
    none.

    The end of a pipe or socket does not show that: a child forked from this process may hold the other end too.
    """
    try:
        return os.pidfd_open(os.getpid())
    except (AttributeError, OSError):  # not Linux, or not 5.3 yet
        return None


def end_with(host: int) -> None:
    """Wait for the end of the process that `host` is a handle on, then end this one at once."""
    import select  # here: Windows has no poll, and no such handle

    watched = select.poll()
    watched.register(host, select.POLLIN)
    watched.poll()
    os._exit(0)


def wait_for_either(pipe: int, host: int) -> bool:
    """Wait until `pipe` can be read or has ended; False if the process that `host` is a handle on has ended."""
    import select

    watched = select.poll()
    watched.register(host, select.POLLIN)
    watched.register(pipe, select.POLLIN | select.POLLHUP)
    return host not in {each for each, _ in watched.poll()}
