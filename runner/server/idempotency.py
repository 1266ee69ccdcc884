"""`Idempotency-Key`: a request that is sent again gets the reply that it got."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from runner.service.errors import ServiceError
from runner.service.part import threaded

M = TypeVar("M", bound=BaseModel)
_MOST = 200


class OnlyOnce:
    """Does a request's work, or gives the reply that the same request got before."""

    def __init__(self, request: Request, key: str | None) -> None:
        self._request = request
        self._key = key

    async def get(self, model: type[M], work: Callable[[], Awaitable[M]], *, file: bool = False) -> M:
        """
        What `work` gives now, or gave. `file`: the body is a file that `work` reads as it comes.

        Raises ServiceError for a key of another request, and what `work` raises.
        """
        if self._key is None:
            return await work()
        request = self._request
        store = request.app.state.service.store
        key = hashlib.sha256(f"{request.method} {request.url.path}\0{self._key}".encode()).hexdigest()
        lock: asyncio.Lock = request.app.state.locks.setdefault(key, asyncio.Lock())  # there while somebody has it
        async with lock:
            digest = await self._digest(file)
            found = await threaded(store.recalled, key)
            if found is not None:
                if found.digest != digest:
                    raise ServiceError("idempotency", "the key was used for another request; choose a new one")
                return model.model_validate_json(found.reply)
            made = await work()
            await threaded(store.remember, key, digest, made.model_dump_json())
            return made

    async def _digest(self, file: bool) -> str:
        """Of what is asked. A file that is uploaded is told by its name and size: it is not held to be hashed first."""
        request = self._request
        asked = hashlib.sha256(request.url.query.encode())
        asked.update(request.headers.get("content-length", "").encode() if file else await request.body())
        return asked.hexdigest()


async def _once(
    request: Request, idempotency_key: Annotated[str | None, Header(min_length=1, max_length=_MOST)] = None
) -> OnlyOnce:
    return OnlyOnce(request, idempotency_key)


Once = Annotated[OnlyOnce, Depends(_once)]
