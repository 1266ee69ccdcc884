"""The machines of one run: as many at once as wanted and as the account allows; callers wait for a free one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.provider import FullError, GoneError, Machine, Provider, ProviderError, RefusedError

_RETIRED = 120.0
"""Seconds before the end of a machine's longest life during which it gets no more work."""
_AGAIN = 5.0
"""Seconds between attempts to create another machine while the account is full."""
_PROLONGING = 15.0
"""Seconds to extend the life of one machine; the others wait for it, and the shortest life is a minute."""


class _PooledMachine(NamedTuple):
    machine: Machine
    born: float


class MachinePool:
    """Machines to run commands in; `make` brings one up and `end` ends it."""

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
        self._kept: dict[str, _PooledMachine] = {}
        self._idle: list[Machine] = []
        self._line: list[object] = []
        self._making = 0
        self._changed = asyncio.Event()
        self._not_before = 0.0

    async def take(self) -> Machine:
        """Take a machine, which the caller gives back or drops. Raises a SandboxError."""
        since, place = monotonic(), object()
        self._line.append(place)  # whoever has waited longest is next: results are wanted in order
        try:
            while True:
                if self._idle and self._line[0] is place:
                    machine = self._idle.pop()
                    if monotonic() - self._kept[machine.key].born < self._provider.longest - _RETIRED:
                        return machine
                    self.drop(machine)
                elif not self._idle and len(self._kept) + self._making < self._size and monotonic() >= self._not_before:
                    self._line.remove(place)
                    try:
                        made = await self._add(since)
                    finally:
                        self._line.insert(0, place)
                    if made:
                        return made
                else:
                    await self._wait_for_change()
        finally:
            self._line.remove(place)
            self._changed.set()

    async def prepare(self, ready: Callable[[Machine], Awaitable[None]]) -> None:
        """
        Bring another machine up before it is asked for, if there may be one; others wait for it until it is `ready`.

        Raises a SandboxError.
        """
        if len(self._kept) + self._making < self._size and (made := await self._add(monotonic())):
            try:
                await ready(made)
            except BaseException:
                self.drop(made)
                raise
            self.give_back(made)

    async def _add(self, since: float) -> Machine | None:
        """Create another machine; None if the others must do or it is to be tried again."""
        self._making += 1
        try:
            machine = await self._make()
        except ProviderError as e:
            if isinstance(e, RefusedError) or (self._is_first() and not isinstance(e, FullError)):
                raise
            self._delay(e, since)
            return None
        finally:
            self._making -= 1
            self._changed.set()
        self._kept[machine.key] = _PooledMachine(machine, monotonic())
        return machine

    def _is_first(self) -> bool:
        return not self._kept and self._making == 1

    def _delay(self, error: ProviderError, since: float) -> None:
        if self._is_first() and monotonic() - since > self._wait:
            raise SandboxUnavailableError(
                f"{error}; waited {self._wait:.0f} s for a machine: end others (evalcell reap shows what is left of "
                "earlier runs), or try later"
            )
        if not self._not_before:
            self._warn(
                f"{error}; waiting until one ends" if self._is_first() else f"{error}; continuing with fewer machines"
            )
        self._not_before = monotonic() + min(_AGAIN, self._wait)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.05, self._not_before - monotonic()) if self._not_before else None):
                await self._changed.wait()

    def give_back(self, machine: Machine) -> None:
        if machine.key in self._kept:
            self._idle.append(machine)
            self._changed.set()

    def drop_idle(self) -> None:
        """Drop all machines that nobody uses."""
        while self._idle:
            self.drop(self._idle.pop())

    def drop(self, machine: Machine) -> None:
        """Stop using a machine and begin to end it. Safe twice."""
        if self._kept.pop(machine.key, None):
            self._end(machine)
            self._changed.set()

    async def keep_alive(self) -> None:
        """Extend the lives of all machines until cancelled."""
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
        except Exception:  # also for a bug in the provider's class, so that the other machines live on
            return  # try again next time; if the machine ends, its user will notice
