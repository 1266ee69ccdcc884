"""Standard output and error that can be relied on: closed, full or without a reader, they stop no work."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from runner.results.reports import workflow_commands

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CLOSED = (errno.EPIPE, errno.EBADF)


def repair() -> None:
    """
    Make the process's three descriptors and two output streams usable, whatever it was started with.

    Where one is closed, the next file that is opened would get its number, and what is printed would go into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)


def talk() -> None:
    """Leave standard output to another program from now on, and no log of a job."""
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if isinstance(raw, _Lasting):
        raw.guard = None


def flush_stdout() -> OSError | None:
    """Flush stdout; the reason why the output did not arrive, if somebody may still wait for it."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw.failure if isinstance(raw, _Lasting) else None


class _Lasting(FileIO):
    """A file on a descriptor that discards everything after the first write that fails."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.failure: OSError | None = None
        self._ended = False
        self._terminal = self.isatty()
        kept = stat.S_ISREG(os.fstat(descriptor).st_mode)  # what is in a file stays as it is
        self.guard = workflow_commands.CommandGuard() if workflow_commands.in_job() and not kept else None

    def write(self, data: Buffer) -> int:
        """Write all of it, or give up. Never fails."""
        left = memoryview(data).cast("B")
        size = len(left)
        if self.guard is not None:
            left = memoryview(self.guard.guarded(bytes(left)))
        while left and not self._ended:
            try:
                written = super().write(left)
                if written is None:  # somebody made it non-blocking, and it is full
                    select.select([], [self], [])
                left = left[written or 0 :]
            except OSError as e:
                self._ended = True
                if e.errno not in _CLOSED and not self._terminal:  # else nobody reads on, or the terminal is gone
                    self.failure = e
        return size


def _lasting(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8", errors="replace")
    if not isinstance(stream, TextIOWrapper) or not isinstance(getattr(stream.buffer, "raw", stream.buffer), FileIO):
        return stream  # a console of Windows, or somebody's stand-in
    stream.flush()
    raw: Any = _Lasting(stream.fileno())
    return TextIOWrapper(
        raw if stream.write_through else BufferedWriter(raw),
        encoding=stream.encoding,
        errors="replace",  # a terminal that lacks a character is no reason to fail
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
