"""The workers of a run on a cluster: who is there, who is free, and what takes the place of one that died."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import uuid4

from sandboxes.base import Limits, SandboxConfig, Script
from sandboxes.cluster.connection import refuse_dead_node
from sandboxes.cluster.facts import place, refuse_other_program, refuse_other_worker
from sandboxes.cluster.member import STOP, Member, NotStartedError, WorkerDiedError, ask
from sandboxes.cluster.schedule import AHEAD, Schedule
from sandboxes.cluster.worker import NAMESPACE, Budget, NodeWorker, Reply
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.host.shield import begin, every, finish
from sandboxes.words.wording import DOOR

GRACE = 60.0
"""Seconds without any worker after which a run ends."""
_LOOK = 10.0  # seconds between two looks at whether anybody is there
_START = 120.0  # seconds for a worker's process to start; what it installs has the config's own time
_JOIN = 60.0  # seconds that a run waits for workers before it begins with those that are there
_ATTEMPTS = 3  # for the first worker
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds before a place is filled again


class Workers:
    """
    The workers. None is ever restarted by Ray, which would send a retry to the one that just died.

    `warn` is called with a line for the user.
    """

    def __init__(self, ray: Any, config: SandboxConfig, warn: Callable[[str], None]) -> None:
        self._ray = ray
        self._config = config
        self._warn = warn
        self._files: Any = {}
        self._variables: dict[str, str] = {}
        self._first: Member | None = None
        self._joining = 0
        self._unfinished: dict[str, Member] = {}
        self.budget = Budget()
        self._schedule = Schedule()
        self._races = Races[bytes]()
        self._replacing: set[asyncio.Task[None]] = set()
        self._programs: dict[int, tuple[Script, Limits]] = {}
        self._numbers = 0
        self.places = 0
        """The workers that are wanted."""
        self.members: list[Member] = []

    async def open(self, count: int, files: dict[str, bytes], variables: dict[str, str]) -> Reply:
        """
        Start so many workers; the facts of all of them. Those that the cluster has no room for join later.

        The first resolves the packages, and the others install its lock. For one that dies meanwhile, another one is
        started.

        Raises:
            SandboxUnavailableError: If one cannot start, or differs from the others in what decides scores.
        """
        self.places = count
        # Kept once by the cluster, and once more by each node that has a worker.
        self._files, self._variables = self._ray.put(files) if files else {}, variables
        first = self._first = await self._started_at_last()
        if first.facts["lock"] is not None:
            self._config = self._config.model_copy(update={"lock": first.facts["lock"]})
        starting = [asyncio.create_task(self._started()) for _ in range(count - 1)]
        try:
            done, _ = await asyncio.wait(starting, timeout=_JOIN) if starting else (set(), set())
            for error in (task.exception() for task in done):
                if error is not None and not isinstance(error, WorkerDiedError | NotStartedError):
                    raise error
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            raise
        if len(self.members) < count:
            self._warn(f"{len(self.members)} of {count} workers are there; the others join when the cluster has room")
        for task in starting:
            if not task.done() or task.exception() is not None:
                self._fill_place(task)
        return first.facts

    async def _started_at_last(self) -> Member:
        """The first worker; a node may go away meanwhile."""
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(WorkerDiedError):
                return await self._started()
        return await self._started()

    async def _started(self) -> Member:
        actor = self._ray.remote(NodeWorker).options(
            name=uuid4().hex,
            namespace=NAMESPACE,
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=2 * AHEAD + 2,
            scheduling_strategy="SPREAD",
        )
        member, joining = Member(actor.remote()), False
        try:
            member.facts = await self._ask(member, member.actor.hello, _START)
            self._joining += 1
            joining = True
            member.where = place(member.facts)
            refuse_other_program(member.where, member.facts)
            opening = self._config.install_timeout + _START
            config = pickle.dumps((DOOR.get(), self._config))
            member.facts |= await self._ask(member, member.actor.open, opening, config, self._files, self._variables)
            if (first := self._first) is not None:
                refuse_other_worker(first.where, first.facts, member.where, member.facts)
            for line in member.facts["warnings"] if first is None else ():
                self._warn(line)
            loaded: set[int] = set()
            while missing := self._programs.keys() - loaded:
                number = min(missing)
                script, limits = self._programs[number]
                await self._ask(member, member.actor.load, None, number, tuple(script), limits.model_dump())
                loaded.add(number)
        except BaseException:
            self._end(member)
            raise
        finally:
            self._joining -= joining
        self.members.append(member)
        self._schedule.join(member)
        return member

    async def load(self, script: Script, limits: Limits) -> tuple[int, Reply]:
        """Load a script in all workers; its number, and what loading gave."""
        self._numbers += 1
        number = self._numbers
        self._programs[number] = (script, limits)
        asked = (self._load_in(member, number, script, limits) for member in list(self.members))
        replies = [reply for reply in await asyncio.gather(*asked) if reply is not None]
        if not replies:
            raise SandboxUnavailableError("no worker of the cluster is left; look at `ray status`, and run it again")
        return number, replies[0]["loaded"]

    async def _load_in(self, member: Member, number: int, script: Script, limits: Limits) -> Reply | None:
        try:
            reply: Reply = await self._ask(member, member.actor.load, None, number, tuple(script), limits.model_dump())
        except WorkerDiedError:
            self._lose(member)
            return None
        return reply

    async def forget(self, number: int) -> None:
        """Close a program everywhere."""
        self._programs.pop(number, None)
        for member in self.members:
            if member.alive:
                member.actor.forget.remote(number)

    async def run(self, number: int, calls: bytes, rows: int, limits: Limits) -> bytes:
        """
        Return a free worker's reply to a batch. If that one dies, it is replaced, and the batch goes to another, once.

        A batch that takes much longer than others is tried by another worker, too, and the first reply counts: the
        machine may be slow. Not so with the network, where a row could do something twice.

        Raises:
            SandboxLostError: If a second worker dies.
            SandboxUnavailableError: Where none is left for a while.
        """
        with contextlib.suppress(WorkerDiedError):
            return await self._first_reply(number, calls, rows, limits)
        return await self._first_reply(number, calls, rows, limits)

    async def _first_reply(self, number: int, calls: bytes, rows: int, limits: Limits) -> bytes:
        member = await self._take()
        return await self._races.first(
            self._reply(member, number, calls, rows, limits),
            lambda: self._elsewhere(member, number, calls, rows, limits),
            None if self._config.network else self._schedule.patience(rows, member.busy),
            self._schedule.may_copy,
        )

    async def _elsewhere(self, other: Member, number: int, calls: bytes, rows: int, limits: Limits) -> bytes:
        with self._schedule.copy():
            return await self._reply(await self._take(other), number, calls, rows, limits)

    async def _reply(self, member: Member, number: int, calls: bytes, rows: int, limits: Limits) -> bytes:
        began = asyncio.get_running_loop().time()
        try:
            reply: bytes = await self._ask(member, member.actor.run, None, number, calls, limits.model_dump())
        except WorkerDiedError:
            self._lose(member)
            raise
        else:
            now = asyncio.get_running_loop().time()
            self._schedule.took(rows, now - max(began, member.since))
            member.since = now
            member.batches += 1
            member.rows += rows
            return reply
        finally:
            self._schedule.leave(member)

    async def _take(self, other: Member | None = None) -> Member:
        clock = asyncio.get_running_loop().time
        alone = clock()
        while True:
            try:
                async with asyncio.timeout(min(GRACE, _LOOK)):
                    found = await self._schedule.take(other)
            except TimeoutError:
                if self._joining or any(member.alive for member in self.members):
                    alone = clock()
                    continue  # all are busy, or one is on its way
                refuse_dead_node()
                if clock() - alone < GRACE:
                    continue
                raise SandboxUnavailableError(
                    f"no worker of the cluster was there for {GRACE:.0f} seconds; look at `ray status`, "
                    "then run it again with `resume`"
                ) from None
            assert isinstance(found, Member)
            return found

    def _lose(self, member: Member) -> None:
        if not member.alive:
            return
        self._end(member)
        if member not in self.members:
            return  # it had not joined yet, or all of them end
        self._schedule.part(member)
        self._warn(f"a worker died ({member.where}); its rows are run by another one")
        self._fill_place()

    def _fill_place(self, started: asyncio.Task[Member] | None = None) -> None:
        task = asyncio.create_task(self._replace(started))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    def _end(self, member: Member) -> None:
        member.alive = False
        self._ray.kill(member.actor, no_restart=True)

    async def _replace(self, started: asyncio.Task[Member] | None) -> None:
        """Fill a place again, however long it takes; the run goes on with the others."""
        for pause in itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1])):
            try:
                if started is None:
                    await asyncio.sleep(pause)
                await (started or self._started())
            except (WorkerDiedError, NotStartedError):
                started = None
            except SandboxError as e:
                self._warn(f"no worker takes the place of one that died: {e}")
                return
            else:
                return

    async def _ask(self, member: Member, method: Any, seconds: float | None, *arguments: Any) -> Any:
        reply = await ask(self._ray, member, method, seconds, arguments, partial(self._lose, member))
        if isinstance(reply, tuple):
            reply, number = reply
            self._unfinished[number] = member
        return reply

    async def more(self, number: str) -> bytes:
        """Return the next part of a worker's reply. Raises SandboxLostError if it died meanwhile."""
        member = self._unfinished.pop(number)
        try:
            reply: bytes = await self._ask(member, member.actor.more, None, number)
        except WorkerDiedError:
            self._lose(member)
            raise
        return reply

    def drop(self, number: str) -> None:
        """Let a worker stop what nobody waits for."""
        if (member := self._unfinished.pop(number, None)) is not None and member.alive:
            member.actor.drop.remote(number)

    async def close(self) -> None:
        """End all workers, and return when they have ended. Safe twice."""
        tasks = list(self._replacing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        members, self.members = self.members, []
        await every(partial(self._close, member) for member in members if member.alive)
        await self._races.wait_stopped()

    async def _close(self, member: Member) -> None:
        try:
            async with asyncio.timeout(STOP):
                await asyncio.wrap_future(member.actor.close.remote().future())
        except (TimeoutError, self._ray.exceptions.RayError):
            pass  # it is ended in any case
        self._end(member)


T = TypeVar("T")


class Races(Generic[T]):
    """Runs each work once or twice, and stops what came second."""

    def __init__(self) -> None:
        self._ending: set[asyncio.Task[None]] = set()

    async def first(
        self,
        work: Coroutine[Any, Any, T],
        again: Callable[[], Coroutine[Any, Any, T]],
        patience: float | None,
        allowed: Callable[[], bool],
    ) -> T:
        """
        Return the result of the work. After `patience` seconds, as soon as it is `allowed`, it is done `again` beside.

        Raises what the first one does, if none has a result. Being cancelled, it stops both, and waits for that.
        """
        first = asyncio.create_task(work)
        tries = {first}
        try:
            while (waiting := {task for task in tries if not task.done()}) and not any(map(_good, tries)):
                usual = patience if len(tries) == 1 else None
                done, _ = await asyncio.wait(waiting, timeout=usual, return_when=asyncio.FIRST_COMPLETED)
                if not done and allowed():
                    tries.add(asyncio.create_task(again()))
            return next((task for task in tries if _good(task)), first).result()
        except asyncio.CancelledError:
            await finish(lambda: _end(tries))
            raise
        finally:
            if not all(map(_seen, tries)):
                ending = begin(lambda: _end(tries))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    async def wait_stopped(self) -> None:
        """Wait until all that came second has stopped."""
        while self._ending:
            await asyncio.wait(self._ending)


def _good(task: asyncio.Task[T]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _seen(task: asyncio.Task[T]) -> bool:
    """Whether it is done; so that the loop does not report an error when another one was good."""
    if task.done() and not task.cancelled():
        task.exception()
    return task.done()


async def _end(tries: set[asyncio.Task[T]]) -> None:
    for task in tries:
        task.cancel()
    await asyncio.gather(*tries, return_exceptions=True)
