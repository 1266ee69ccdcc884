"""The host's end of a container: commands go in one after the other, frames come back; see guest/container."""

from __future__ import annotations

import asyncio
import json
import struct
from contextlib import suppress
from typing import Any

from sandboxes.remote.docker.engine import ContainerStream
from sandboxes.remote.provider import ERRORS, Command, CommandResult, GoneError, OnOutput, UnreachableError
from sandboxes.words.text import clean

_HEAD = struct.Struct(">BI")
_LONGEST = 1 << 20
_LIFE, _BEAT = 60, 15.0
"""Seconds after which a container ends if it hears nothing, and between two words to it: who is killed says none."""
_GRACE = 20.0
"""Seconds for the container to end a command after its timeout."""


class ContainerConnection:
    """A running container. One command at a time."""

    def __init__(self, stream: ContainerStream) -> None:
        self._stream = stream
        self._held = bytearray()
        self._busy = False
        self._closed = False
        self._kept: tuple[object, ...] | None = None
        """What the command has begun with that waits in the container for the next one."""
        self._writing = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None

    async def greet(self) -> dict[str, Any]:
        """Keep it alive from now on; return what it says of itself. Raises UnreachableError."""
        await self._live()
        self._beating = asyncio.create_task(self._beat())
        kind, payload = await self._frame()
        try:
            found = json.loads(payload)
        except ValueError:
            found = None
        if kind != b"h" or not isinstance(found, dict):
            raise UnreachableError("docker: the container's greeting is invalid")
        return found

    async def _live(self) -> None:
        await self._write(json.dumps({"life": _LIFE}).encode() + b"\n")

    async def _beat(self) -> None:
        with suppress(UnreachableError):
            while not self._closed:
                await asyncio.sleep(_BEAT)
                await self._live()

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            await self._stream.write(data)

    async def execute(self, command: Command, on_output: OnOutput) -> CommandResult:
        """Do as `Provider.execute` does."""
        if self._closed or self._busy:
            raise GoneError("docker: the container has ended, or runs another command")
        self._busy = True
        key = (command.argv, command.env, command.input[: command.begun]) if command.begun else None
        try:
            async with asyncio.timeout(command.timeout + _GRACE) as deadline:
                if key and key == self._kept:
                    head = {"more": True, "timeout": command.timeout}
                    if found := await self._answer(head, command.input[command.begun :], on_output):
                        self._busy = False
                        return found
                    # It had ended before it was asked, so that nothing is begun twice.
                begin = {"argv": command.argv, "env": dict(command.env), "timeout": command.timeout}
                self._kept = key
                found = await self._answer(begin | {"stays": key is not None}, command.input, on_output)
                if found is None:
                    raise UnreachableError("docker: the container's answer is invalid")
                self._busy = False
                return found
        except TimeoutError:
            if not deadline.expired():  # raised by on_output
                raise
            raise UnreachableError("docker: the container did not end a command in time") from None

    async def _answer(self, head: dict[str, Any], data: bytes, on_output: OnOutput) -> CommandResult | None:
        """Ask, and hear the answer to its end; None if the command that was kept is no longer there."""
        errors = bytearray()
        await self._write(json.dumps({**head, "size": len(data)}).encode() + b"\n" + data)
        while True:
            kind, payload = await self._frame()
            if kind == b"o":
                on_output(payload)
            elif kind == b"e":
                errors += payload
                del errors[:-ERRORS]
            elif kind == b"x":
                told = _told(payload)
                if not told.get("stays"):
                    self._kept = None
                if told.get("gone"):
                    return None
                code = told.get("code")
                return CommandResult(code if isinstance(code, int) else None, errors.decode("utf-8", "replace"))
            else:
                raise UnreachableError("docker: the container's answer is invalid")

    async def _frame(self) -> tuple[bytes, bytes]:
        head = await self._take(_HEAD.size)
        kind, size = _HEAD.unpack(head)
        if size > _LONGEST:
            raise UnreachableError("docker: the container's answer is invalid")
        return bytes([kind]), await self._take(size)

    async def _take(self, size: int) -> bytes:
        while len(self._held) < size:
            piece = await self._stream.read()
            if not piece:
                self._closed = True
                lines = self._stream.errors.decode("utf-8", "replace").strip().splitlines()
                said = f" ({clean(lines[-1], 200)})" if lines else ""
                raise UnreachableError(
                    f"docker: the container has ended{said}: the engine, or somebody else, has ended it, "
                    "or its memory was used up"
                )
            self._held += piece
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    async def close(self) -> None:
        """Let go, so that the container ends by itself. Safe twice."""
        self._closed = True
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        await self._stream.close()


def _told(payload: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(payload)
        if isinstance(found, dict):
            return found
    raise UnreachableError("docker: the container's answer is invalid")
