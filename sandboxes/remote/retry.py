"""Ask a provider again, with growing pauses and jitter, or when it says; only for what is safe to repeat."""

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

logging.getLogger("stamina").addHandler(logging.NullHandler())  # otherwise its warnings go to standard error


_NEW = 1.0
"""Seconds until all locations of a service know a new machine."""


class Pauses(Model):
    """Seconds to wait for a provider that does not do what it is asked."""

    first: float = 0.3
    longest: float = 10.0
    """Longest pause between two attempts, unless the provider says."""
    total: float = 60.0


async def end_machine(provider: Provider, id: str, pauses: Pauses) -> None:
    """
    End a machine. FullError does not end the attempts.

    If the provider says that it does not exist, ask once more: not all of a service may know a new machine yet.
    """

    async def work() -> None:
        try:
            await provider.kill(id)
        except FullError as e:
            raise BusyError(str(e)) from None

    with suppress(GoneError):
        return await retry(work, pauses)
    await asyncio.sleep(min(_NEW, pauses.longest))
    with suppress(GoneError):
        await retry(work, pauses)


async def retry(work: Callable[[], Awaitable[T]], pauses: Pauses, *, unsent: bool = False) -> T:
    """
    Return what `work` returns; call it again if the provider was busy or could not be reached.

    With `unsent` only if the provider certainly got nothing. Raises the last ProviderError if it takes too long.
    """

    def after(error: Exception) -> bool | float:
        if not isinstance(error, BusyError | UnreachableError):
            return False
        if unsent and isinstance(error, UnreachableError) and error.sent:
            return False
        if error.after is None or error.after < pauses.first:
            return True  # a server that says "at once" again and again must not be asked without a pause
        # A Retry-After of an hour must not hold a run for an hour.
        return error.after <= pauses.total and error.after + random.uniform(0, pauses.first)

    attempts = stamina.retry_context(
        on=after,
        attempts=None,
        timeout=pauses.total,
        wait_initial=pauses.first,
        wait_max=pauses.longest,
        wait_jitter=pauses.first,
    )
    async for attempt in attempts:
        with attempt:
            return await work()
    raise AssertionError("stamina raises the last error")
