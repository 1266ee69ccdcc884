"""Write the rows of one file in a separate thread, so that a slow disk or pipe never stalls the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from runner.core.types import Result
from runner.results.output.result_rows import as_row
from runner.results.output.writers import Writer

_ROWS = 1024  # that may wait to be written
_SIZE = 4_000_000  # and the characters in them
_PAUSE = 0.005  # seconds after a write in which others come together: to wake the thread for each costs the loop more


class Spool:
    """
    The queue of rows for one writer. Make it inside a running loop; its thread opens and closes the file.

    `failure` is what went wrong. A thread that hangs in the file is left behind, and ends with the process.
    """

    def __init__(self, path: str, writer: Writer[Any]) -> None:
        self.path = path
        self.failure: Exception | None = None
        self.opened = self.closed = False
        self._writer = writer
        self._waiting: deque[tuple[Any, int]] = deque()
        self._put = self._done = 0  # characters; one is counted by the loop alone, the other by the thread alone
        self._ending = False
        self._work = threading.Event()
        self._urgent = threading.Event()  # somebody waits for the thread, which then does not pause
        self._hungry = False
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="evalcell-results", daemon=True).start()

    @property
    def rows(self) -> int:
        """Whole rows in the file."""
        return self._writer.rows

    @property
    def whole(self) -> bool:
        """True if the file can be read, and ends with a whole row."""
        return self._writer.whole

    @property
    def full(self) -> bool:
        """True if the caller should wait for `room` before adding a row."""
        return len(self._waiting) >= _ROWS or self._put - self._done >= _SIZE

    async def open(self) -> None:
        """Wait until the file is open. Raises `failure`."""
        await self._until(lambda: self.opened or self.closed)
        if self.failure is not None:
            raise self.failure

    def add(self, results: Iterable[Result]) -> None:
        """Take results, without waiting."""
        writer = self._writer
        for result in results:
            row = writer.encode(as_row(result, writer.layout))
            self._put += row[1]
            self._waiting.append(row)
        if not self._work.is_set():  # setting it takes a lock, for which the thread waits as well
            self._work.set()

    async def room(self) -> None:
        """Wait until a row can be added, or `failure` is set."""
        if self.full:
            await self._until(lambda: not self.full or self.closed)

    async def close(self, patience: float | None) -> bool:
        """
        Write the rest, for at most `patience` seconds; return True if all is written. None waits for it.

        A file that is still being opened is not waited for: it has no rows.
        """
        self._ending = True
        self._urgent.set()
        self._work.set()
        if patience is not None and not self.opened:
            patience = 0
        with suppress(TimeoutError):
            await asyncio.wait_for(self._until(lambda: self.closed), patience)
        return self.closed

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            self._hungry = True  # set before the condition is looked at again: what comes after will be told
            self._urgent.set()
            if not condition():
                await self._changed.wait()

    def _run(self) -> None:
        try:
            self._writer.open(self.path)
            self.opened = True
            self._tell()
            while self._write_waiting():
                self._work.wait()
        except Exception as e:
            self.failure = e
        try:
            self._writer.close()
        except Exception as e:
            self.failure = self.failure or e
        self.closed = True
        self._tell()

    def _write_waiting(self) -> bool:
        """Write waiting rows; whether more may come."""
        while True:
            self._work.clear()
            ending = self._ending  # read first: whatever came before the end is waiting by then
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not rows:
                return not ending
            self._writer.write([row for row, _ in rows])
            self._done += sum([size for _, size in rows])
            self._tell()
            if self._urgent.wait(_PAUSE) and not self._ending:
                self._urgent.clear()

    def _tell(self) -> None:
        if self._hungry:
            self._hungry = False
            with suppress(RuntimeError):  # the loop is closed: this thread was left behind
                self._loop.call_soon_threadsafe(self._changed.set)
