"""The service: what a server can do, each operation once."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import templates
from runner.core.errors import InputError
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store.store import Store
from runner.runs.pool.pool import Pool
from runner.runs.pool.types import PoolStatus
from runner.server.service.datasets import Datasets
from runner.server.service.evaluators import Evaluators
from runner.server.service.folders import Folders
from runner.server.service.part import threaded
from runner.server.service.queue import Queue
from runner.server.service.rows import looked_at
from runner.server.service.runs import Runs
from runner.server.service.settings import Settings

_EXAMPLE, _EXAMPLE_ROWS = "json-distance", "demo"
"""What there is to look at after a first start."""


def _add_example(store: Store) -> None:
    """Add an evaluator and its rows to a store that holds nothing. Blocks."""
    usage, path = store.usage(), templates.demo(_EXAMPLE)
    if usage.evaluators or usage.datasets or usage.runs or path is None:
        return
    store.add_evaluator(parse_evaluator(templates.source(_EXAMPLE), _EXAMPLE), name=_EXAMPLE)
    rows, columns, _ = looked_at(path)
    store.add_dataset(path, name=_EXAMPLE_ROWS, suffix="".join(path.suffixes[-1:]), rows=rows, columns=columns)


class Service(Evaluators, Datasets, Runs):
    """
    Every operation of the server. Used by HTTP, pages and MCP alike; open it with `async with`.

    It closes the pool, and leaves the store open. `folder` is for files that are not accepted yet; `server` is the name
    by which it claims runs, and goes on with them when it begins again. All raises
    ServiceError, or an exception that `runner.server.service.errors.translated` makes one of.
    """

    def __init__(
        self,
        store: Store,
        pool: Pool,
        settings: Settings | None = None,
        *,
        folder: Path | None = None,
        server: str | None = None,
    ) -> None:
        super().__init__(store, pool, settings)
        self._folder = folder
        self.queue = Queue(store, pool, self.settings, server or uuid4().hex, folder)
        self.folders = Folders(self.settings.folders)
        self._summaries = {}
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._folder is not None:
            # What a server that was killed had not accepted.
            await threaded(shutil.rmtree, self._folder, ignore_errors=True)
            await threaded(self._folder.mkdir, parents=True, exist_ok=True, mode=0o700)
        with suppress(InputError):
            await threaded(_add_example, self.store)
        await self._opened.enter_async_context(self.pool)
        await threaded(self.store.end_abandoned)
        await self.queue.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
        await self._opened.aclose()

    @property
    def incoming(self) -> Path | None:
        """The folder for files that are not accepted yet."""
        return self._folder

    async def stop(self) -> None:
        """Park the runs that go on, let their watchers go, and end what is slow. Safe twice."""
        self.end_slow_work()
        await self.queue.close()

    async def ready(self) -> dict[str, Any]:
        """Whether scripts can be run, and what is active in each sandbox of this machine that is allowed."""
        await threaded(self.store.ping)
        notes = await threaded(self._machine.tiers, self.settings.refused())
        usable = any(not why for _, why in notes.values())
        sandboxes = {name: " ".join(filter(None, note)) or "available" for name, note in notes.items()}
        return {"ready": usable and not self.queue.stopping, "sandboxes": sandboxes}

    def status(self) -> PoolStatus:
        """What the workers do."""
        return self.pool.status()
