"""Loaded programs: the least recently used are closed when they are too many, or hold too much memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

from sandboxes.base import LOG, Limits, Program, Sandbox, Script
from sandboxes.shield import finish

MOST = 128
"""Programs that are loaded; those in use are not counted out."""
BYTES = 1200 << 20
"""Memory of the worker and all below it, beyond which programs that are not in use are closed."""
_EACH = 10 << 20  # bytes that closing one frees, about


class Key(NamedTuple):
    """What a program was loaded from."""

    sandbox: int
    script: Script
    limits: Limits


class Loaded:
    """A program, or one that is being loaded. `users` may run it at the same time."""

    def __init__(self, key: Key, loading: asyncio.Task[Program]) -> None:
        self.key = key
        self.loading = loading
        self.users = 0
        self.used = 0.0

    @property
    def program(self) -> Program:
        """The program, once it is loaded."""
        return self.loading.result()


class Programs:
    """Loads each program once, and keeps it. `measure` gives the bytes that are held; 0 where that is not known."""

    def __init__(
        self,
        measure: Callable[[], int],
        *,
        most: int = MOST,
        bytes: int = BYTES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._measure = measure
        self._most = most
        self._bytes = bytes
        self._clock = clock
        self._kept: dict[Key, Loaded] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.bytes = 0
        """Memory, as last measured."""

    def __len__(self) -> int:
        return len(self._kept)

    async def take(self, number: int, sandbox: Sandbox, script: Script, limits: Limits) -> Loaded:
        """
        The program, loaded if it is not kept; give it back with `leave`. `number` is the sandbox's.

        Raises what `Sandbox.load` does. Loading is stopped when nobody waits for it any more.
        """
        key = Key(number, script, limits)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = Loaded(key, asyncio.create_task(self._load(sandbox, script, limits)))
            found.loading.add_done_callback(seen)
        found.users += 1
        found.used = self._clock()
        try:
            await asyncio.shield(found.loading)
        except BaseException:
            if found.loading.done():
                self.forget(found)
            self.leave(found)
            raise
        if found.program.loaded.status != "ok":
            self.forget(found)  # it might load another time
        return found

    async def _load(self, sandbox: Sandbox, script: Script, limits: Limits) -> Program:
        program = await sandbox.load(script, limits)
        self.bytes = await asyncio.to_thread(self._measure)
        self._trim()
        return program

    def leave(self, loaded: Loaded) -> None:
        """One user less."""
        loaded.users -= 1
        loaded.used = self._clock()
        if not loaded.users:
            if self._kept.get(loaded.key) is not loaded:
                self._end(loaded)
            elif not loaded.loading.done():
                self.forget(loaded)

    def forget(self, loaded: Loaded) -> None:
        """Let the next user load it anew. It is closed when the last of its users has left."""
        if self._kept.get(loaded.key) is loaded:
            del self._kept[loaded.key]
            if not loaded.users:
                self._end(loaded)

    def forget_all(self, number: int) -> None:
        """Forget those of one sandbox."""
        for loaded in [one for one in self._kept.values() if one.key.sandbox == number]:
            self.forget(loaded)

    async def ended(self) -> None:
        """Wait until all that was forgotten is closed."""
        while self._ending:
            await asyncio.wait(self._ending)

    def _trim(self) -> None:
        idle = sorted((one for one in self._kept.values() if not one.users), key=lambda one: one.used)
        over = max(len(self._kept) - self._most, -(-(self.bytes - self._bytes) // _EACH))
        for loaded in idle[: max(0, over)]:
            self.forget(loaded)

    def _end(self, loaded: Loaded) -> None:
        task = asyncio.create_task(_close(loaded))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _close(loaded: Loaded) -> None:
    if not loaded.loading.done():
        loaded.loading.cancel()
        await asyncio.wait({loaded.loading})
    if loaded.loading.cancelled() or loaded.loading.exception() is not None:
        return
    try:
        await finish(loaded.program.close)
    except Exception as e:  # nobody waits for it who could be told
        LOG.warning("a program could not be closed: %s", e)


def seen(task: asyncio.Task[Any]) -> None:
    """So that the loop does not report an exception which all who waited for it were told."""
    if not task.cancelled():
        task.exception()
