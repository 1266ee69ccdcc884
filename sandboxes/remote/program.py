"""A script on a provider's machines: one command for each batch, one frame for each row, and lost machines replaced."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Protocol

from sandboxes.base import Call, Execution, Isolation, Limits, Program, SandboxConfig, Script
from sandboxes.boxes import tiers
from sandboxes.errors import SandboxLostError
from sandboxes.host.shield import finish
from sandboxes.remote import agent_protocol
from sandboxes.remote.config import RemoteConfig
from sandboxes.remote.provider import RETRY_ERRORS, Command, CommandResult, Machine, Provider
from sandboxes.remote.retry import retry
from sandboxes.words.redaction import Masks

if TYPE_CHECKING:
    from sandboxes.remote.pool import MachinePool

_STOP = 10.0
"""Seconds for a cancelled command to close its connections; its machine is ended in any case."""


class Machines(Protocol):
    """Where a program runs: a sandbox with its machines."""

    config: SandboxConfig
    isolation: Isolation
    masks: Masks
    remote: RemoteConfig
    variables: dict[str, str]
    warn: Callable[[str], None]
    why_online: str

    @property
    def files(self) -> dict[str, str]: ...

    @property
    def place(self) -> tuple[Provider, MachinePool, agent_protocol.Greeting, str | None]: ...

    def hear(self, greeting: agent_protocol.Greeting) -> None: ...

    def for_user(self, execution: Execution) -> Execution: ...


class RemoteProgram(Program):
    """A script that is sent again with every batch: between two commands a machine keeps nothing of a run."""

    def __init__(self, sandbox: Machines, script: Script) -> None:
        self._sandbox = sandbox
        self._script = script

    async def load(self, limits: Limits) -> None:
        """Try to load the script, and once more on another machine if the first is lost."""
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
                    return  # only the machine was lost, no execution
                why = str(e)
                # Rows run in order: the first without an execution may have killed the machine. The caller
                # may try that row by itself; the others go on on another machine.
                suspect = left.pop(next(iter(left)))
                if not left:
                    raise
            with suppress(SandboxLostError):
                async for execution in self._batch(left, limits):
                    yield execution
            raise SandboxLostError(f"the machine was lost while it ran call {suspect.id}: {why}")

    async def _batch(self, left: dict[int, Call], limits: Limits) -> AsyncIterator[Execution]:
        """Run the calls, and take each out of `left` when it has its execution. Raises SandboxLostError."""
        async with aclosing(self._once(list(left.values()), limits)) as found:
            async for execution in found:
                left.pop(execution.call, None)
                yield self._sandbox.for_user(execution)

    async def load_ahead(self, machine: Machine, limits: Limits) -> None:
        """Load the script in a machine that keeps commands, so that its first rows need not wait for that."""
        provider, _, greeting, folder = self._sandbox.place
        command, listener = agent_protocol.command(self._request(limits, provider, greeting, folder), [])

        def hear(piece: bytes) -> None:
            listener.feed(piece)

        await provider.execute(machine, command, hear)

    def _request(
        self, limits: Limits, provider: Provider, greeting: agent_protocol.Greeting, folder: str | None
    ) -> agent_protocol.ScriptRequest:
        return agent_protocol.ScriptRequest(
            script=self._script,
            limits=limits,
            isolation=self._sandbox.isolation,
            machine=greeting.machine,
            packages=folder,
            network=self._sandbox.config.network,
            shut=bool(self._sandbox.why_online),
            files=self._sandbox.files,
            variables=self._sandbox.variables,
            stays=provider.keeps,
        )

    async def _once(self, calls: list[Call], limits: Limits) -> AsyncGenerator[Execution, None]:
        """Run one command in one machine. Without calls it gives the result of loading."""
        provider, pool, greeting, folder = self._sandbox.place
        command, listener = agent_protocol.command(self._request(limits, provider, greeting, folder), calls)
        for refused in listener.refused:
            yield refused
        if calls and len(listener.refused) == len(calls):
            return
        machine = await pool.take()
        running = _RunningCommand(self._sandbox, provider, machine, command, listener)
        try:
            async for execution in running.executions():
                yield execution
            if not calls:
                if listener.greeting is not None:
                    self._sandbox.hear(listener.greeting)
                if listener.left:
                    words = tiers.reload_warning(listener.left, self._sandbox.isolation, self._script)
                    self._sandbox.warn(words)
                yield self._sandbox.for_user(running.load_result())
        finally:
            try:
                await running.stop()
            finally:
                if running.clean:
                    pool.give_back(machine)
                else:
                    pool.drop(machine)


class _RunningCommand:
    """A running command, in a task of its own, and its output so far."""

    def __init__(
        self,
        sandbox: Machines,
        provider: Provider,
        machine: Machine,
        command: Command,
        listener: agent_protocol.Listener,
    ) -> None:
        self._remote = sandbox.remote
        self._listener = listener
        self._heard: deque[Execution] = deque()
        self._word = asyncio.Event()
        self._provider = provider
        self._machine = machine
        self._command = command
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(lambda _: self._word.set())
        self.clean = False
        """Whether the machine can be used again."""

    async def _run(self) -> CommandResult:
        async def once() -> CommandResult:
            return await self._provider.execute(self._machine, self._command, self._hear)

        return await retry(once, self._remote.pauses, unsent=True)

    def _hear(self, piece: bytes) -> None:
        self._heard += self._listener.feed(piece)
        self._word.set()

    async def executions(self) -> AsyncIterator[Execution]:
        """The executions of the calls. Raises SandboxLostError if the command ends or falls silent before the last."""
        while self._heard or not self._task.done():
            while self._heard:
                yield self._heard.popleft()
            if not self._task.done():
                await self._wait()
        ended = self._result()
        if not self._listener.finished or ended.code != 0:
            raise SandboxLostError(f"the batch did not complete: {_describe_end(ended)}")
        self.clean = True
        if self._listener.lost:
            raise SandboxLostError(self._listener.lost)

    async def _wait(self) -> None:
        self._word.clear()
        patience = self._listener.patience() + self._remote.slack
        try:
            async with asyncio.timeout(patience):
                await self._word.wait()
        except TimeoutError:
            raise SandboxLostError(f"the machine was silent for {patience:.0f} s") from None

    def _result(self) -> CommandResult:
        try:
            return self._task.result()
        except RETRY_ERRORS as e:
            raise SandboxLostError(str(e)) from e
        except agent_protocol.UnclearError as e:
            raise SandboxLostError(f"the machine's answer is invalid: {e}") from e

    def load_result(self) -> Execution:
        """The result of loading."""
        if self._listener.loaded is None:
            self.clean = False
            raise SandboxLostError("the machine did not report whether the script was loaded")
        return self._listener.loaded

    async def stop(self) -> None:
        """Stop waiting for the command. Unless `clean`, the machine must be ended, as the command may go on there."""
        self._task.cancel()
        await finish(lambda: asyncio.wait({self._task}, timeout=_STOP))
        if self._task.done() and not self._task.cancelled():
            self._task.exception()  # it was reported, or no longer matters


def _describe_end(ended: CommandResult) -> str:
    if ended.code is None:
        return "the provider ended it because it took too long"
    last = ended.errors.strip().splitlines()[-1:] or ["no error output"]
    return f"exit code {ended.code}, {last[0][:300]}"
