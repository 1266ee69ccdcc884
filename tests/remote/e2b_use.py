"""Our E2B provider, opened for a piece of work."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sandboxes.remote.e2b.provider import E2BProvider
from sandboxes.remote.provider import OWNER, Command, CommandResult, ListedMachine, Machine, Order

Work = Callable[[E2BProvider], Awaitable[None]]


def using(values: Mapping[str, str], work: Work) -> None:
    async def body() -> None:
        provider = E2BProvider(values)
        await provider.open()
        try:
            async with asyncio.timeout(60):
                await work(provider)
        finally:
            await provider.close()
            await provider.close()

    asyncio.run(body())


def order(key: str = "", *, network: bool = False, lifetime: int = 60) -> Order:
    key = key or f"key-{secrets.token_hex(4)}"
    return Order(key, {"owner": OWNER, "key": key, "run": "r1"}, lifetime, network, 1 << 28)


async def ran(provider: E2BProvider, machine: Machine, *argv: str, **more: Any) -> tuple[CommandResult, bytes]:
    heard: list[bytes] = []
    ended = await provider.execute(machine, Command(argv, **more), heard.append)
    return ended, b"".join(heard)


async def listed(provider: E2BProvider) -> list[ListedMachine]:
    return [found async for found in provider.list()]
