"""Wait for work in an event loop, also where one is running, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent import futures
from typing import Any, TypeVar

from runner.results.notebook.progress import INTERVAL, NotebookBar
from sandboxes.host import event_loop

T = TypeVar("T")


def wait(work: Callable[[], Coroutine[Any, Any, T]], bar: NotebookBar | None = None) -> T:
    """Run in a new event loop; if one is running, as in a notebook, then in another thread, and show the bar here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if bar is None:
            return event_loop.run(work())
    from anyio.from_thread import start_blocking_portal

    options = {"loop_factory": event_loop.new_loop}
    with event_loop.keep_ticking(), start_blocking_portal(backend_options=options, name="evalcell-evaluate") as portal:
        # An interrupt ends the wait; to leave the portal cancels the work, and waits until that has cleaned up.
        future = portal.start_task_soon(work)
        while not futures.wait([future], None if bar is None else INTERVAL).done:
            if bar is not None:
                bar.show()
        result: T = future.result()
    return result
