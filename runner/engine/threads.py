"""Blocking work in a thread that can be left behind: what hangs in a file can be neither stopped nor waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")


class Outcome(Generic[T]):
    """The value or exception of a function, for another thread."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._error: BaseException | None = None
        try:
            self._value = function()
        except BaseException as e:
            self._error = e

    def get(self) -> T:
        """Return or raise it."""
        if self._error is not None:
            raise self._error
        return self._value


class DaemonCall(Generic[T]):
    """A function that runs in a daemon thread, from now on."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._outcome: Outcome[T] | None = None
        self._tell: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None) -> T:
        """Return or raise what the function does. Raises TimeoutError if that takes longer."""
        self._thread.join(seconds)
        if self._outcome is None:
            raise TimeoutError
        return self._outcome.get()

    async def get(self) -> T:
        """Wait as `wait` does, without a time limit."""
        import asyncio  # not for a command that only prints its help

        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        self._tell = lambda: loop.call_soon_threadsafe(ended.set)
        if self._outcome is None:
            await ended.wait()
        assert self._outcome is not None
        return self._outcome.get()

    def _run(self) -> None:
        self._outcome = Outcome(self._function)
        with suppress(RuntimeError):  # the loop is closed: this thread was left behind
            self._tell()
