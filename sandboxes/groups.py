"""Results in groups: what is there at the same time is handed on together, which costs less than one step for each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def each(groups: AsyncGenerator[Sequence[T], None]) -> AsyncGenerator[T, None]:
    """Yield the members of the groups, one by one. Closing it closes `groups`."""
    async with aclosing(groups):
        async for group in groups:
            for one in group:
                yield one


def one_by_one(grouped: Callable[P, AsyncGenerator[Sequence[T], None]]) -> Callable[P, AsyncGenerator[T, None]]:
    """Return the same function without groups."""

    @wraps(grouped)
    def single(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return each(grouped(*args, **kwargs))

    return single
