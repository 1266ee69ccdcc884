"""The workers of a run on a cluster: who is there, who is free, and what takes the place of one that died."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

from sandboxes.base import Limits, SandboxConfig, Script
from sandboxes.cluster.member import Member, last_line, refuse_other
from sandboxes.cluster.races import Races
from sandboxes.cluster.schedule import AHEAD, Schedule
from sandboxes.cluster.worker import Reply, Worker
from sandboxes.errors import SandboxError, SandboxLostError, SandboxUnavailableError
from sandboxes.shield import every, finish

NAMESPACE = "evalcell"
"""Of the workers' names, by which `evalcell cluster` finds them."""
GRACE = 60.0
"""Seconds without any worker after which a run ends."""
_START = 120.0  # seconds for a worker's process to start; what it installs has the config's own time
_STOP = 5.0  # seconds for a worker to end by itself
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds before a place is filled again


class WorkerDiedError(SandboxLostError):
    """The worker's process, or its node, is gone."""


class Workers:
    """
    The workers. None is ever restarted by Ray, which would send a retry to the one that just died.

    `warn` is called with a line for the user.
    """

    def __init__(self, ray: Any, config: SandboxConfig, warn: Callable[[str], None]) -> None:
        self._ray = ray
        self._config = config
        self._warn = warn
        self._files: dict[str, bytes] = {}
        self._variables: dict[str, str] = {}
        self._schedule = Schedule()
        self._races = Races[bytes]()
        self._replacing: set[asyncio.Task[None]] = set()
        self._programs: dict[int, tuple[Script, Limits]] = {}
        self._numbers = 0
        self.members: list[Member] = []

    async def open(self, count: int, files: dict[str, bytes], variables: dict[str, str]) -> Reply:
        """
        Start so many workers; the facts of all of them.

        The first resolves the packages, and the others install its lock. Raises SandboxUnavailableError if one cannot
        start, or differs from the others in what decides scores. For one that dies meanwhile, another one is started.
        """
        self._files, self._variables = files, variables
        first = await self._started()
        if first.facts["lock"] is not None:
            self._config = self._config.model_copy(update={"lock": first.facts["lock"]})
        others = await asyncio.gather(*(self._started() for _ in range(count - 1)), return_exceptions=True)
        for other in others:
            if isinstance(other, BaseException) and not isinstance(other, WorkerDiedError):
                raise other
        for member in self.members:
            self._schedule.join(member)
        for _ in range(count - len(self.members)):
            self._fill_place()
        return first.facts

    async def _started(self) -> Member:
        actor = self._ray.remote(Worker).options(
            name=uuid4().hex,
            namespace=NAMESPACE,
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=2 * AHEAD + 2,
            scheduling_strategy="SPREAD",
        )
        member = Member(actor.remote())
        try:
            member.facts = await self._ask(member, member.actor.hello, _START)
            member.where = f"{member.facts['host']}, process {member.facts['pid']}"
            opening = self._config.install_timeout + _START
            config = pickle.dumps(self._config)
            member.facts |= await self._ask(member, member.actor.open, opening, config, self._files, self._variables)
            if self.members:
                refuse_other(self.members[0], member)
            for line in member.facts["warnings"] if not self.members else ():
                self._warn(line)
            for number, (script, limits) in self._programs.items():
                await self._ask(member, member.actor.load, None, number, tuple(script), limits.model_dump())
        except BaseException:
            self._end(member)
            raise
        self.members.append(member)
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
        A free worker's reply to a batch. If that one dies, it is replaced, and the batch goes to another, once.

        A batch that takes much longer than others is tried by another worker, too, and the first reply counts: the
        machine may be slow. Not so with the network, where a row could do something twice. Raises SandboxLostError if
        a second worker dies, and SandboxUnavailableError where none is left for a while.
        """
        for last in (False, True):
            try:
                return await self._first_reply(number, calls, rows, limits)
            except WorkerDiedError:
                if last:
                    raise
        raise AssertionError

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
        while True:
            try:
                async with asyncio.timeout(GRACE):
                    found = await self._schedule.take(other)
            except TimeoutError:
                if any(member.alive for member in self.members):
                    continue  # all are busy
                raise SandboxUnavailableError(
                    f"no worker of the cluster was there for {GRACE:.0f} seconds; look at `ray status`, "
                    "then run it again with `resume`"
                ) from None
            assert isinstance(found, Member)
            return found

    def _lose(self, member: Member) -> None:
        if not member.alive:
            return
        self._schedule.part(member)
        self._end(member)
        if member not in self.members:
            return  # all of them end
        self._warn(f"a worker died ({member.where}); its rows are run by another one")
        self._fill_place()

    def _fill_place(self) -> None:
        task = asyncio.create_task(self._replace())
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    def _end(self, member: Member) -> None:
        member.alive = False
        self._ray.kill(member.actor, no_restart=True)

    async def _replace(self) -> None:
        """Fill a place again, however long it takes; the run goes on with the others."""
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            try:
                member = await self._started()
            except (WorkerDiedError, TimeoutError):
                continue
            except SandboxError as e:
                self._warn(f"no worker takes the place of one that died: {e}")
                return
            self._schedule.join(member)
            return

    async def _ask(self, member: Member, method: Any, seconds: float | None, *arguments: Any) -> Any:
        """A worker's reply. Cancelling it stops what it does there. Raises WorkerDiedError, SandboxUnavailableError."""
        errors = self._ray.exceptions
        reference = method.remote(*arguments)
        waiting = asyncio.wrap_future(reference.future())
        try:
            async with asyncio.timeout(seconds):
                reply = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await finish(lambda: self._stop(member, reference, waiting))
            raise
        except TimeoutError:
            raise SandboxUnavailableError(
                f"a worker did not start within {seconds:.0f} seconds; the cluster may have no free processor: "
                "ask for fewer workers with SandboxConfig(jobs=…)"
            ) from None
        except errors.RuntimeEnvSetupError as e:
            raise SandboxUnavailableError(f"a node could not be prepared: {last_line(e)}") from None
        except errors.RayTaskError as e:  # our own code, over there
            raise SandboxUnavailableError(
                f"{member.where}: {last_line(e)}; is the same evalcell installed there?"
            ) from None
        except errors.RayError as e:
            raise WorkerDiedError(f"a worker died ({member.where}): {last_line(e)}") from None
        if isinstance(reply, dict) and (why := reply.get("failed")) is not None:
            raise SandboxUnavailableError(f"{member.where}: {why}")
        return reply

    async def _stop(self, member: Member, reference: Any, waiting: asyncio.Future[Any]) -> None:
        """Stop a call; a worker that does not is ended."""
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._ray.cancel(reference)
        await asyncio.wait({waiting}, timeout=_STOP)
        if not waiting.done() and member.alive:
            self._lose(member)

    async def close(self) -> None:
        """End all workers, and return when they have ended. Safe twice."""
        tasks = list(self._replacing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        members, self.members = self.members, []
        await every(partial(self._close, member) for member in members if member.alive)
        await self._races.ended()

    async def _close(self, member: Member) -> None:
        try:
            async with asyncio.timeout(_STOP):
                await asyncio.wrap_future(member.actor.close.remote().future())
        except (TimeoutError, self._ray.exceptions.RayError):
            pass  # it is ended in any case
        self._end(member)
