"""A process in a machine of the local E2B, and what its client hears of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from tests.remote.machine import Machine, MachineGone, Process

_CHUNK = 32 * 1024
_WORDS = {9: "killed", 15: "terminated", 11: "segmentation fault", 6: "aborted"}

Event = dict[str, Any]


class Running:
    """A process, which goes on whether or not anybody hears it. Who asked for it hears all it says, or it waits."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self.machine = machine
        self.process = process
        self.over = False
        self._said: asyncio.Queue[Event] = asyncio.Queue(8)
        self._heard = True

    async def tell(self, event: Event) -> None:
        if self._heard:
            await self._said.put(event)

    async def pump(self) -> None:
        """Carries what it says, and at last how it ended."""
        readers = {"stdout": self.process.stdout, "stderr": self.process.stderr}
        await asyncio.gather(*(self._carry(name, reader) for name, reader in readers.items()))
        try:
            code = await self.process.wait()
        except MachineGone:
            self.over = True
            await self.tell({"error": lost(self.machine)})
            return
        self.over = True
        await self.tell({"event": {"end": _ended(code)}})

    async def _carry(self, name: str, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK):
            await self.tell({"event": {"data": {name: base64.b64encode(data).decode()}}})

    async def expire(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.over:
            return
        with contextlib.suppress(ProcessLookupError, MachineGone):
            await self.process.kill()
        await self.tell({"error": {"code": "deadline_exceeded", "message": "context deadline exceeded"}})

    async def events(self, every: float) -> AsyncGenerator[Event, None]:
        """To the end; something to keep the connection alive every so many seconds."""
        try:
            yield {"event": {"start": {"pid": self.process.pid}}}
            while True:
                try:
                    async with asyncio.timeout(every):
                        event = await self._said.get()
                except TimeoutError:
                    event = {"event": {"keepalive": {}}}
                yield event
                if "error" in event or "end" in event["event"]:
                    return
        finally:
            self._heard = False
            while not self._said.empty():  # or else who tells would wait for ever
                self._said.get_nowait()


def _ended(code: int) -> dict[str, Any]:
    """Zero is left out, as protobuf's JSON does. A shell's 128 + n looks the same as a signal here."""
    if code in (128 + n for n in _WORDS):
        status = f"signal: {_WORDS[code - 128]}"
        return {"exitCode": -1, "status": status, "error": status}
    status = f"exit status {code}"
    return {"exited": True, "status": status} | ({"exitCode": code, "error": status} if code else {})


def lost(machine: Machine) -> dict[str, str]:
    message = f"the connection to sandbox {machine.id} ended before the stream completed"
    return {"code": "unavailable", "message": message}
