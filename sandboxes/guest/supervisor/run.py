"""One run in a box: its requests, and its progress."""

from __future__ import annotations

import os
import signal

from .blame import is_doubtful
from .timing import Timing

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BROKE = "it broke the process that holds the script"


class SupervisedRun:
    """The progress of a run."""

    def __init__(self, payloads: Sequence[bytes], mark: bool) -> None:
        """`payloads` has a request each, as `guest.harness` reads it. `mark` separates what each of them prints."""
        self.payloads = payloads
        self.mark = os.urandom(16) if mark else b""
        self.place = 0
        self.timing = Timing()
        self.broken = False
        self.ended: dict[str, Any] | None = None
        """The zygote's message about the child's end."""

    @property
    def over(self) -> bool:
        """Whether there can be no more results."""
        return self.broken or self.done

    @property
    def done(self) -> bool:
        """Whether each request has its result."""
        return self.place == len(self.payloads)

    def next(self, how: str, payload: bytes) -> bool:
        """
        Record the result of the present request; whether it counts as that request's.

        What earlier requests may have caused counts only for the first request of a run; any other becomes the first of
        another run.
        """
        doubtful = is_doubtful(how, payload)
        self.broken = doubtful or how != "reply"
        if doubtful and self.place:
            return False
        self.place += 1
        return True


def ending(message: dict[str, Any]) -> str:
    """Return how the child ended, as the kernel told its parent."""
    status = message.get("ended")
    if type(status) is not int or not 0 <= status < 1 << 16:
        return BROKE
    if os.WIFSIGNALED(status):
        try:
            return f"it was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        except ValueError:
            return f"it was killed by signal {os.WTERMSIG(status)}"
    return f"it ended its own process with exit code {os.WEXITSTATUS(status)}"
