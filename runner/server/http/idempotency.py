"""`Idempotency-Key`: a request that is sent again gets the reply that it got."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from runner.server.service.base import call_in_thread
from runner.server.service.errors import ServiceError

M = TypeVar("M", bound=BaseModel)
_MOST = 200


class OnlyOnce:
    """Does a request's work, or gives the reply that the same request got before."""

    def __init__(self, request: Request, key: str | None) -> None:
        self._request = request
        self._key = key

    async def get(
        self, model: type[M], work: Callable[[AsyncIterator[bytes]], Awaitable[M]], *, file: bool = False
    ) -> M:
        """
        Return what `work` gives now, or gave. It gets the body's parts; those of a `file` as they come, so that none is
        held.

        Raises:
            ServiceError: For a key of another request, and what `work` raises.
        """
        request = self._request
        if self._key is None:
            return await work(request.stream())
        store = request.app.state.service.store
        key = hashlib.sha256(f"{request.method} {request.url.path}\0{self._key}".encode()).hexdigest()
        lock: asyncio.Lock = request.app.state.locks.setdefault(key, asyncio.Lock())  # there while somebody has it
        async with lock:
            asked = _Asked(request)
            found = await call_in_thread(store.recalled, key)
            if found is not None or not file:
                async for _ in asked.parts():
                    pass
            if found is not None:
                if found.digest != asked.digest:
                    raise ServiceError("idempotency", "the key was used for another request; choose a new one")
                return model.model_validate_json(found.reply)
            made = await work(asked.parts() if file else request.stream())
            await call_in_thread(store.remember, key, asked.digest, made.model_dump_json())
            return made


class _Asked:
    """What is asked, by its hash: the query and the body."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._hash = hashlib.sha256(hashlib.sha256(request.url.query.encode()).digest())

    @property
    def digest(self) -> str:
        """Of what came so far."""
        return self._hash.hexdigest()

    async def parts(self) -> AsyncIterator[bytes]:
        """The body, hashed as it comes."""
        async for part in self._request.stream():
            self._hash.update(part)
            yield part


async def _once(
    request: Request, idempotency_key: Annotated[str | None, Header(min_length=1, max_length=_MOST)] = None
) -> OnlyOnce:
    return OnlyOnce(request, idempotency_key)


Once = Annotated[OnlyOnce, Depends(_once)]
