"""The two drivers of operations: one that blocks, and one that is awaited. Nothing but the waiting differs."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import httpx
import stamina

from runner.core.errors import ServerError
from runner.engine.reading import Reading
from runner.server.client.connection import CHUNK, Connection
from runner.server.client.problems import as_ours
from runner.server.client.steps import Ask, Item, Listen, More, Operation, Pause, Reply, Step, Undo, Work

T = TypeVar("T")
_UNDOING = 5.0
"""Seconds for the request that stops what nobody waits for any longer."""


class Done(NamedTuple):
    """What an operation returned."""

    value: Any


def _next(operation: Operation[Any], answer: Any, error: Exception | None) -> Step | Done:
    """Go on with an operation after its last step's answer or error."""
    try:
        return operation.send(answer) if error is None else operation.throw(error)
    except StopIteration as end:
        return Done(end.value)


class Blocking:
    """Does what operations ask, and waits for it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = connection.client(httpx.Client)

    def close(self) -> None:
        self._http.close()

    def value(self, operation: Operation[T]) -> T:
        """What an operation returns."""
        with closing(self._walk(operation)) as steps:
            found: T = next(step.value for step in steps if isinstance(step, Done))
            return found

    def items(self, operation: Operation[None]) -> Iterator[Any]:
        """What an operation hands out, as it comes."""
        with closing(self._walk(operation)) as steps:
            yield from (step.value for step in steps if isinstance(step, Item))

    def _walk(self, operation: Operation[Any]) -> Generator[Item | Done, None, None]:
        with ExitStack() as held, closing(operation):
            reader = _Reader(held.enter_context(ExitStack()))
            held.callback(self._undo, reader)
            answer: Any = None
            error: Exception | None = None
            while not isinstance(step := _next(operation, answer, error), Done):
                answer, error = None, None
                if isinstance(step, Item):
                    yield step
                    continue
                try:
                    answer = self._perform(step, reader)
                except Exception as failed:
                    error = as_ours(failed)  # the operation's to handle, or to raise
            reader.undo = None
            yield step

    def _perform(self, step: Step, reader: _Reader) -> Any:
        match step:
            case Ask():
                return self._ask(step)
            case Listen():
                for attempt in stamina.retry_context(**self._connection.attempts()):
                    with attempt:
                        return self._listen(step, reader)
            case More():
                with self._connection.translated():
                    return next(reader.pieces, b"")
            case Undo():
                reader.undo = step.ask
            case Pause():
                time.sleep(step.seconds)
            case Work():
                return step.call()
        return None

    def _undo(self, reader: _Reader) -> None:
        if reader.undo is not None:
            with suppress(ServerError):
                self._once(replace(reader.undo, within=_UNDOING))

    def _ask(self, ask: Ask) -> Reply:
        for attempt in stamina.retry_context(**self._connection.attempts()):
            with attempt:
                return self._once(ask)
        raise AssertionError("stamina raises the last error")

    def _once(self, ask: Ask) -> Reply:
        connection = self._connection
        content = _pieces(ask.file) if ask.file else None
        with connection.translated(), self._http.stream(**connection.request(ask, content)) as reply:
            connection.begun(reply)
            body, most = bytearray(), connection.most(reply, ask)
            for piece in reply.iter_raw(CHUNK):
                if not connection.add(body, piece, most, good=reply.is_success):
                    break
        return connection.finished(reply, bytes(body))

    def _listen(self, step: Listen, reader: _Reader) -> int:
        connection = self._connection
        reader.held.close()
        with connection.translated():
            reply = reader.held.enter_context(self._http.stream(**connection.listening(step)))
            connection.begun(reply)
            reader.pieces = reply.iter_raw()
            if not reply.is_success:
                connection.finished(reply, next(reader.pieces, b""))
            return reply.status_code


class _Reader:
    """The reply that is open."""

    def __init__(self, held: ExitStack) -> None:
        self.held = held
        self.pieces: Iterator[bytes] = iter(())
        self.undo: Ask | None = None


class Awaited:
    """Does what operations ask, without holding up the event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._http = connection.client(httpx.AsyncClient)

    async def close(self) -> None:
        await self._http.aclose()

    async def value(self, operation: Operation[T]) -> T:
        """What an operation returns."""
        async with aclosing(self._walk(operation)) as steps:
            async for step in steps:
                if isinstance(step, Done):
                    found: T = step.value
                    return found
        raise AssertionError("an operation returns")

    async def items(self, operation: Operation[None]) -> AsyncGenerator[Any, None]:
        """What an operation hands out, as it comes."""
        reading = Reading(self._walk(operation))
        try:
            while (step := await reading.next()) is not None:
                if isinstance(step, Item):
                    yield step.value
        finally:
            await reading.end()

    async def _walk(self, operation: Operation[Any]) -> AsyncGenerator[Item | Done, None]:
        async with AsyncExitStack() as held:
            held.callback(operation.close)
            reader = _AsyncReader(await held.enter_async_context(AsyncExitStack()))
            held.push_async_callback(self._undo, reader)
            answer: Any = None
            error: Exception | None = None
            while not isinstance(step := _next(operation, answer, error), Done):
                answer, error = None, None
                if isinstance(step, Item):
                    yield step
                    continue
                try:
                    answer = await self._perform(step, reader)
                except Exception as failed:
                    error = as_ours(failed)  # the operation's to handle, or to raise
            reader.undo = None
            yield step

    async def _perform(self, step: Step, reader: _AsyncReader) -> Any:
        match step:
            case Ask():
                return await self._ask(step)
            case Listen():
                async for attempt in stamina.retry_context(**self._connection.attempts()):
                    with attempt:
                        return await self._listen(step, reader)
            case More():
                with self._connection.translated():
                    return await anext(reader.pieces, b"") if reader.pieces else b""
            case Undo():
                reader.undo = step.ask
            case Pause():
                await anyio.sleep(step.seconds)
            case Work():
                return await anyio.to_thread.run_sync(step.call)
        return None

    async def _undo(self, reader: _AsyncReader) -> None:
        if reader.undo is not None:
            with suppress(ServerError), anyio.move_on_after(_UNDOING, shield=True):
                await self._once(reader.undo)

    async def _ask(self, ask: Ask) -> Reply:
        async for attempt in stamina.retry_context(**self._connection.attempts()):
            with attempt:
                return await self._once(ask)
        raise AssertionError("stamina raises the last error")

    async def _once(self, ask: Ask) -> Reply:
        connection = self._connection
        content = _async_pieces(ask.file) if ask.file else None
        with connection.translated():
            async with self._http.stream(**connection.request(ask, content)) as reply:
                connection.begun(reply)
                body, most = bytearray(), connection.most(reply, ask)
                async for piece in reply.aiter_raw(CHUNK):
                    if not connection.add(body, piece, most, good=reply.is_success):
                        break
        return connection.finished(reply, bytes(body))

    async def _listen(self, step: Listen, reader: _AsyncReader) -> int:
        connection = self._connection
        await reader.held.aclose()
        with connection.translated():
            reply = await reader.held.enter_async_context(self._http.stream(**connection.listening(step)))
            connection.begun(reply)
            reader.pieces = reply.aiter_raw()
            if not reply.is_success:
                connection.finished(reply, await anext(reader.pieces, b""))
            return reply.status_code


class _AsyncReader:
    """The reply that is open."""

    def __init__(self, held: AsyncExitStack) -> None:
        self.held = held
        self.pieces: AsyncIterator[bytes] | None = None
        self.undo: Ask | None = None


def _pieces(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(CHUNK):
            yield piece


async def _async_pieces(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while piece := await file.read(CHUNK):
            yield piece
