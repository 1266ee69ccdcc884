"""A run, and the pipes between its child and the agent."""

from __future__ import annotations

import os

from ..supervisor.pipes import Printed, Requests, Results
from ..supervisor.timing import Timing
from .event_loop import nothing, now

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    from typing import Any

    from .event_loop import Ports


class Run:
    """A child's run, and the pipes to it."""

    def __init__(
        self, payloads: list[bytes], limits: dict[str, Any], ports: Ports, source: bytes | None = None
    ) -> None:
        """`source`: of the script, where the child loads it before the first call."""
        self.calls = len(payloads)
        if source is not None:
            payloads = [source, *payloads]
        self.mark = os.urandom(16) if len(payloads) > 1 else b""
        """What the child prints after loading, and after each call that others follow."""
        self.results = Results(nothing, limits["longest"], ports)
        self.printed = Printed(nothing, limits["output"], limits["flood"], self.mark, len(payloads), ports)
        self._requests = Requests(payloads, ports)
        self.place = 0
        self.timing = Timing()
        self.broken = self.settled = False
        self.ended: dict[str, Any] | None = None

    @property
    def theirs(self) -> tuple[int, int, int]:
        return self._requests.read, self.results.write, self.printed.write

    def begin(self) -> None:
        self.close(False)
        self.timing.start(now())

    def close(self, whole: bool = True) -> None:
        for pipe in (self._requests, self.results, self.printed):
            if whole:
                pipe.close()
            else:
                pipe.handed_over()
