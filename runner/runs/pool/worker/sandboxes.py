"""Opened sandboxes: one for each config, closed when it was idle for minutes."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any

from runner.runs.pool.worker.programs import Programs, seen
from runner.runs.pool.worker.turns import Turns
from sandboxes.base import LOG, Sandbox
from sandboxes.cores import cores
from sandboxes.registry import create
from sandboxes.shield import finish

IDLE = 300.0
"""Seconds after which a sandbox that nobody uses is closed."""
MOST = 8
"""Sandboxes that are open at once."""


class Opened:
    """A sandbox that is open, or being opened, and whoever uses it."""

    def __init__(self, number: int, key: str, sandbox: Sandbox) -> None:
        self.number = number
        self.key = key
        self.sandbox = sandbox
        self.opening = asyncio.create_task(self._open())
        self.opening.add_done_callback(seen)
        self.turns = Turns(sandbox.concurrency)
        self.users = 0
        self.used = 0.0
        self.losses = 0
        """Times that it was lost, with nothing that it did well in between."""

    async def _open(self) -> None:
        try:
            await self.sandbox.open()
        except BaseException:
            await finish(self.sandbox.close)
            raise


class Sandboxes:
    """Opens each sandbox once, also if many want it at once. One that fails to open, or is lost, is forgotten."""

    def __init__(
        self, programs: Programs, *, idle: float = IDLE, most: int = MOST, clock: Callable[[], float] = monotonic
    ) -> None:
        self.programs = programs
        self._idle = idle
        self._most = most
        self._clock = clock
        self._kept: dict[str, Opened] = {}
        self._numbers = itertools.count(1)
        self._left = asyncio.Condition()
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._kept)

    async def take(self, wanted: Sandbox) -> Opened:
        """
        The open sandbox with the config of `wanted`; give it back with `leave`. Raises what `Sandbox.open` does.

        It goes on being opened when nobody waits for it any more: the next one will want it.
        """
        key = _key(wanted)
        async with self._left:
            while key not in self._kept and len(self._kept) >= self._most and not self._make_room():
                await self._left.wait()
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = Opened(next(self._numbers), key, _with_lanes(wanted))
        found.users += 1
        try:
            await asyncio.shield(found.opening)
        except BaseException:
            if found.opening.done():
                self.forget(found)
            self.leave(found)
            raise
        return found

    def leave(self, opened: Opened) -> None:
        """One user less."""
        opened.users -= 1
        opened.used = self._clock()
        if not opened.users:
            if self._kept.get(opened.key) is not opened:
                self._end(opened)
            self._begin(self._tell())

    def forget(self, opened: Opened) -> None:
        """Let the next user open another one. It is closed when the last of its users has left."""
        if self._kept.get(opened.key) is opened:
            del self._kept[opened.key]
            self.programs.forget_all(opened.number)
            if not opened.users:
                self._end(opened)

    def sweep(self) -> None:
        """Close what was idle for too long."""
        for opened in list(self._kept.values()):
            if not opened.users and opened.opening.done() and self._clock() - opened.used >= self._idle:
                self.forget(opened)

    async def close(self) -> None:
        """Close everything, whoever uses it."""
        for opened in list(self._kept.values()):
            opened.users = 0
            self.forget(opened)
        await self.ended()

    async def ended(self) -> None:
        """Wait until all that was forgotten is closed."""
        await self.programs.ended()
        while self._ending:
            await asyncio.wait(self._ending)

    def _make_room(self) -> bool:
        idle = [one for one in self._kept.values() if not one.users and one.opening.done()]
        if idle:
            self.forget(min(idle, key=lambda one: one.used))
        return bool(idle)

    async def _tell(self) -> None:
        async with self._left:
            self._left.notify_all()

    def _end(self, opened: Opened) -> None:
        self._begin(_close(opened, self.programs))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _close(opened: Opened, programs: Programs) -> None:
    if not opened.opening.done():
        opened.opening.cancel()
        await asyncio.wait({opened.opening})
    if opened.opening.cancelled() or opened.opening.exception() is not None:
        return  # it closed itself
    try:
        await programs.ended()
        await finish(opened.sandbox.close)
    except Exception as e:  # nobody waits for it who could be told
        LOG.warning("a sandbox could not be closed: %s", e)


def _with_lanes(wanted: Sandbox) -> Sandbox:
    """A sandbox with a lane more than runs use; elsewhere a lane is a machine, which costs."""
    config = wanted.config
    jobs = cores() + 1 if not wanted.capabilities.elsewhere else max(2, config.jobs or cores())
    made = create(config.model_copy(update={"jobs": jobs}))
    made.eager = False  # a dry run needs one lane
    return made


def _key(wanted: Sandbox) -> str:
    """What makes a sandbox another one: its config, and which files those are that it names."""
    config = wanted.config
    left_out = {"install_timeout"} if wanted.capabilities.elsewhere else {"install_timeout", "jobs"}
    files = []
    for path in config.files.values():
        with suppress(OSError):
            about = os.stat(path)
            files.append((about.st_ino, about.st_size, about.st_mtime_ns))
    return f"{type(wanted).__qualname__} {config.model_dump_json(exclude=left_out)} {files}"
