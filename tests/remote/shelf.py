"""A provider in memory, for tests of what stands above providers: its machines run nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import ClassVar, TypeVar

from sandboxes.remote.provider import (
    Command,
    CommandResult,
    GoneError,
    ListedMachine,
    Machine,
    OnOutput,
    Order,
    Provider,
)

T = TypeVar("T")

Happens = Callable[[str, int], BaseException | None]
"""From what is asked, and how often it was so far, to what goes wrong after it has been done."""


class Shelf(Provider):
    name: ClassVar[str] = "shelf"
    variables: ClassVar[tuple[str, ...]] = ()
    pace: ClassVar[float] = 10_000
    address = "shelf"

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.orders: dict[str, Order] = {}
        """Those whose machines run, by their ids."""
        self.asked: list[str] = []
        self.before: Happens = lambda what, times: None
        self.after: Happens = lambda what, times: None
        self.delay = 0.0
        self.silent: Callable[[str, int], bool] = lambda what, times: False
        """Whether what is asked is done, and the answer never comes."""

    async def _doing(self, what: str, do: Callable[[], T]) -> T:
        self.asked.append(what)
        times = self.asked.count(what)
        if wrong := self.before(what, times):
            raise wrong
        await asyncio.sleep(self.delay)
        done = do()
        if self.silent(what, times):
            await asyncio.Event().wait()
        await asyncio.sleep(self.delay)
        if wrong := self.after(what, times):
            raise wrong
        return done

    async def create(self, order: Order) -> Machine:
        return await self._doing("create", lambda: self._made(order))

    def _made(self, order: Order) -> Machine:
        self.orders.setdefault(f"id-{order.key}", order)
        return Machine(f"id-{order.key}", order.key)

    async def find(self, key: str) -> Machine | None:
        return await self._doing("find", lambda: Machine(f"id-{key}", key) if f"id-{key}" in self.orders else None)

    async def kill(self, id: str) -> None:
        await self._doing("kill", lambda: self.orders.pop(id, None))

    async def extend(self, machine: Machine, seconds: int) -> None:
        def do() -> None:
            if machine.id not in self.orders:
                raise GoneError("it is gone")

        await self._doing("extend", do)

    async def list(self) -> AsyncIterator[ListedMachine]:
        for id, order in list(self.orders.items()):
            yield ListedMachine(id, order.key, datetime.now(UTC), order.tags)

    async def execute(self, machine: Machine, command: Command, on_output: OnOutput) -> CommandResult:
        return await self._doing("execute", lambda: CommandResult(0))
