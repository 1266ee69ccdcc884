"""Commands of the local Vercel Sandbox API: what they say is kept, so that a stream may be asked for again."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from tests.remote.machine import Machine, MachineGone, Process

STOPPED = "it was stopped"
"""Why a machine ended whose session was stopped by a request."""
ROOM = 256 << 20
"""Characters of output that are kept of one command, which is killed when it says more."""
_LINGER = 1.0
"""Seconds that output is waited for once the command ended, while what it started holds it open."""
STALLED = 30.0
"""Seconds that a command may take to read a piece of its input, says Vercel."""


class StdinError(Exception):
    """It takes no more of it: `gone` when it ended, else because it has none or closed it."""

    def __init__(self, *, gone: bool) -> None:
        super().__init__("the command does not read its standard input")
        self.gone = gone


class StalledError(Exception):
    """It reads too slowly."""


class Command:
    """A program that runs, or ran, in a session's machine. Made by `start`."""

    def __init__(self, machine: Machine, asked: Mapping[str, Any], session: str, cwd: str, process: Process) -> None:
        self.id = f"cmd_{secrets.token_hex(12)}"
        self.code: int | None = None
        self.lost = False
        """Whether its machine ended before it did."""
        self.written = 0
        """Bytes of its input."""
        self._machine = machine
        self._asked = asked
        self._session = session
        self._cwd = cwd
        self._process = process
        self._open = bool(asked.get("attachStdin"))
        self._writing = asyncio.Lock()
        self._said: list[tuple[str, str]] = []
        self._room = ROOM
        self._news = asyncio.Condition()
        self._began = time.time()
        self._following = asyncio.create_task(self._follow())

    @classmethod
    async def start(
        cls, machine: Machine, asked: Mapping[str, Any], session: str, env: Mapping[str, str], cwd: str
    ) -> Command:
        """Raises an OSError for a program or folder that is not there, and MachineGone."""
        argv = [asked["command"], *(asked.get("args") or [])]
        user = "root" if asked.get("sudo") else "user"
        cwd = asked.get("cwd") or cwd
        stdin = bool(asked.get("attachStdin"))
        variables = {**env, **(asked.get("env") or {})}
        process = await machine.start_program(argv, env=variables, cwd=cwd, user=user, stdin=stdin)
        return cls(machine, asked, session, cwd, process)

    def payload(self, *, fresh: bool = False) -> dict[str, Any]:
        """As the API tells of it; `fresh` as it was just started."""
        return {
            "id": self.id,
            "name": self._asked["command"],
            "args": list(self._asked.get("args") or []),
            "cwd": self._cwd,
            "sessionId": self._session,
            "exitCode": None if fresh else self.code,
            "startedAt": int(self._began * 1000),
        }

    async def records(self, final: Callable[[], dict[str, Any]] | None = None) -> AsyncIterator[dict[str, Any]]:
        """All it said from the start and will say, then `final`; or that the stream was closed."""
        number = 0
        while True:
            async with self._news:
                await self._news.wait_for(lambda: number < len(self._said) or self.done)  # noqa: B023
            if number < len(self._said):
                stream, data = self._said[number]
                number += 1
                yield {"stream": stream, "data": data}
            elif self.lost:
                code = "sandbox_stopped" if self._machine.why == STOPPED else "sandbox_stream_closed"
                yield {"stream": "error", "data": {"code": code, "message": f"The sandbox is gone: {code}"}}
                return
            else:
                if final:
                    yield final()
                return

    @property
    def done(self) -> bool:
        return self.lost or self.code is not None

    async def wait(self) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self.done)

    async def kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, MachineGone):
            await self._process.kill(number)

    async def feed(self, data: bytes, offset: int | None, *, close: bool, patience: float = STALLED) -> None:
        """
        Skips what came before, by the offset. Raises StdinError, StalledError, and IndexError for a gap.

        With nothing to write and nothing to close it only looks.
        """
        async with self._writing:
            if self.done:
                raise StdinError(gone=True)
            if not self._open:
                raise StdinError(gone=False)
            skipped = self.written - (self.written if offset is None else offset)
            if skipped < 0:
                raise IndexError(f"offset {offset} is beyond the {self.written} bytes written")
            piece = data[skipped:]
            self.written += len(piece)
            try:
                await asyncio.wait_for(self._process.write(piece), patience)
            except TimeoutError:
                raise StalledError from None
            except BrokenPipeError:
                self._open = False
                raise StdinError(gone=False) from None
            if close:
                self._open = False
                await self._process.close_stdin()

    async def _follow(self) -> None:
        readers = (("stdout", self._process.stdout), ("stderr", self._process.stderr))
        reading = [asyncio.create_task(self._read(stream, reader)) for stream, reader in readers]
        milliseconds = self._asked.get("timeout")
        try:
            async with asyncio.timeout(milliseconds / 1000 if milliseconds else None):
                code = await self._process.wait()
        except MachineGone:
            code = None
        except TimeoutError:
            await self.kill(9)
            with contextlib.suppress(MachineGone):
                code = await self._process.wait()
        await asyncio.wait(reading, timeout=_LINGER)
        for task in reading:
            task.cancel()
        async with self._news:
            self.code, self.lost = code, code is None
            self._news.notify_all()

    async def _read(self, stream: str, reader: asyncio.StreamReader) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while piece := await reader.read(1 << 16):
            await self._say(stream, decoder.decode(piece))
        await self._say(stream, decoder.decode(b"", final=True))

    async def _say(self, stream: str, text: str) -> None:
        if not text:
            return
        self._room -= len(text)
        if self._room < 0:
            await self.kill(9)
            return
        async with self._news:
            self._said.append((stream, text))
            self._news.notify_all()
