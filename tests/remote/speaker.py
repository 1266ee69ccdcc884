"""A provider in memory whose machines answer as the harness does; a run at it takes milliseconds."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from sandboxes.remote.config import RemoteConfig
from sandboxes.remote.provider import Command, CommandResult, GoneError, Machine, OnOutput, Order
from sandboxes.remote.retry import Pauses
from sandboxes.remote.sandbox import RemoteSandbox
from tests.remote.shelf import Shelf
from tests.remote.trying import SCRIPT, Tried, owed, scored, script

QUICK = Pauses(first=0.001, longest=0.002, total=1)


class Speaker(Shelf):
    """Every script gives the length of its `output`, and loads."""

    extends: ClassVar[bool] = True

    def __init__(self, values: object = None) -> None:
        super().__init__()
        self.wrong: Callable[[int], BaseException | None] = lambda frame: None
        """What breaks instead of a frame, by its number, counted over all commands."""
        self.mangle: Callable[[int, bytes], bytes] = lambda frame, said: said
        """What is heard instead of a frame, by its number."""
        self.frames = 0
        self.protects: tuple[str, ...] = ("pids",)
        """What every machine's greeting says."""
        self.hash_seed = "0"
        self.why_online = ""
        """Why every machine has a network, though none was ordered."""
        self.shut: set[bool] = set()
        """Whether the harness was told to keep scripts off the network by itself, for the commands with rows."""

    def _made(self, order: Order) -> Machine:
        return replace(super()._made(order), why_online=self.why_online)

    async def execute(self, machine: Machine, command: Command, on_output: OnOutput) -> CommandResult:
        self.asked.append("execute")
        await asyncio.sleep(0)
        for frame in self._answer(command.input):
            self.frames += 1
            if wrong := self.wrong(self.frames):
                raise wrong
            if machine.id not in self.orders:
                raise GoneError("it is gone")
            on_output(self.mangle(self.frames, frame))
            await asyncio.sleep(0)
        return CommandResult(0)

    def _answer(self, told: bytes) -> Iterator[bytes]:
        _, settings, last, rows = _parts(told)
        asked, told_last = json.loads(settings), json.loads(last)

        def frame(**words: Any) -> bytes:
            return json.dumps({**words, "mark": told_last["mark"]}).encode() + b"\n"

        about = {"python": "3.12.1", "machine": "x86_64", "system": "Memory", "hash_seed": self.hash_seed}
        yield frame(hello=about | {"protects": self.protects})
        if asked["script"] is not None:
            self.shut.add(asked["shut"])
            yield frame(loaded=_reply(None))
        for number, size in enumerate(told_last["sizes"]):
            row, rows = rows[:size], rows[size:]
            yield frame(row=number, told=_reply(len(json.loads(row)["arguments"]["output"])))
        yield frame(done=len(told_last["sizes"]))


def _parts(told: bytes) -> Iterator[bytes]:
    while told:
        size, _, told = told.partition(b"\n")
        yield told[: int(size)]
        told = told[int(size) :]


def _reply(value: Any) -> dict[str, Any]:
    payload = base64.b64encode(json.dumps({"status": "ok", "value": value}).encode()).decode()
    return {"how": "reply", "payload": payload, "took": 0.001, "output": "", "said": 0}


class Memory:
    """One run at such a provider; `prepare` says what goes wrong there."""

    def __init__(self, prepare: Callable[[Speaker], None], rows: int, **options: Any) -> None:
        self.tried = Tried()
        self.speaker: Speaker | None = None
        self._prepare = prepare
        self._rows = rows
        short: dict[str, Any] = {"jobs": 2, "pauses": QUICK, "start_timeout": 1, "wait": 1, "close_timeout": 5}
        self._options = short | options

    async def work(self) -> None:
        made = self

        class Prepared(Speaker):
            def __init__(self, values: object) -> None:
                super().__init__(values)
                made.speaker = self
                made._prepare(self)

        class Sandbox(RemoteSandbox):
            name = "speaker"
            provider = Prepared

        config = RemoteConfig(backend="speaker", **self._options)
        await scored(Sandbox(config), self.tried, self._rows, script(SCRIPT))

    def check(self, where: str) -> None:
        """Nothing is left, nothing is owed, no score is false."""
        assert self.speaker is None or not self.speaker.orders, where
        assert not owed(), where
        assert all(score is None or score == int(id) for id, score in self.tried.scores.items()), where
