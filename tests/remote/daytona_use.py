"""How tests use Daytona: an open provider, a machine of their own, and commands there."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sandboxes.remote.daytona.provider import DaytonaProvider
from sandboxes.remote.provider import (
    Command,
    CommandResult,
    Machine,
    Order,
)
from tests.remote.serving import Server

TAGS = {"owner": "evalcell", "key": "k-1", "run": "r", "host": "h"}
SERVER = "tests.remote.daytona_server"


@asynccontextmanager
async def opened(server: Server, **other: str) -> AsyncIterator[DaytonaProvider]:
    provider = DaytonaProvider(server.environment | other)
    await provider.open()
    try:
        yield provider
    finally:
        await provider.close()
        await provider.close()


@asynccontextmanager
async def new_machine(server: Server, network: bool = False) -> AsyncIterator[tuple[DaytonaProvider, Machine]]:
    async with opened(server) as provider:
        machine = await provider.create(an_order(f"k-{secrets.token_hex(4)}", network=network))
        try:
            yield provider, machine
        finally:
            await provider.kill(machine.id)


def an_order(key: str = "k-1", *, network: bool = False, lifetime: int = 300) -> Order:
    return Order(key, TAGS | {"key": key}, lifetime, network, 1 << 30)


async def ran(provider: DaytonaProvider, machine: Machine, command: Command) -> tuple[CommandResult, bytes]:
    heard = bytearray()
    ended = await provider.execute(machine, command, heard.extend)
    return ended, bytes(heard)


def python_command(code: str, *words: str, **more: Any) -> Command:
    return Command(("python3", "-I", "-S", "-c", code, *words), **more)
