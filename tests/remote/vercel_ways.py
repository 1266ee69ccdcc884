"""What the tests of VercelProvider begin with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sandboxes.remote.provider import Command, CommandResult, Machine, Order
from sandboxes.remote.vercel import VercelProvider
from tests.remote.serving import Server

TAGS = {"owner": "evalcell", "run": "r1", "host": "h", "pid": "1", "started": "2"}
SLOW = 40.0


def order(key: str, *, lifetime: int = 60, network: bool = False, tags: Mapping[str, str] = TAGS) -> Order:
    return Order(key, {**tags, "key": key}, lifetime, network, 1 << 30)


def run(server: Server, work: Callable[[VercelProvider], Awaitable[None]], **instead: str) -> None:
    async def main() -> None:
        provider = VercelProvider(server.environment | instead)
        await provider.open()
        try:
            async with asyncio.timeout(SLOW):
                await work(provider)
        finally:
            await provider.close()
            await provider.close()

    asyncio.run(main())


@asynccontextmanager
async def machine(provider: VercelProvider, key: str = "evalcell-one", **of: Any) -> AsyncIterator[Machine]:
    made = await provider.create(order(key, **of))
    try:
        yield made
    finally:
        await provider.kill(made.id)


async def told(provider: VercelProvider, at: Machine, *argv: str, **of: Any) -> tuple[CommandResult, bytes]:
    said = bytearray()
    return await provider.execute(at, Command(argv, **of), said.extend), bytes(said)
