"""
Ctrl-C, SIGTERM, a closed terminal: the first stops the work and keeps what is done, the second quits at once.

A command runs in a thread of its own, because a file may be on a disk that hangs, or be a pipe that nobody writes to.
The main thread waits for it and runs its event loops, so that it always hears signals.
"""

from __future__ import annotations

import atexit
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, NoReturn, TypeVar

from runner.engine.threads import Outcome

T = TypeVar("T")

_EXIT = 130
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
_LAST_WORDS = 20.0
"""Seconds for what is printed once the work was stopped: whoever should read it may have stopped, too."""


def command(body: Callable[[], T]) -> T:
    """
    Run `body`, which may block in files, and return or raise what it does; to be called in the main thread.

    Raises:
        KeyboardInterrupt: When a signal comes and no event loop of `run` goes on: the thread is then left behind, and
            only `leave` surely ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return body()  # signals are somebody else's
    return _Command(body).result()


def run(work: Coroutine[Any, Any, None], *, quiet: bool = False) -> bool:
    """
    Run `work` to its end, in the main thread, and print what is logged meanwhile, unless it is to be quiet.

    Returns whether a signal stopped it before.
    """
    from runner.cli import log  # not for a command that only prints its help

    with log.print_log(quiet):
        here = _COMMAND.get()
        if here is not None:
            return here.in_main_thread(work)
        stop = _Stop()
        with stop.listening():
            return stop.run(work)


def leave(code: int) -> NoReturn:
    """
    End the process even if a thread hangs in a file. What was printed is flushed before.

    After a signal it ends at once: a second one, while Python tidies up, would end it as if killed. Otherwise it
    calls what asked to be called at the end. To take hundreds of modules apart after that would serve nobody.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if code != _EXIT and not any(thread.daemon for thread in others):
        if others:
            sys.exit(code)  # Python waits for them
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(code)


class _Command(Generic[T]):
    """A command's body in its thread, and what the main thread does for it."""

    def __init__(self, body: Callable[[], T]) -> None:
        self._body = body
        self._stop = _Stop()
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._outcome: Outcome[T] | None = None

    def result(self) -> T:
        thread = threading.Thread(target=copy_context().run, args=(self._run,), name="evalcell-command", daemon=True)
        with self._stop.listening():
            thread.start()
            try:
                while (work := self._asked.get(timeout=_LAST_WORDS if self._stop.asked else None)) is not None:
                    work()
            except Empty:
                raise KeyboardInterrupt from None
            thread.join()
        assert self._outcome is not None
        return self._outcome.get()

    def _run(self) -> None:
        _COMMAND.set(self)
        self._outcome = Outcome(self._body)
        self._asked.put(None)

    def in_main_thread(self, work: Coroutine[Any, Any, None]) -> bool:
        answer: SimpleQueue[Outcome[bool]] = SimpleQueue()
        self._asked.put(lambda: answer.put(Outcome(lambda: self._stop.run(work))))
        return answer.get().get()


_COMMAND: ContextVar[_Command[Any] | None] = ContextVar("_COMMAND", default=None)


class _Stop:
    """Handles signals: the first cancels the work of an event loop, or raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.asked = False
        self._cancel: Callable[[], object] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        before: dict[signal.Signals, Any] = {}
        try:
            for number in (signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__):
                if signal.getsignal(number) is signal.SIG_IGN:
                    continue  # as for a job in the background, which a Ctrl-C is not for
                try:
                    before[number] = signal.signal(number, self._hear)
                except ValueError:  # not the main thread: signals are somebody else's
                    break
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def run(self, work: Coroutine[Any, Any, None]) -> bool:
        import asyncio  # not for a command that only prints its help

        from sandboxes.errors import SandboxError
        from sandboxes.host import event_loop

        def remember() -> None:
            """No exception may meet asyncio while it makes its loop, or closes it: it would leave a half of one."""

        async def watched() -> bool:
            task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            if self.asked:
                task.cancel()
            try:
                await task
            except (asyncio.CancelledError, SandboxError):  # a sandbox that is stopped may say that it was lost
                if not self.asked:
                    raise
                return True
            finally:
                self._cancel = remember
            return False

        self._cancel = remember
        try:
            return event_loop.run(watched()) or self.asked
        finally:
            self._cancel = None

    def _hear(self, number: int, _: object) -> None:
        if signal.Signals(number).name == "SIGHUP":
            _say_no_more()
        if self.asked:
            with suppress(OSError):
                os.write(2, b"\x1b[?25h\n" if os.isatty(2) else b"")  # a progress bar hides the cursor
            os._exit(_EXIT)
        self.asked = True
        if self._cancel is None:
            raise KeyboardInterrupt
        self._cancel()


def _say_no_more() -> None:
    """Discard output for a terminal that is gone: writing to it would fail."""
    with open(os.devnull, "wb") as nowhere:
        for descriptor in (1, 2):
            with suppress(OSError):
                if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                    os.dup2(nowhere.fileno(), descriptor)
