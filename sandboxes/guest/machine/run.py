"""A run, and the pipes between its child and the agent."""

import os

from ..supervisor.pipes import Printed, Requests, Results
from ..supervisor.timing import Timing
from .event_loop import nothing, now


class Run:
    """A child's run, and the pipes to it."""

    def __init__(self, payloads, limits, ports, source=None):
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
        self.ended = None

    @property
    def theirs(self):
        return self._requests.read, self.results.write, self.printed.write

    def begin(self):
        self.close(False)
        self.timing.start(now())

    def close(self, whole=True):
        for pipe in (self._requests, self.results, self.printed):
            if whole:
                pipe.close()
            else:
                pipe.handed_over()
