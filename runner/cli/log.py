"""What the library logs, as lines for the user."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    """On standard error as it is by then: above a progress bar, where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        print(f"evalcell: {record.getMessage()}", file=sys.stderr, flush=True)


@contextmanager
def printed(quiet: bool) -> Iterator[None]:
    """Prints what is logged meanwhile; nothing of it where it is to be quiet."""
    log = logging.getLogger("evalcell")
    before, handler = log.level, logging.NullHandler() if quiet else _Lines()
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
