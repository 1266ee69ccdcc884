"""Event loops whose time stands still while this process cannot run: no deadline passes meanwhile, whoever set it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sandboxes.guest.supervisor import clock

T = TypeVar("T")


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop with that time, as long as somebody holds the clock."""
    loop = asyncio.new_event_loop()
    vars(loop)["time"] = clock.now
    return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run as asyncio.run does, with such a loop."""
    # Without debugging: with PYTHONDEVMODE, which is for the caller's code, asyncio would tell each slow step of ours.
    with keep_ticking(), asyncio.Runner(debug=False, loop_factory=new_loop) as runner:
        return runner.run(work)


@contextmanager
def keep_ticking() -> Iterator[None]:
    """Let the clock tick in this block."""
    holder = object()
    clock.hold(holder)
    try:
        yield
    finally:
        clock.release(holder)
