"""A script on a provider's machines: one command a batch, one frame a row, and what to do when a machine is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from sandboxes.base import Call, Execution, Limits, Program, Script
from sandboxes.boxes import tiers
from sandboxes.errors import SandboxLostError
from sandboxes.remote import agent_protocol
from sandboxes.remote.provider import LOST, Command, Ended, Machine, Provider
from sandboxes.remote.retry import again
from sandboxes.shield import finish

if TYPE_CHECKING:
    from sandboxes.remote.sandbox import RemoteSandbox

_STOP = 10.0
"""Seconds for a command that is cancelled to let go of its connections; its machine is ended in any case."""


class RemoteProgram(Program):
    """Its script travels with every batch: a machine holds nothing of a run between two commands."""

    def __init__(self, sandbox: RemoteSandbox, script: Script) -> None:
        self._sandbox = sandbox
        self._script = script

    async def load(self, limits: Limits) -> None:
        """Tries to load the script; once more on another machine when the first is lost."""
        for last in (False, True):
            try:
                async with aclosing(self._once([], limits)) as found:
                    async for execution in found:
                        self.loaded = execution
                return
            except SandboxLostError:
                if last:
                    raise

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        if self.loaded.status != "ok":
            for call in calls:
                yield self.loaded.model_copy(update={"call": call.id})
            return
        with self._sandbox.masks.errors():
            left = {call.id: call for call in calls}
            try:
                async for execution in self._batch(left, limits):
                    yield execution
                return
            except SandboxLostError as e:
                if not left:
                    return  # only the machine was lost
                why = str(e)
                # Rows run in their order: the first without an execution may be what killed the machine. That one
                # the caller may try by itself; the others go on elsewhere.
                suspect = left.pop(next(iter(left)))
                if not left:
                    raise
            with suppress(SandboxLostError):
                async for execution in self._batch(left, limits):
                    yield execution
            raise SandboxLostError(f"the machine was lost while it ran call {suspect.id}: {why}")

    async def _batch(self, left: dict[int, Call], limits: Limits) -> AsyncIterator[Execution]:
        """Executions of the calls, which are taken out of `left` one by one. Raises SandboxLostError."""
        async with aclosing(self._once(list(left.values()), limits)) as found:
            async for execution in found:
                left.pop(execution.call, None)
                yield self._sandbox.shown(execution)

    async def _once(self, calls: list[Call], limits: Limits) -> AsyncGenerator[Execution, None]:
        """One command in one machine. Without calls, how loading went."""
        provider, pool, greeting, folder = self._sandbox.place
        asked = agent_protocol.Asked(
            script=self._script,
            limits=limits,
            isolation=self._sandbox.isolation,
            machine=greeting.machine,
            packages=folder,
            network=self._sandbox.config.network,
            shut=bool(self._sandbox.uncut),
            files=self._sandbox.files,
            variables=self._sandbox.variables,
        )
        command, listener = agent_protocol.command(asked, calls)
        for refused in listener.refused:
            yield refused
        if calls and len(listener.refused) == len(calls):
            return
        machine = await pool.take()
        hearing = _Hearing(self._sandbox, provider, machine, command, listener)
        try:
            async for execution in hearing.executions():
                yield execution
            if not calls:
                if listener.left:
                    words = tiers.reload(listener.left, self._sandbox.isolation, self._script.entrypoint)
                    self._sandbox.warn(words)
                yield self._sandbox.shown(hearing.loaded())
        finally:
            try:
                await hearing.stop()
            finally:
                if hearing.clean:
                    pool.give_back(machine)
                else:
                    pool.drop(machine)


class _Hearing:
    """A command under way, in a task of its own, and what has been heard of it."""

    def __init__(
        self,
        sandbox: RemoteSandbox,
        provider: Provider,
        machine: Machine,
        command: Command,
        listener: agent_protocol.Listener,
    ) -> None:
        self._remote = sandbox.remote
        self._listener = listener
        self._heard: asyncio.Queue[Execution | None] = asyncio.Queue()
        self._word = asyncio.Event()
        self._provider = provider
        self._machine = machine
        self._command = command
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(lambda _: self._word.set())
        self.clean = False
        """Whether the machine can be used again."""

    async def _run(self) -> Ended:
        async def once() -> Ended:
            return await self._provider.execute(self._machine, self._command, self._hear)

        return await again(once, self._remote.pauses, unsent=True)

    def _hear(self, piece: bytes) -> None:
        for execution in self._listener.feed(piece):
            self._heard.put_nowait(execution)
        self._word.set()

    async def executions(self) -> AsyncIterator[Execution]:
        """Those of the command's calls. Raises SandboxLostError when it ends, or falls silent, before the last."""
        while not (self._task.done() and self._heard.empty()):
            while not self._heard.empty():
                if execution := self._heard.get_nowait():
                    yield execution
            if not self._task.done():
                await self._more()
        ended = self._ended()
        if not self._listener.finished or ended.code != 0:
            raise SandboxLostError(f"the batch did not end as it should: {_words(ended)}")
        self.clean = True
        if self._listener.lost:
            raise SandboxLostError(self._listener.lost)

    async def _more(self) -> None:
        self._word.clear()
        patience = self._listener.patience() + self._remote.slack
        try:
            async with asyncio.timeout(patience):
                await self._word.wait()
        except TimeoutError:
            raise SandboxLostError(f"nothing was heard from the machine for {patience:.0f} s") from None

    def _ended(self) -> Ended:
        try:
            return self._task.result()
        except LOST as e:
            raise SandboxLostError(str(e)) from e
        except agent_protocol.UnclearError as e:
            raise SandboxLostError(f"what the machine said is unclear: {e}") from e

    def loaded(self) -> Execution:
        """How loading went."""
        if self._listener.loaded is None:
            self.clean = False
            raise SandboxLostError("the machine did not say how loading went")
        return self._listener.loaded

    async def stop(self) -> None:
        """The machine may go on with the command: unless it is `clean`, it must be ended."""
        self._task.cancel()
        await finish(lambda: asyncio.wait({self._task}, timeout=_STOP))
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # it was told, or does not matter any more


def _words(ended: Ended) -> str:
    if ended.code is None:
        return "the provider ended it, for it took too long"
    last = ended.errors.strip().splitlines()[-1:] or ["it said nothing"]
    return f"exit code {ended.code}, {last[0][:300]}"
