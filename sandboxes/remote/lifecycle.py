"""
The life of machines: from the request to create one until its end is confirmed, recorded in a ledger on disk.

Nothing here is cancelled half-way: cancellation leaves a task that deals with the machine, and `close` waits for these
tasks for a bounded time. A machine that is not known to have ended then stays in the ledger for `evalcell reap`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from aiolimiter import AsyncLimiter

from sandboxes.errors import SandboxError
from sandboxes.host.shield import finish
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
from sandboxes.remote.retry import Pauses, end_machine, retry

_SOON = 3.0
"""Seconds to end machines before the user is told that this is going on."""


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
        """Ids of the machines that run for us, by key."""
        self._ids: dict[str, str] = {}
        """Ids of all machines that were created, by key."""
        self._unclear: set[str] = set()
        """Keys of orders whose attempts may have created a machine."""
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self._late = ""
        """Set once the time for ending machines is over: the message about it."""

    async def create(self, *, network: bool, memory: int, lock: str | None = None) -> Machine:
        """
        Create a machine, which the caller passes to `end`. Raises a ProviderError, FullError at once.

        After an attempt with an unknown outcome it looks for the machine before the next attempt.
        """
        key = f"evalcell-{self.run}-{secrets.token_hex(4)}"
        tags = {"owner": OWNER, "key": key, "run": self.run, **ledger.own_tags()}
        order = Order(key, tags, self._lifetime, network, memory, lock)
        await self._pace.acquire()
        self._refuse_when_closed()
        self._ledger.record_order(self._provider.name, self._provider.address, key, self.run)
        making = asyncio.create_task(self._create(order))
        try:
            machine = await asyncio.shield(making)
            self._refuse_when_closed()
            return machine
        except BaseException:
            if making.done() and key in self._ours:  # it was created, and could not be recorded, or comes too late
                self.end(Machine(self._ours[key], key))
            else:
                self._begin(key, partial(self._undo, key, making))
            raise

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox was closed while a program ran in it; close it after the program")

    async def _create(self, order: Order) -> Machine:
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
                raise UnreachableError(f"{self._provider.name} created no machine within {seconds:g} s") from None
            except UnreachableError as e:
                if e.sent:
                    self._unclear.add(order.key)
                raise

        try:
            machine = await retry(attempt, self._pauses)
        except (BusyError, FullError, UnreachableError):
            if order.key not in self._unclear:
                self._ledger.record_end(order.key)
            raise
        self._ours[order.key] = self._ids[order.key] = machine.id
        self._ledger.record_creation(order.key, machine.id)
        return machine

    async def _undo(self, key: str, making: asyncio.Task[Machine]) -> None:
        """End the machine that an order may have created, or may still create."""
        machine: Machine | None = None
        refused = False
        try:
            machine = await making
        except (RefusedError, GoneError):
            refused = key not in self._unclear
        except asyncio.CancelledError:
            if self._late or not making.cancelled():
                raise
        except Exception:  # reported where the machine was wanted
            pass
        if machine is None and key in self._ours:
            machine = Machine(self._ours[key], key)
        if machine is None and not self._ledger.is_ended(key):
            machine = await self._find(key, 1 if refused else 3)
        if machine is not None:
            await self._end(key, machine.id)
        elif refused:
            self._ledger.record_end(key)
        elif not self._ledger.is_ended(key):
            self._give_up(key, f"a machine may have been created (ordered as {key})")

    async def _find(self, key: str, times: int) -> Machine | None:
        """Look for the machine of an order that failed or whose answer was lost; the order may still be carried out."""
        for time in range(times):
            await asyncio.sleep(min(3 * time * self._pauses.first, self._pauses.longest))
            with suppress(ProviderError):
                if found := await retry(lambda: self._provider.find(key), self._pauses):
                    return found
        return None

    def end(self, machine: Machine) -> None:
        """Begin to end a machine; `close` waits for it. Safe twice."""
        if machine.key in self._ours:
            del self._ours[machine.key]
            self._begin(machine.key, partial(self._end, machine.key, machine.id))

    async def _end(self, key: str, id: str) -> None:
        self._ours.pop(key, None)
        self._ids[key] = id
        try:
            await end_machine(self._provider, id, self._pauses)
            self._ledger.record_end(key)
        except Exception as e:  # also for a bug in the provider's class
            self._give_up(key, self._may_still_run(key, e))

    def _may_still_run(self, key: str, why: BaseException) -> str:
        """The message that a machine may still run: which, and why."""
        which = f"machine {self._ids[key]}" if key in self._ids else f"the machine ordered as {key}"
        stopped = self._late or "ending it was interrupted"
        reason = stopped if isinstance(why, asyncio.CancelledError) else str(why) or type(why).__name__
        return f"{which} may still run ({reason})"

    def _give_up(self, key: str, why: str) -> None:
        """Leave the machine to `evalcell reap`, though this process lives on."""
        with suppress(SandboxError):
            self._ledger.record_abandonment(key)
        self._warn(f"{self._provider.name}: {why}; run: evalcell reap")

    def _begin(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._run_to_end(key, work))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _run_to_end(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        for last in (False, True):
            try:
                return await work()
            except BaseException as e:  # cancelled, or a bug in the provider's class
                if isinstance(e, asyncio.CancelledError) and not (last or self._late):
                    continue  # a closing event loop cancels all tasks, and waits for those that go on
                if not self._ledger.is_ended(key):
                    self._give_up(key, self._may_still_run(key, e))
                if not isinstance(e, Exception):
                    raise
                return

    def end_all(self) -> None:
        """Begin to end all machines, and refuse to create others."""
        self._closed = True
        for key, id in list(self._ours.items()):
            self.end(Machine(id, key))

    async def close(self, seconds: float) -> None:
        """End all machines, and wait for that at most so many seconds, also if cancelled."""
        self.end_all()
        await finish(lambda: self._close(seconds))

    async def _close(self, seconds: float) -> None:
        if self._ending:
            soon = min(_SOON, seconds)
            await asyncio.wait(set(self._ending), timeout=soon)
            if self._ending:
                self._warn(f"{self._provider.name}: waiting for {len(self._ending)} machines to end")
                await asyncio.wait(set(self._ending), timeout=seconds - soon)
        self._late = f"ending it took longer than {seconds:g} s"
        for task in self._ending:
            task.cancel()
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=5)
