"""A server as operations ask it. They are coroutines; a client that blocks runs them in its own thread."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx
import stamina

from runner.core.errors import ServerError
from runner.server.client.connection import CHUNK, ServerConnection
from runner.server.client.problems import as_ours
from runner.server.client.requests import Ask, Reply, as_model
from sandboxes.base import Model

T = TypeVar("T")
M = TypeVar("M", bound=Model)
_UNDOING = 5.0
"""Seconds for the request that stops what nobody waits for any longer."""
_Body = tuple[httpx.Response, AsyncIterator[bytes]]


class Server:
    """What operations can do, without holding up the event loop."""

    _kind: Callable[..., Any] = httpx.AsyncClient

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._http: Any = connection.client(self._kind)

    async def ask(self, ask: Ask) -> Reply:
        """
        Return the reply to a request, which is sent again while the server is busy or away.

        Raises as this machine does.
        """
        return await self._tried(lambda: self._once(ask))

    async def ask_for(self, model: type[M], ask: Ask) -> M:
        """Return the reply to a request, as a model."""
        return as_model(model, (await self.ask(ask)).body)

    @asynccontextmanager
    async def listen(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[int, Callable[[], Awaitable[bytes]]]]:
        """Open a reply that is read as it comes: its status, and what gives its next bytes; none at its end."""
        connection = self._connection

        async def opened() -> _Body:
            await held.aclose()  # what an earlier attempt opened
            with connection.translated():
                reply, pieces = await held.enter_async_context(self._reply(connection.listening(path, headers)))
                connection.begun(reply)
                if not reply.is_success:
                    connection.finished(reply, await anext(pieces, b""))
                return reply, pieces

        async def more() -> bytes:
            with connection.translated():
                return await anext(pieces, b"")

        async with AsyncExitStack() as held:
            reply, pieces = await self._tried(opened)
            yield reply.status_code, more

    @asynccontextmanager
    async def undone_by(self, ask: Ask) -> AsyncIterator[None]:
        """Send this request if what is done within does not come to its end, whatever ends it."""
        try:
            yield
        except BaseException:
            with suppress(ServerError), self._shielded():
                await self._once(replace(ask, within=_UNDOING))
            raise

    async def _tried(self, attempted: Callable[[], Awaitable[T]]) -> T:
        try:
            async for attempt in self._attempts(self._connection.attempts()):
                with attempt:
                    return await attempted()
        except ServerError as error:
            raise as_ours(error) from None
        raise AssertionError("stamina raises the last error")

    async def _once(self, ask: Ask) -> Reply:
        connection = self._connection
        request = connection.request(ask, self._file(ask.file) if ask.file else None)
        with connection.translated():
            async with self._reply(request, CHUNK) as (reply, pieces):
                connection.begun(reply)
                body, most = bytearray(), connection.most(reply, ask)
                async for piece in pieces:
                    if not connection.add(body, piece, most, good=reply.is_success):
                        break
        return connection.finished(reply, bytes(body))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)

    async def call(self, work: Callable[[], T]) -> T:
        """Call what may take long, such as reading rows."""
        return await anyio.to_thread.run_sync(work)

    @asynccontextmanager
    async def _reply(self, request: dict[str, Any], size: int | None = None) -> AsyncIterator[_Body]:
        async with self._http.stream(**request) as reply:
            yield reply, reply.aiter_raw(size)

    async def _file(self, path: Path) -> Any:
        async with await anyio.open_file(path, "rb") as file:
            while piece := await file.read(CHUNK):
                yield piece

    def _attempts(self, how: dict[str, Any]) -> AsyncIterator[Any]:
        return aiter(stamina.retry_context(**how))

    def _shielded(self) -> AbstractContextManager[object]:
        return anyio.move_on_after(_UNDOING, shield=True)


class Blocking(Server):
    """The same in the caller's thread: nothing that it awaits ever suspends."""

    _kind = httpx.Client

    async def close(self) -> None:
        self._http.close()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, work: Callable[[], T]) -> T:
        return work()

    @asynccontextmanager
    async def _reply(self, request: dict[str, Any], size: int | None = None) -> AsyncIterator[_Body]:
        with self._http.stream(**request) as reply:
            yield reply, _each(reply.iter_raw(size))

    def _file(self, path: Path) -> Any:
        with open(path, "rb") as file:
            while piece := file.read(CHUNK):
                yield piece

    def _attempts(self, how: dict[str, Any]) -> AsyncIterator[Any]:
        return _each(iter(stamina.retry_context(**how)))

    def _shielded(self) -> AbstractContextManager[object]:
        return nullcontext()


def now(work: Awaitable[T]) -> T:
    """Return the value of an operation on a `Blocking` server."""
    try:
        next(iter(work.__await__()))
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("what blocks never suspends")


def each_now(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield what an operation on a `Blocking` server hands out, as it comes."""
    try:
        while True:
            try:
                item = now(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        now(items.aclose())


async def _each(items: Iterator[T]) -> AsyncIterator[T]:
    for item in items:
        yield item
