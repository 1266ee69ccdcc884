"""
Watch the processor time of one call.

Also sent to providers' machines.
"""

from __future__ import annotations

import os

from . import procfs

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from .driver import Driver

_LEAST = 0.01
"""Seconds between two looks: the kernel counts in these."""


class ProcessorTime:
    """What a box may still use. Without a limit nothing is looked at."""

    def __init__(self, box: Driver, limit: float | None) -> None:
        self._box = box
        self._until = None if limit is None else procfs.processor_time(box.inner) + limit

    def next_look(self, until: float) -> float:
        """
        Return when to look again, `until` at the latest; negative if all is used.

        All cores together can use what is left no sooner.
        """
        if self._until is None:
            return until
        left = self._until - procfs.processor_time(self._box.inner)
        return -1.0 if left <= 0 else min(until, self._box.now() + max(_LEAST, left / (os.cpu_count() or 1)))
