"""
When the calls of a run began, and how long each took, if several share a process.

Also sent to providers' machines.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from .pipes import Arrivals

_READING = 0.1
"""Seconds to read what has arrived."""


class Timing:
    """
    The times of one run, all by `clock.now`.

    Only the process that runs the calls knows how long each took: several results may arrive at once, or be read late.
    What it reports is believed as far as so much time has passed since the run began.
    """

    def __init__(self) -> None:
        self.began = 0.0
        """The earliest time at which the present call can have begun."""
        self._start = self._reported = self._looked = 0.0

    def start(self, now: float, sent: float | None = None) -> None:
        """Begin the first call, as far as is known; not before `sent`, if that is earlier."""
        self.began = now
        self._start = now if sent is None else sent
        self._reported = 0.0

    def spend(self, reported: float, now: float) -> float:
        """Return the seconds of the present call. `reported` by the process that ran it; negative if it was not."""
        left = max(0.0, now - self._start - self._reported)
        spent = min(reported, left) if reported >= 0 else now - self.began
        self._reported += spent
        return spent

    def look(self, now: float) -> None:
        """Record that the host reads again after doing something else."""
        self._looked = now

    def until(self, timeout: float, begun: bool) -> float:
        """
        Return when the present call exceeds its time.

        Results that arrived while nobody read are read first. With `begun` a part of a result has arrived: if it is
        large it waits to be read, so it has as much time again as the call.
        """
        if begun:
            return max(self.began, self._looked) + timeout
        return max(self.began + timeout, self._looked + min(timeout, _READING))

    def next(self, arrivals: Arrivals) -> None:
        """Begin the next call: its process went on when the result before it had been read, at the latest."""
        self.began = max(self.began, arrivals.writer_resumed)
