"""How tests use a provider: opened at its local server, a machine of their own, and commands there."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sandboxes.registry import find
from sandboxes.remote.provider import OWNER, Command, CommandResult, ListedMachine, Machine, Order
from tests.remote.serving import Server

TAGS = {"owner": OWNER, "run": "r1", "host": "h", "pid": "7"}


def order(
    key: str = "",
    *,
    lifetime: int = 60,
    network: bool = False,
    tags: Mapping[str, str] = TAGS,
    lock: str | None = None,
) -> Order:
    key = key or f"evalcell-{secrets.token_hex(4)}"
    return Order(key, {**tags, "key": key}, lifetime, network, 1 << 28, lock)


@asynccontextmanager
async def opened(server: Server, **instead: str) -> AsyncIterator[Any]:
    """Our side of the provider whose local server it is; some settings `instead` of the server's."""
    provider = find(server.name).provider(server.environment | instead)  # type: ignore[attr-defined]
    await provider.open()
    try:
        async with asyncio.timeout(60):
            yield provider
    finally:
        await provider.close()
        await provider.close()


@asynccontextmanager
async def machine(provider: Any, key: str = "", **of: Any) -> AsyncIterator[Machine]:
    made: Machine = await provider.create(order(key, **of))
    try:
        yield made
    finally:
        await provider.kill(made.id)


@asynccontextmanager
async def new_machine(server: Server, **of: Any) -> AsyncIterator[tuple[Any, Machine]]:
    async with opened(server) as provider, machine(provider, **of) as made:
        yield provider, made


async def told(provider: Any, at: Machine, *argv: str | Command, **of: Any) -> tuple[CommandResult, bytes]:
    heard = bytearray()
    command = argv[0] if isinstance(argv[0], Command) else Command(argv, **of)  # type: ignore[arg-type]
    return await provider.execute(at, command, heard.extend), bytes(heard)


def python_command(code: str, *words: str, **more: Any) -> Command:
    return Command(("python3", "-I", "-S", "-c", code, *words), **more)


def sh(script: str, data: bytes = b"", timeout: float = 20) -> Command:
    return Command(("sh", "-c", script), data, {}, timeout)


async def listed(provider: Any) -> list[ListedMachine]:
    return [each async for each in provider.list()]
