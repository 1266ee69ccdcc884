"""One run in a box: what is asked, and how far it has come."""

from __future__ import annotations

import os
import secrets
import signal
from typing import Any, NamedTuple

from .blame import is_doubtful
from .timing import Timing


class Request(NamedTuple):
    """One call, as `guest.harness` reads it."""

    call: int
    payload: bytes


class Run:
    """How far a run has come."""

    def __init__(self, requests: list[Request], shared: bool, loads: bool = False) -> None:
        """`loads`: the child loads the script before the first call."""
        self.requests = requests
        self.loads = loads
        self.mark = secrets.token_bytes(16) if shared or loads else b""
        """What the child prints after loading, and after each call that others follow."""
        self.place = 0
        self.timing = Timing()
        self.broken = False
        self.ended: dict[str, Any] | None = None
        """What the zygote told of the child's end."""

    def next(self, how: str, payload: bytes) -> bool:
        """
        The request at hand has gone like this; whether that is to be told of it.

        What may be the doing of those before it is told only of a run's first request; any other is to be the first of
        another run.
        """
        doubtful = is_doubtful(how, payload)
        self.broken = doubtful or how != "reply"
        if doubtful and self.place:
            return False
        self.place += 1
        return True


def ending(message: dict[str, Any]) -> str:
    """How the child ended, as the kernel told its parent."""
    status = message.get("ended")
    if type(status) is not int or not 0 <= status < 1 << 16:
        return "it broke the process that holds the script"
    if os.WIFSIGNALED(status):
        try:
            return f"it was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        except ValueError:
            return f"it was killed by signal {os.WTERMSIG(status)}"
    return f"it ended its own process with exit code {os.WEXITSTATUS(status)}"
