"""
Sandboxes that stay open from test to test, as a service keeps them: each script finds one that others have been in.

That also saves the time of opening one for each test, of which there are more than a thousand.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from sandboxes import Call, Execution, Isolation, Limits, Sandbox, Script
from tests.sandboxes.backends import LIMITS, Backend, executed
from tests.sandboxes.languages import Source

T = TypeVar("T")


class Shared:
    """They live in an event loop and thread of their own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._open: dict[tuple[str, Isolation], Sandbox] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def sandbox(self, backend: Backend, isolation: Isolation) -> Sandbox:
        key = (backend.id, isolation)
        if key not in self._open:
            made = backend.make(isolation)
            await made.__aenter__()
            self._open[key] = made
        return self._open[key]

    def close(self) -> None:
        """Closes them all, and ends the loop."""
        if self._loop is None or self._thread is None:
            return
        loop, self._loop = self._loop, None
        opened, self._open = list(self._open.values()), {}

        async def end() -> None:
            await asyncio.gather(*(sandbox.close() for sandbox in opened))
            await loop.shutdown_default_executor()

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


SHARED = Shared()


def evaluate(
    backend: Backend,
    script: Source | Script | str,
    batch: Sequence[Call],
    *,
    isolation: Isolation | None = None,
    limits: Limits = LIMITS,
) -> list[Execution]:
    """As that of `backends`, in a sandbox that stays open."""

    async def body() -> list[Execution]:
        sandbox = await SHARED.sandbox(backend, isolation or backend.isolation)
        return await executed(sandbox, backend, script, batch, limits)

    return SHARED.run(body())
