"""Ctrl-C, SIGTERM, a closed terminal: the first stops the work and keeps what is done, the second quits at once."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

from sandboxes.errors import SandboxError

_EXIT = 130
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP


def run(work: Coroutine[Any, Any, None]) -> bool:
    """Runs `work` to its end. Returns whether a signal stopped it before."""

    heard: list[signal.Signals] = []

    async def watched() -> bool:
        task = asyncio.ensure_future(work)
        stop = _Stop(task)
        heard.extend(stop.listen())
        try:
            await task
        except (asyncio.CancelledError, SandboxError):  # a sandbox that is stopped may say that it was lost
            if not stop.asked:
                raise
            return True
        return False

    interrupted = asyncio.run(watched())
    if interrupted:
        for number in heard:  # what is left is short, and must not end as if killed
            signal.signal(number, signal.SIG_IGN)
    return interrupted


class _Stop:
    def __init__(self, task: asyncio.Task[None]) -> None:
        self.asked = False
        self._task = task
        self._loop = asyncio.get_running_loop()

    def listen(self) -> Iterator[signal.Signals]:
        """The signals that it now listens to."""
        for number in (signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # as for a job in the background, which a Ctrl-C is not for
            try:
                self._loop.add_signal_handler(number, self._ask, number.name)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(self._ask, ""))
            except (ValueError, RuntimeError):  # not the main thread: signals are somebody else's
                return
            yield number

    def _ask(self, name: str) -> None:
        if name == "SIGHUP":
            _say_no_more()
        if self.asked:
            with suppress(OSError):
                os.write(2, b"\x1b[?25h\n" if os.isatty(2) else b"")  # a progress bar hides the cursor
            os._exit(_EXIT)
        self.asked = True
        self._task.cancel()


def _say_no_more() -> None:
    """Words for a terminal that is gone go nowhere: writing them there would fail, and so would what says them."""
    with open(os.devnull, "wb") as nowhere:
        for descriptor in (1, 2):
            with suppress(OSError):
                if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                    os.dup2(nowhere.fileno(), descriptor)
