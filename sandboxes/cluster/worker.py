"""The worker on a node: an actor with one open sandbox and the programs loaded in it."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import secrets
import socket
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

from sandboxes.base import Call, Execution, Limits, Program, Sandbox, SandboxConfig, Script
from sandboxes.cluster.facts import facts
from sandboxes.cluster.files import WorkerFiles
from sandboxes.errors import SandboxError, SandboxLostError, UnsupportedConfigError
from sandboxes.registry import create
from sandboxes.words.wording import DOOR, python_words

Reply = dict[str, Any]
_USUAL = {"error": None, "output": "", "truncated": False}
_OK = {"status": "ok", **_USUAL}
Part = bytes | tuple[bytes, str]

PART = 8 << 20
"""Characters of a reply after which its next part waits until it is wanted, so that no node holds more of it."""


class NodeWorker:
    """
    What runs in each actor. Its replies are data alone, so that a node with other versions can be understood.

    A reply with `failed` says why nothing was done; `lost` says that the sandbox died meanwhile.
    """

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None
        self._programs: dict[int, Program] = {}
        self._activity = Activity()
        self._unfinished: dict[str, AsyncIterator[Execution]] = {}
        self._files = WorkerFiles()
        self._words = python_words

    async def hello(self) -> Reply:
        """Return which versions this node has."""
        return facts()

    async def open(self, config: bytes, files: dict[str, bytes], variables: dict[str, str]) -> Reply:
        """Open the sandbox, with these files in the place of the config's, and these variables."""
        os.environ.update(variables)
        said: list[str] = []
        try:
            wanted: SandboxConfig
            self._words, wanted = pickle.loads(config)
            DOOR.set(self._words)
            paths = self._files.write(files)
            sandbox = create(wanted.model_copy(update={"files": paths, "env_file": None, "jobs": 1}))
            sandbox.warn = said.append
            await sandbox.open()
        except (SandboxError, UnsupportedConfigError, OSError) as e:
            return {"failed": str(e)}
        self._sandbox = sandbox
        return {
            "identity": sandbox.identity,
            "lock": sandbox.lock,
            "python": sandbox.python,
            "batch": sandbox.batch,
            "run_seconds": sandbox.run_seconds,
            "manifest": sandbox.manifest,
            "warnings": said,
        }

    async def load(self, number: int, script: tuple[Any, ...], limits: dict[str, Any]) -> Reply:
        """Load a script under a number."""
        assert self._sandbox is not None
        DOOR.set(self._words)
        try:
            program = await self._sandbox.load(Script(*script), Limits.model_validate(limits))
        except (SandboxError, UnsupportedConfigError) as e:
            return {"failed": str(e)}
        self._programs[number] = program
        return {"loaded": _data(program.loaded)}

    async def run(self, number: int, calls: bytes, limits: dict[str, Any]) -> Part:
        """
        Run the calls; JSON with an execution for each. Cancelling it stops the script.

        A large reply comes in parts: then the number for `more` is beside the first of them.
        """
        return await self._part(self._programs[number].run(calls_of(calls), Limits.model_validate(limits)))

    async def more(self, number: str) -> Part:
        """Return the next part of a reply."""
        return await self._part(self._unfinished.pop(number))

    async def _part(self, executions: AsyncIterator[Execution]) -> Part:
        DOOR.set(self._words)
        found: list[str] = []
        size, lost, number = 0, None, None
        self._activity.busy += 1
        try:
            async for execution in executions:
                found.append(json.dumps(pack_execution(execution)))
                size += len(found[-1])
                if size >= PART:
                    number = secrets.token_hex(16)
                    break
        except SandboxLostError as e:
            lost = str(e)
        except SandboxError as e:
            return json.dumps({"failed": str(e)}).encode()
        finally:
            self._activity.busy -= 1
            if number is None:
                await _closed(executions)
        self._activity.add(len(found))
        rest = json.dumps({"lost": lost, "more": number})[1:]
        reply = f'{{"executions": [{",".join(found)}], {rest}'.encode()
        if number is None:
            return reply
        self._unfinished[number] = executions
        return reply, number

    async def drop(self, number: str) -> None:
        """Stop what the next parts of a reply would have been about."""
        if (executions := self._unfinished.pop(number, None)) is not None:
            await _closed(executions)

    async def status(self) -> Reply:
        """Return what it does, for `evalcell cluster`."""
        return self._activity.status(None if self._sandbox is None else self._sandbox.identity)

    async def forget(self, number: int) -> None:
        """Close a program."""
        if (program := self._programs.pop(number, None)) is not None:
            await program.close()

    async def close(self) -> None:
        """Stop everything that was started here."""
        sandbox, self._sandbox = self._sandbox, None
        for number in list(self._unfinished):
            with suppress(SandboxError):
                await self.drop(number)
        self._programs.clear()
        with suppress(asyncio.CancelledError, SandboxError):
            if sandbox is not None:
                await sandbox.close()
        self._files.close()


async def _closed(executions: AsyncIterator[Execution]) -> None:
    if (close := getattr(executions, "aclose", None)) is not None:
        await close()


def pack_execution(execution: Execution) -> list[Any] | dict[str, Any]:
    """Return an execution as JSON for `unpacked`: what most rows have is short."""
    if execution.status == "ok" and not (execution.error or execution.output or execution.truncated):
        return [execution.call, execution.duration, execution.value]
    return _data(execution)


def unpack_execution(values: Any) -> Execution:
    """Return an execution that was `packed`. Raises pydantic's ValidationError."""
    if type(values) is list and len(values) == 3:
        call, duration, value = values
        if type(call) is int and type(duration) is float:
            return Execution.trusted(_OK | {"call": call, "duration": duration, "value": value})
    return Execution.model_validate(values)


def _data(execution: Execution) -> dict[str, Any]:
    """Its values, without those that most have."""
    found = {name: value for name, value in execution if name not in _USUAL or value != _USUAL[name]}
    if execution.error is not None:
        found["error"] = dict(execution.error)
    return found


NAMESPACE = "evalcell"
"""Of the workers' names, by which `evalcell cluster` finds them."""
_RECENT = 30.0  # seconds of the rows a second that are shown
_TOGETHER = 0.5  # seconds that are counted together


class Activity:
    """The rows that a worker has run, and how fast lately."""

    def __init__(self) -> None:
        self.busy = 0
        """The batches that it runs now."""
        self._began = monotonic()
        self._rows = 0
        self._recent: deque[list[float]] = deque()  # when rows were done, and how many

    def add(self, rows: int) -> None:
        """Note rows that were just done."""
        self._rows += rows
        now = monotonic()
        if self._recent and now - self._recent[-1][0] < _TOGETHER:
            self._recent[-1][1] += rows
        else:
            self._recent.append([now, rows])
            self._shorten()

    def status(self, sandbox: str | None) -> dict[str, Any]:
        """Return data for `WorkerStatus`; `sandbox` is the identity of one that is open."""
        self._shorten()
        seconds = monotonic() - self._began
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "sandbox": sandbox,
            "rows": self._rows,
            "rows_per_second": sum(rows for _, rows in self._recent) / max(1.0, min(_RECENT, seconds)),
            "batches": self.busy,
            "seconds": seconds,
        }

    def _shorten(self) -> None:
        while self._recent and monotonic() - self._recent[0][0] > _RECENT:
            self._recent.popleft()


PIECE = 8 << 20
"""Bytes of a batch's arguments above which it goes in pieces, if its rows share no state."""
MOST = 256 << 20
"""Bytes that are on their way at once. A batch that is larger goes alone."""


class Budget:
    """Room for so many bytes."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held = 0
        self._change = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncGenerator[None, None]:
        """Wait for room, and keep it meanwhile."""
        async with self._change:
            await self._change.wait_for(lambda: not self._held or self._held + size <= self._most)
            self._held += size
        try:
            yield
        finally:
            self._held -= size
            async with self._change:
                self._change.notify_all()


def calls_of(piece: bytes) -> list[Call]:
    """Return the calls of one part."""
    values = ({"id": n, "arguments": a, "positional": p, "seed": seed} for n, a, p, seed in pickle.loads(piece))
    return [Call.trusted(each) for each in values]


def pieces(calls: Sequence[Call], *, divisible: bool) -> list[tuple[bytes, int]]:
    """Return calls as bytes, and how many each part has: one part, or more where they are large and may be divided."""
    # As plain values: models take four times as long, and so much room that Ray would put a batch into shared memory.
    values = [(call.id, call.arguments, call.positional, call.seed) for call in calls]
    whole = pickle.dumps(values, pickle.HIGHEST_PROTOCOL)
    if len(whole) <= PIECE or len(calls) == 1 or not divisible:
        return [(whole, len(calls))]
    half = len(calls) // 2
    return [*pieces(calls[:half], divisible=True), *pieces(calls[half:], divisible=True)]
