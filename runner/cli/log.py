"""Print the library's log on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    """Prints to the current standard error: above the progress bar, if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        print(f"evalcell: {record.getMessage()}", file=sys.stderr, flush=True)


@contextmanager
def print_log(quiet: bool) -> Iterator[None]:
    """Print what is logged in the `with` block, unless `quiet`."""
    log = logging.getLogger("evalcell")
    before, handler = log.level, logging.NullHandler() if quiet else _Lines()
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
