"""The local Modal's task command router: runs commands in machines, and keeps what they say for those who ask again."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from grpclib import GRPCError, Status
from modal_proto import task_command_router_pb2 as wire
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.remote.faults import Front
from tests.remote.machine import Machine, MachineGone, Process
from tests.remote.modal_wire import Service, Tokens

_PIECE = 64 * 1024
_AHEAD = 8 << 20
"""Bytes that a program may say before it is held back."""


class Kept:
    """All that a program says on one descriptor."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.data = bytearray()
        self.ended = False
        self._read = 0
        self._changed = asyncio.Condition()
        self._pumping = asyncio.create_task(self._pump(reader))

    async def _pump(self, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(_PIECE):
            async with self._changed:
                self.data += piece
                self._changed.notify_all()
                await self._changed.wait_for(lambda: len(self.data) - self._read < _AHEAD)
        await self.end()

    async def end(self) -> None:
        async with self._changed:
            self.ended = True
            self._changed.notify_all()

    async def pieces(self, offset: int) -> AsyncIterator[bytes]:
        """From the offset on, as it comes."""
        while piece := await self._piece(offset):
            yield piece
            offset += len(piece)

    async def _piece(self, offset: int) -> bytes:
        async with self._changed:
            self._read = max(self._read, offset)
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self.ended or len(self.data) > offset)
            return bytes(self.data[offset : offset + _PIECE])


@dataclass
class Command:
    """A command that was started in a machine."""

    process: Process
    out: Kept
    err: Kept
    faults: contextvars.Context
    """What its start was told to do wrong at which frame."""
    written: int = 0
    closed: bool = False
    late: bool = False
    """Whether it was ended because its time was over."""
    frames: int = 0
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class Task:
    """What the router knows of a sandbox."""

    machine: Machine
    before: tuple[str, ...]
    """Words before those of each command."""
    commands: dict[str, asyncio.Future[Command]] = field(default_factory=dict)


class Router(Service):
    base = TaskCommandRouterBase
    ops: Mapping[str, str] = {
        "TaskExecStart": "start",
        "TaskExecStdinWrite": "stdin",
        "TaskExecStdioRead": "read",
        "TaskExecWait": "wait",
    }

    def __init__(self, front: Front, tokens: Tokens) -> None:
        super().__init__(front)
        self.tasks: dict[str, Task] = {}
        self._tokens = tokens
        self._watching: set[asyncio.Task[None]] = set()

    def admit(self, name: str, request: Any, metadata: Mapping[str, str]) -> None:
        word, _, token = metadata.get("authorization", "").partition(" ")
        if word != "Bearer" or self._tokens.subject(token) != request.task_id:
            raise GRPCError(Status.UNAUTHENTICATED, "the token is not for this task")

    async def TaskExecStart(self, request: Any, metadata: Mapping[str, str]) -> Any:
        task = self._task(request.task_id)
        if request.exec_id not in task.commands:
            starting = asyncio.ensure_future(self._start(task, request))
            task.commands[request.exec_id] = starting
        try:
            await asyncio.shield(task.commands[request.exec_id])
        except OSError as e:
            del task.commands[request.exec_id]
            raise GRPCError(Status.INVALID_ARGUMENT, f"cannot start the command: {e}") from e
        return wire.TaskExecStartResponse()

    async def _start(self, task: Task, request: Any) -> Command:
        env = {name: value for source in request.secret_sources for name, value in source.env.contents.items()}
        process = await task.machine.start_program([*task.before, *request.command_args], env=env)
        out, err = Kept(process.stdout), Kept(process.stderr)
        command = Command(process, out, err, contextvars.copy_context())
        seconds = request.timeout_secs if request.HasField("timeout_secs") else None
        watching = asyncio.create_task(self._watch(command, seconds))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return command

    async def _watch(self, command: Command, seconds: int | None) -> None:
        """Until it ends, or is ended by its timeout, with all that it started and that stayed in its group."""
        try:
            async with asyncio.timeout(seconds):
                await command.process.wait()
        except MachineGone:
            pass
        except TimeoutError:
            command.late = True
            with contextlib.suppress(ProcessLookupError):
                await command.process.kill(group=True)
            await command.out.end()
            await command.err.end()

    async def TaskExecStdinWrite(self, request: Any, metadata: Mapping[str, str]) -> Any:
        command = await self._command(request)
        async with command.writing:
            if request.offset > command.written:
                raise GRPCError(Status.OUT_OF_RANGE, f"the offset is {request.offset}, not {command.written}")
            data = request.data[command.written - request.offset :]
            if data:
                if command.closed:
                    raise GRPCError(Status.FAILED_PRECONDITION, "stdin is closed")
                command.written += len(data)  # before it waits: a call that is cut here must not write it again
                with contextlib.suppress(BrokenPipeError):
                    await command.process.write(data)
            if request.eof and not command.closed:
                command.closed = True
                await command.process.close_stdin()
        return wire.TaskExecStdinWriteResponse()

    async def TaskExecStdioRead(self, request: Any, metadata: Mapping[str, str]) -> AsyncIterator[Any]:
        task, command = self._task(request.task_id), await self._command(request)
        out = request.file_descriptor == wire.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        kept = command.out if out else command.err
        async for piece in kept.pieces(request.offset):
            if out:
                command.frames += 1
                frame = self.front.frame("start", command.frames, task.machine)
                await asyncio.create_task(frame, context=command.faults)
            if not task.machine.alive:
                break
            yield wire.TaskExecStdioReadResponse(data=piece)
        self._task(request.task_id)

    async def TaskExecWait(self, request: Any, metadata: Mapping[str, str]) -> Any:
        command = await self._command(request)
        code = await command.process.wait()
        if command.late:
            raise GRPCError(Status.DEADLINE_EXCEEDED, "the command's time is over")
        return wire.TaskExecWaitResponse(**_status(code))

    def _task(self, id: str) -> Task:
        """Raises GRPCError where it never was, or has ended."""
        if id not in self.tasks or not self.tasks[id].machine.alive:
            raise GRPCError(Status.NOT_FOUND, "Sandbox has already shut down")
        return self.tasks[id]

    async def _command(self, request: Any) -> Command:
        commands = self._task(request.task_id).commands
        if request.exec_id not in commands:
            raise GRPCError(Status.NOT_FOUND, f"there is no exec {request.exec_id!r}")
        return await asyncio.shield(commands[request.exec_id])


def _status(code: int) -> dict[str, int]:
    return {"signal": code - 128} if code > 128 else {"code": code}
