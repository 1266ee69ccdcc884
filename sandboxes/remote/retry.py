"""Asking a provider again: with growing pauses and jitter, or when it says; only for what is safe to repeat."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import stamina

from sandboxes.base import Model
from sandboxes.remote.provider import BusyError, FullError, GoneError, Provider, UnreachableError

T = TypeVar("T")

logging.getLogger("stamina").addHandler(logging.NullHandler())  # or else its warnings come on standard error


_NEW = 1.0
"""Seconds in which a service that is in many places tells all of them of a new machine."""


class Pauses(Model):
    """Seconds; how long is waited for a provider that does not do what it is asked."""

    first: float = 0.3
    longest: float = 10.0
    """Between two attempts, unless the provider says."""
    altogether: float = 60.0


async def ended(provider: Provider, id: str, pauses: Pauses) -> None:
    """
    Ends a machine. To be told that there are too many is no answer to that: it is asked again.

    So it is, once, where there is said to be none: not all of a service may know of a new machine yet.
    """

    async def work() -> None:
        try:
            await provider.kill(id)
        except FullError as e:
            raise BusyError(str(e)) from None

    with suppress(GoneError):
        return await again(work, pauses)
    await asyncio.sleep(min(_NEW, pauses.longest))
    with suppress(GoneError):
        await again(work, pauses)


async def again(work: Callable[[], Awaitable[T]], pauses: Pauses, *, unsent: bool = False) -> T:
    """
    What `work` gives, which is begun anew when the provider was busy or could not be reached.

    With `unsent` only when it certainly got nothing. Raises the last ProviderError once it took too long.
    """

    def after(error: Exception) -> bool | float:
        if not isinstance(error, BusyError | UnreachableError):
            return False
        if unsent and isinstance(error, UnreachableError) and error.sent:
            return False
        if error.after is None or error.after < pauses.first:
            return True  # "at once", said again and again, is no reason to ask without a pause
        # An hour's Retry-After is no reason to hold a run for an hour.
        return error.after <= pauses.altogether and error.after + random.uniform(0, pauses.first)

    attempts = stamina.retry_context(
        on=after,
        attempts=None,
        timeout=pauses.altogether,
        wait_initial=pauses.first,
        wait_max=pauses.longest,
        wait_jitter=pauses.first,
    )
    async for attempt in attempts:
        with attempt:
            return await work()
    raise AssertionError("stamina raises the last error")
