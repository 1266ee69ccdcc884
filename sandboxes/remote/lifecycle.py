"""
Who owns a machine: from the moment its creation is asked until its end is confirmed, in a ledger on disk too.

Nothing here can be cancelled halfway. What is cancelled leaves a task behind that sees to the machine, and `close`
waits for those, for a bounded time; what even then is not known to have ended stays in the ledger, for `evalcell reap`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from aiolimiter import AsyncLimiter

from sandboxes.errors import SandboxError
from sandboxes.remote import ledger
from sandboxes.remote.provider import (
    OWNER,
    BusyError,
    FullError,
    GoneError,
    Machine,
    Order,
    Provider,
    ProviderError,
    RefusedError,
    UnreachableError,
)
from sandboxes.remote.retry import Pauses, again, ended
from sandboxes.shield import finish

_SOON = 3.0
"""Seconds of ending machines that nobody needs to be told of."""


class Lifecycle:
    """The machines of one run."""

    def __init__(
        self,
        provider: Provider,
        pauses: Pauses,
        warn: Callable[[str], None],
        *,
        start_timeout: float,
        bake_timeout: float = 0.0,
        lifetime: int,
    ) -> None:
        self.run = secrets.token_hex(5)
        self._provider = provider
        self._pauses = pauses
        self._warn = warn
        self._start_timeout = start_timeout
        self._bake_timeout = bake_timeout
        self._lifetime = lifetime if provider.extends else provider.longest
        self._ledger = ledger.Ledger()
        self._pace = AsyncLimiter(1, 1 / provider.pace)
        self._ours: dict[str, str] = {}
        """The ids of machines that run for us, by their keys."""
        self._ids: dict[str, str] = {}
        """Those of all that were made, by their keys."""
        self._unclear: set[str] = set()
        """The keys of orders of which some attempt may have made a machine."""
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self._late = ""
        """Once the time for ending machines is over: what to tell of that."""

    async def create(self, *, network: bool, memory: int, lock: str | None = None) -> Machine:
        """
        A machine, which the caller gives back to `end`. Raises a ProviderError, FullError at once.

        An attempt whose fate is unclear is looked for before there is another.
        """
        key = f"evalcell-{self.run}-{secrets.token_hex(4)}"
        tags = {"owner": OWNER, "key": key, "run": self.run, **ledger.own_tags()}
        order = Order(key, tags, self._lifetime, network, memory, lock)
        await self._pace.acquire()
        self._refuse_when_closed()
        self._ledger.creating(self._provider.name, self._provider.address, key, self.run)
        making = asyncio.create_task(self._made(order))
        try:
            machine = await asyncio.shield(making)
            self._refuse_when_closed()
            return machine
        except BaseException:
            if making.done() and key in self._ours:  # it was made, and could not be noted, or comes too late
                self.end(Machine(self._ours[key], key))
            else:
                self._see_to(key, partial(self._undo, key, making))
            raise

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox was closed while something ran in it; close it after that")

    async def _made(self, order: Order) -> Machine:
        told: list[ProviderError] = []
        seconds = max(self._start_timeout, self._bake_timeout) if order.lock else self._start_timeout

        async def attempt() -> Machine:
            try:
                return await once()
            except (BusyError, UnreachableError) as e:
                if not told:
                    told.append(e)
                    self._warn(f"{e}; asking again")
                raise

        async def once() -> Machine:
            if order.key in self._unclear and (found := await self._provider.find(order.key)):
                return found
            try:
                async with asyncio.timeout(seconds):
                    return await self._provider.create(order)
            except TimeoutError:
                self._unclear.add(order.key)
                raise UnreachableError(f"{self._provider.name} made no machine in {seconds:g} s") from None
            except UnreachableError as e:
                if e.sent:
                    self._unclear.add(order.key)
                raise

        try:
            machine = await again(attempt, self._pauses)
        except (BusyError, FullError, UnreachableError):
            if order.key not in self._unclear:
                self._ledger.settled(order.key)
            raise
        self._ours[order.key] = self._ids[order.key] = machine.id
        self._ledger.created(order.key, machine.id)
        return machine

    async def _undo(self, key: str, making: asyncio.Task[Machine]) -> None:
        """Ends the machine that an order may have made, or may still make."""
        machine: Machine | None = None
        refused = False
        try:
            machine = await making
        except (RefusedError, GoneError):
            refused = key not in self._unclear
        except asyncio.CancelledError:
            if self._late or not making.cancelled():
                raise
        except Exception:  # whatever it is, it is told where the machine was wanted
            pass
        if machine is None and key in self._ours:
            machine = Machine(self._ours[key], key)
        if machine is None and not self._ledger.is_settled(key):
            machine = await self._looked_for(key, 1 if refused else 3)
        if machine is not None:
            await self._end(key, machine.id)
        elif refused:
            self._ledger.settled(key)
        elif not self._ledger.is_settled(key):
            self._leave(key, f"it is unclear whether a machine was made (it was ordered as {key})")

    async def _looked_for(self, key: str, times: int) -> Machine | None:
        """An order whose answer was lost may be carried out late; one that failed, after it had made a machine."""
        for time in range(times):
            await asyncio.sleep(min(3 * time * self._pauses.first, self._pauses.longest))
            with suppress(ProviderError):
                if found := await again(lambda: self._provider.find(key), self._pauses):
                    return found
        return None

    def end(self, machine: Machine) -> None:
        """Begins to end it; `close` waits for that. Safe twice."""
        if machine.key in self._ours:
            del self._ours[machine.key]
            self._see_to(machine.key, partial(self._end, machine.key, machine.id))

    async def _end(self, key: str, id: str) -> None:
        self._ours.pop(key, None)
        self._ids[key] = id
        try:
            await ended(self._provider, id, self._pauses)
            self._ledger.settled(key)
        except Exception as e:  # also of a provider that has a fault of its own
            self._leave(key, self._running(key, e))

    def _running(self, key: str, why: BaseException) -> str:
        """That a machine may still run: which, and why."""
        which = f"machine {self._ids[key]}" if key in self._ids else f"the machine ordered as {key}"
        stopped = self._late or "its end was stopped"
        reason = stopped if isinstance(why, asyncio.CancelledError) else str(why) or type(why).__name__
        return f"{which} may still run ({reason})"

    def _leave(self, key: str, why: str) -> None:
        """From now on it is for `evalcell reap`, though this process lives on."""
        with suppress(SandboxError):
            self._ledger.left(key)
        self._warn(f"{self._provider.name}: {why}; run: evalcell reap")

    def _see_to(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._seen_to(key, work))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _seen_to(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        for last in (False, True):
            try:
                return await work()
            except BaseException as e:  # it was stopped, or the provider's class has a fault of its own
                if isinstance(e, asyncio.CancelledError) and not (last or self._late):
                    continue  # a loop that ends cancels all that goes on, and waits for what does not obey
                if not self._ledger.is_settled(key):
                    self._leave(key, self._running(key, e))
                if not isinstance(e, Exception):
                    raise
                return

    def end_all(self) -> None:
        """As `end`, for all that are; there are no more from now on."""
        self._closed = True
        for key, id in list(self._ours.items()):
            self.end(Machine(id, key))

    async def close(self, seconds: float) -> None:
        """Ends all machines, and makes no more; waits at most so many seconds. Cancelling it does not hurry it."""
        self.end_all()
        await finish(lambda: self._close(seconds))

    async def _close(self, seconds: float) -> None:
        if self._ending:
            soon = min(_SOON, seconds)
            await asyncio.wait(set(self._ending), timeout=soon)
            if self._ending:
                self._warn(f"{self._provider.name}: waiting for {len(self._ending)} of its machines to end")
                await asyncio.wait(set(self._ending), timeout=seconds - soon)
        self._late = f"its end took longer than the {seconds:g} s there were for it"
        for task in self._ending:
            task.cancel()
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=5)
