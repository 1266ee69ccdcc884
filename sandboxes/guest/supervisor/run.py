"""One run in a box: what is asked, and how far it has come."""

from __future__ import annotations

import os
import signal

from .blame import is_doubtful
from .timing import Timing

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BROKE = "it broke the process that holds the script"


class Run:
    """How far a run has come."""

    def __init__(self, payloads: Sequence[bytes], mark: bool) -> None:
        """`payloads`: a request each, as `guest.harness` reads it. `mark`: it tells apart what each of them prints."""
        self.payloads = payloads
        self.mark = os.urandom(16) if mark else b""
        self.place = 0
        self.timing = Timing()
        self.broken = False
        self.ended: dict[str, Any] | None = None
        """What the zygote told of the child's end."""

    @property
    def over(self) -> bool:
        """Whether nothing of it can be told any more."""
        return self.broken or self.place == len(self.payloads)

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
        return BROKE
    if os.WIFSIGNALED(status):
        try:
            return f"it was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        except ValueError:
            return f"it was killed by signal {os.WTERMSIG(status)}"
    return f"it ended its own process with exit code {os.WEXITSTATUS(status)}"
