"""How tests use Modal: an open provider, a machine of their own, and commands there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from sandboxes.remote.modal.provider import ModalProvider
from sandboxes.remote.provider import (
    OWNER,
    Command,
    CommandResult,
    Machine,
    Order,
)
from tests.remote.serving import Server

TAGS = {"owner": OWNER, "key": "one", "run": "r", "host": "h", "pid": "7", "started": "1"}
MB = 1 << 20


def order(key: str = "one", *, lifetime: int = 300, network: bool = False, lock: str | None = None) -> Order:
    return Order(key, TAGS | {"key": key}, lifetime, network, 256 * MB, lock)


def run(server: Server, work: Callable[[ModalProvider], Awaitable[None]], **values: str) -> None:
    async def main() -> None:
        provider = ModalProvider({**server.environment, **values})
        await provider.open()
        try:
            await work(provider)
        finally:
            await provider.close()
            await provider.close()

    asyncio.run(main())


@asynccontextmanager
async def machine(provider: ModalProvider, wanted: Order | None = None) -> AsyncIterator[Machine]:
    made = await provider.create(wanted or order())
    try:
        yield made
    finally:
        await provider.kill(made.id)


async def told(provider: ModalProvider, made: Machine, command: Command) -> tuple[bytes, CommandResult]:
    said: list[bytes] = []
    ended = await provider.execute(made, command, said.append)
    assert all(said)
    return b"".join(said), ended


def sh(script: str, data: bytes = b"", timeout: float = 20, **env: str) -> Command:
    return Command(("sh", "-c", script), data, env, timeout)
