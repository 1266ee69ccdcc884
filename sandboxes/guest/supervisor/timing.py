"""
When the calls of a run began, and how long each took, where several share a process.

Also sent to machines of others.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from .pipes import Arrivals

_READING = 0.1
"""Seconds in which what has come is read."""


class Timing:
    """
    Of one run; all times are of the monotonic clock, in seconds.

    Only who runs the calls knows how long each took: several results may come at once, or be looked at late. What it
    says is believed as far as so much time has passed since the run began.
    """

    def __init__(self) -> None:
        self.began = 0.0
        """When the call at hand did, at the earliest."""
        self._start = self._told = self._looked = 0.0

    def start(self, now: float, sent: float | None = None) -> None:
        """The first call begins, as far as is known; not before `sent`, where that is earlier."""
        self.began = now
        self._start = now if sent is None else sent
        self._told = 0.0

    def took(self, said: float, now: float) -> float:
        """Seconds of the call at hand. `said` by who ran it; negative: it said nothing."""
        left = max(0.0, now - self._start - self._told)
        spent = min(said, left) if said >= 0 else now - self.began
        self._told += spent
        return spent

    def look(self, now: float) -> None:
        """The host looks again at what has come, after it did something else."""
        self._looked = now

    def until(self, timeout: float, begun: bool) -> float:
        """
        When the call at hand is over its time.

        Results that came while nobody looked are read first. `begun`: of a result a part has come. It waits to be read
        where it is large, so it has as much time again as the call.
        """
        if begun:
            return max(self.began, self._looked) + timeout
        return max(self.began + timeout, self._looked + min(timeout, _READING))

    def next(self, arrivals: Arrivals) -> None:
        """The next call has begun: its process went on when the result before it had been read, if not earlier."""
        self.began = max(self.began, arrivals.onward)
