"""What a worker is doing, for `evalcell cluster`."""

from __future__ import annotations

import os
import socket
from collections import deque
from time import monotonic
from typing import Any

NAMESPACE = "evalcell"
"""Of the workers' names, by which `evalcell cluster` finds them."""
_RECENT = 30.0  # seconds of the rows a second that are shown
_TOGETHER = 0.5  # seconds that are counted together


class Activity:
    """The rows that a worker has run, and how fast lately."""

    def __init__(self) -> None:
        self.busy = 0
        """The batches that it runs now."""
        self._began = monotonic()
        self._rows = 0
        self._recent: deque[list[float]] = deque()  # when rows were done, and how many

    def add(self, rows: int) -> None:
        """Note rows that were just done."""
        self._rows += rows
        now = monotonic()
        if self._recent and now - self._recent[-1][0] < _TOGETHER:
            self._recent[-1][1] += rows
        else:
            self._recent.append([now, rows])
            self._shorten()

    def status(self, sandbox: str | None) -> dict[str, Any]:
        """Data for `WorkerStatus`; `sandbox` is the identity of one that is open."""
        self._shorten()
        seconds = monotonic() - self._began
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "sandbox": sandbox,
            "rows": self._rows,
            "rows_per_second": sum(rows for _, rows in self._recent) / max(1.0, min(_RECENT, seconds)),
            "batches": self.busy,
            "seconds": seconds,
        }

    def _shorten(self) -> None:
        while self._recent and monotonic() - self._recent[0][0] > _RECENT:
            self._recent.popleft()
