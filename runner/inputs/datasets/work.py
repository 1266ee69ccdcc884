"""Work in a thread that nobody may want any more: what reads much asks now and then, and ends."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import Event


class AbandonedError(Exception):
    """Nobody wants the work any more: its request is gone, or the server stops."""


class AbandonEvent(Event):
    """Set once nobody wants the work; then it also does what the work asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[Callable[[], object]] = []

    def set(self) -> None:
        """End the work, from any thread. Safe twice."""
        super().set()
        while self._calls:
            self._calls.pop()()

    def then(self, call: Callable[[], object]) -> None:
        """Call this once it is set, which may be now."""
        self._calls.append(call)
        if self.is_set():
            self.set()


_gone: ContextVar[AbandonEvent | None] = ContextVar("gone", default=None)


def until(event: AbandonEvent) -> None:
    """End the work of this context, from now on, once this is set."""
    _gone.set(event)


def may_end() -> bool:
    """Say whether the work of this context may have to end before it is done."""
    return _gone.get() is not None


def ask() -> None:
    """Raise AbandonedError if the work of this context is to end."""
    gone = _gone.get()
    if gone is not None and gone.is_set():
        raise AbandonedError


def at_end(call: Callable[[], object]) -> None:
    """Call this, from another thread, if the work of this context is to end: it may wait for what the call ends."""
    gone = _gone.get()
    if gone is not None:
        gone.then(call)
