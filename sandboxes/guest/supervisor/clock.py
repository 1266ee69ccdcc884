"""
A clock that stands still while this process cannot run: stopped, frozen with its container, suspended with its machine.

A thread ticks. Where no tick comes for long, nothing could run, and that is no time of a script. A script in a box
stops neither this process nor its thread, so that it cannot stop the clock. Also sent to providers' machines.
"""

from __future__ import annotations

import os
from _thread import LockType, allocate_lock, start_new_thread
from math import inf
from time import monotonic

_TICK = 0.05
"""Seconds between two ticks."""
_MOST = 0.25
"""Seconds that count without a tick: on a busy machine one may come late."""

_state = inf, 0.0
"""The last tick, and the seconds until then that do not count. Without a thread all count."""
_holders: set[object] = set()
_stop: LockType | None = None
"""Locked while the thread is to tick."""
_changing = allocate_lock()


def now() -> float:
    """Return the seconds of the monotonic clock in which this process could run while somebody held the clock."""
    last, lost = _state
    return min(monotonic(), last + _MOST) - lost


def hold(holder: object) -> None:
    """Let the clock tick until each holder has released it."""
    global _state, _stop
    with _changing:
        _holders.add(holder)
        if _stop is None:
            _stop = allocate_lock()
            _stop.acquire()
            _state = monotonic(), _state[1]
            start_new_thread(_run, (_stop,))


def release(holder: object) -> None:
    """Undo `hold`. Safe twice, and in a fork of the process that did."""
    global _state, _stop
    with _changing:
        _holders.discard(holder)
        if not _holders and _stop is not None:
            _tick()
            _state = inf, _state[1]
            _stop.release()
            _stop = None


def _run(stop: LockType) -> None:
    while not stop.acquire(timeout=_TICK):
        with _changing:
            if stop is _stop:
                _tick()


def _tick() -> None:
    global _state
    last, lost = _state
    time = monotonic()
    _state = time, lost + max(0.0, time - last - _MOST)


def _forget() -> None:
    """In a fork there is no thread."""
    global _state, _stop, _changing
    _state, _stop, _changing = (inf, _state[1]), None, allocate_lock()
    _holders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
