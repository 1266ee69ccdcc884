"""Bounds what is on its way to workers, in bytes."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from sandboxes.base import Call

PIECE = 8 << 20
"""Bytes of a batch's arguments above which it goes in pieces, if its rows share no state."""
MOST = 256 << 20
"""Bytes that are on their way at once. A batch that is larger goes alone."""


class Budget:
    """Room for so many bytes."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held = 0
        self._change = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncGenerator[None, None]:
        """Wait for room, and keep it meanwhile."""
        async with self._change:
            await self._change.wait_for(lambda: not self._held or self._held + size <= self._most)
            self._held += size
        try:
            yield
        finally:
            self._held -= size
            async with self._change:
                self._change.notify_all()


def calls_of(piece: bytes) -> list[Call]:
    """The calls of one part."""
    values = ({"id": n, "arguments": a, "positional": p, "seed": seed} for n, a, p, seed in pickle.loads(piece))
    return [Call.trusted(each) for each in values]


def pieces(calls: Sequence[Call], *, divisible: bool) -> list[tuple[bytes, int]]:
    """Calls as bytes, and how many each part has: one part, or more where they are large and may be divided."""
    # As plain values: models take four times as long, and so much room that Ray would put a batch into shared memory.
    values = [(call.id, call.arguments, call.positional, call.seed) for call in calls]
    whole = pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    if len(whole) <= PIECE or len(calls) == 1 or not divisible:
        return [(whole, len(calls))]
    half = len(calls) // 2
    return [*pieces(calls[:half], divisible=True), *pieces(calls[half:], divisible=True)]
