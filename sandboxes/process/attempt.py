"""A run, and the pipes between its child and the host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from sandboxes import protocol
from sandboxes.base import Limits
from sandboxes.guest.supervisor.pipes import Printed, Requests, Results
from sandboxes.guest.supervisor.run import Run


class Attempt:
    """One child's run. `wake` is called when something has come from it."""

    def __init__(self, run: Run, limits: Limits, wake: Callable[[], None], script: bytes | None) -> None:
        """`script`: the request to load it, where the child does."""
        self.run = run
        payloads = [*([] if script is None else [script]), *(request.payload for request in run.requests)]
        with contextlib.ExitStack() as made:  # there may be no descriptor for the last
            self.results = made.enter_context(contextlib.closing(Results(wake, protocol.longest(limits))))
            self.printed = made.enter_context(
                contextlib.closing(Printed(wake, limits.output, limits.flood, run.mark, len(payloads)))
            )
            self._requests = Requests(payloads)
            made.pop_all()
        self.ahead: Attempt | None = None
        """The one that was announced while this one ended."""

    @property
    def theirs(self) -> tuple[int, int, int]:
        """The child's ends."""
        return self._requests.read, self.results.write, self.printed.write

    def begin(self, now: float) -> None:
        """Gives the child its requests; its time counts from now on."""
        for pipe in (self._requests, self.results, self.printed):
            pipe.handed_over()
        self.run.timing.start(now)

    def close(self) -> None:
        """Safe twice."""
        for pipe in (self._requests, self.results, self.printed):
            pipe.close()
