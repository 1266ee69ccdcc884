"""A worker of a run in parts, as a process of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
from collections import deque
from subprocess import PIPE
from typing import Any

from pydantic import ValidationError

from runner.core.text import printable
from runner.runs.parts.messages import LINE, reply_of
from runner.runs.parts.serve import LENGTH
from runner.runs.parts.types import PartLostError, Task
from runner.runs.parts.work import Progress, Reply
from runner.runs.pool import frames
from sandboxes.base import LOG
from sandboxes.child_process import Child, start
from sandboxes.own_python import module_command
from sandboxes.shield import finish
from sandboxes.wording import DOOR

_START = 120.0  # seconds to import what it needs, on a machine that is busy
_STOP = 12.0  # seconds in which a worker must have stopped, or it is killed


class ProcessWorker:
    """One worker. It may be started again after it was lost."""

    def __init__(self, number: int) -> None:
        self.name = f"worker {number}"
        self._process: Child | None = None
        self._logging: asyncio.Task[None] | None = None
        self._last: deque[str] = deque(maxlen=3)

    @property
    def pid(self) -> int | None:
        """Its process; None where there is none."""
        return None if self._process is None else self._process.pid

    @property
    def there(self) -> bool:
        return self._process is not None

    async def do(self, task: Task, progress: Progress) -> Reply:
        """Do a task there. Raises what it raises there, and PartLostError."""
        process = self._process
        if process is None or process.stdin is None:
            raise PartLostError(f"{self.name} was lost")
        body = pickle.dumps((DOOR.get(), task))
        try:
            process.stdin.write(LENGTH.pack(len(body)) + body)
            await process.stdin.drain()
            while True:
                said = await self._line(process)
                if "count" not in said:
                    return await reply_of(said, task, self.name)
                progress(said["count"])
        except (OSError, ValidationError, KeyError, asyncio.LimitOverrunError) as error:
            await self.close()
            raise PartLostError(f"{self.name} was lost ({printable(str(error), 200)})") from error

    async def _line(self, process: Child) -> dict[str, Any]:
        assert process.stdout is not None
        data = await process.stdout.readline()
        if not data.endswith(b"\n"):
            await self.close()
            why = self._last[-1] if self._last else "it was killed, or died without a word"
            raise PartLostError(f"{self.name} was lost ({why})")
        try:
            found = json.loads(data)
        except ValueError as error:
            raise OSError("its reply is no JSON") from error
        if not isinstance(found, dict):
            raise OSError("its reply is no object")
        return found

    async def start(self) -> None:
        """Start its process, unless it is there. Raises PartLostError."""
        if self._process is not None:
            return
        self._last.clear()
        self._process = process = await start(
            module_command("runner.runs.parts.serve"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=LINE,
            start_new_session=True,
            cwd=os.getcwd(),
        )
        self._logging = asyncio.create_task(self._log(process))
        try:
            async with asyncio.timeout(_START):
                await self._line(process)
        except TimeoutError:
            await self.close()
            raise PartLostError(f"{self.name} did not start within {_START:.0f} s") from None
        except (OSError, asyncio.LimitOverrunError) as error:
            await self.close()
            raise PartLostError(f"{self.name} could not be started ({error})") from None

    async def _log(self, process: Child) -> None:
        assert process.stderr is not None
        while data := await frames.read_line(process.stderr):
            if said := printable(data.decode("utf-8", "replace").strip(), 400):
                self._last.append(said)
                LOG.info("%s: %s", self.name, said)

    async def close(self) -> None:
        """Stop what it does, and end it. Safe twice."""
        await finish(self._close)

    async def _close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._logging is not None:
            self._logging.cancel()
        process.close()
