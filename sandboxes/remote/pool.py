"""The machines of one run, as many at once as are wanted and the account allows; whoever finds none free waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.provider import FullError, GoneError, Machine, Provider, ProviderError, RefusedError

_RETIRED = 120.0
"""Seconds before a machine's longest life is over that it gets no more work."""
_AGAIN = 5.0
"""Seconds between two tries to have one more while the account is full."""
_PROLONGING = 15.0
"""Seconds for prolonging one machine's life; the others wait for it, and the shortest life is a minute."""


class _Kept(NamedTuple):
    machine: Machine
    born: float


class Pool:
    """`make` brings a machine up and `end` lets it go; both are for this pool to call."""

    def __init__(
        self,
        provider: Provider,
        make: Callable[[], Awaitable[Machine]],
        end: Callable[[Machine], None],
        warn: Callable[[str], None],
        *,
        size: int,
        lifetime: int,
        wait: float,
    ) -> None:
        self._provider = provider
        self._make = make
        self._end = end
        self._warn = warn
        self._size = size
        self._lifetime = lifetime
        self._wait = wait
        self._kept: dict[str, _Kept] = {}
        self._idle: list[Machine] = []
        self._making = 0
        self._changed = asyncio.Event()
        self._not_before = 0.0

    async def take(self) -> Machine:
        """A machine for the caller alone, who gives it back or drops it. Raises a SandboxError."""
        since = monotonic()
        while True:
            if self._idle:
                machine = self._idle.pop()
                if monotonic() - self._kept[machine.key].born < self._provider.longest - _RETIRED:
                    return machine
                self.drop(machine)
            elif len(self._kept) + self._making < self._size and monotonic() >= self._not_before:
                if made := await self._another(since):
                    return made
            else:
                await self._change()

    async def _another(self, since: float) -> Machine | None:
        """One machine more; None where others must do, or where it is to be tried again."""
        self._making += 1
        try:
            machine = await self._make()
        except ProviderError as e:
            if isinstance(e, RefusedError) or (self._alone() and not isinstance(e, FullError)):
                raise
            self._put_off(e, since)
            return None
        finally:
            self._making -= 1
            self._changed.set()
        self._kept[machine.key] = _Kept(machine, monotonic())
        return machine

    def _alone(self) -> bool:
        return not self._kept and self._making == 1

    def _put_off(self, error: ProviderError, since: float) -> None:
        if self._alone() and monotonic() - since > self._wait:
            raise SandboxUnavailableError(
                f"{error}; waited {self._wait:.0f} s for room: end other machines (evalcell reap shows what is left of "
                "earlier runs), or try later"
            )
        if not self._not_before:
            self._warn(f"{error}; waiting for room" if self._alone() else f"{error}; going on with fewer machines")
        self._not_before = monotonic() + min(_AGAIN, self._wait)

    async def _change(self) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.05, self._not_before - monotonic()) if self._not_before else None):
                await self._changed.wait()

    def give_back(self, machine: Machine) -> None:
        if machine.key in self._kept:
            self._idle.append(machine)
            self._changed.set()

    def drop(self, machine: Machine) -> None:
        """It is not used again; its end begins. Safe twice."""
        if self._kept.pop(machine.key, None):
            self._end(machine)
            self._changed.set()

    async def keep_alive(self) -> None:
        """Prolongs the lives of all machines, until it is cancelled."""
        while self._provider.extends:
            await asyncio.sleep(self._lifetime / 3)
            await asyncio.gather(*(self._prolong(kept.machine) for kept in self._kept.values()))

    async def _prolong(self, machine: Machine) -> None:
        try:
            async with asyncio.timeout(_PROLONGING):
                await self._provider.extend(machine, self._lifetime)
        except GoneError:
            if any(idle.key == machine.key for idle in self._idle):
                self._idle = [idle for idle in self._idle if idle.key != machine.key]
                self.drop(machine)
        except Exception:  # a fault of the provider's class too: the others shall live on
            return  # the next time; or else whoever uses it will find out
