"""The tests' side of attacks on the deno sandbox: each host works off its attacks at its own pace, all at once."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from sandboxes import Isolation, SandboxUnavailableError
from sandboxes.boxes.launch import Tier
from sandboxes.deno import DenoConfig, DenoSandbox
from tests.deno.scripts import LOADS, TRACES
from tests.sandboxes.hostile.boxes import TIERS
from tests.sandboxes.hostile.driven import Driven
from tests.sandboxes.hostile.judged import PATIENT, Batch, is_clean, judge, patience, request
from tests.sandboxes.hostile.scripts import ATTACK, CLEAN, DISTANCE, Hostile

LOAD_TIMEOUT = 1.5
TOGETHER = 8
QUICK = {"ok", "error", "no_result", "output"}
Answer = dict[str, Any]


class Host:
    """One way to run a script, in a process of its own."""

    def __init__(self, folder: Path, tier: str, isolation: Isolation) -> None:
        self.isolation = isolation
        self.name = f"{tier}-{isolation}"
        self._driven = Driven(folder, self.name, driver="tests.deno.driver")
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._answers: dict[str, tuple[Future[Answer], int]] = {}
        """By script; and its place among the clean calls around it."""
        self._pristine: Any = None
        """What the probe tells before any attack."""
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._asked.get()()

    def begin(self, scripts: Sequence[Hostile]) -> None:
        """Starts on these; the quick ones first."""
        self._later(("pristine",), self._request([CLEAN]))
        quick = [script for script in scripts if _is_quick(script)]
        for at in range(0, len(quick), TOGETHER):
            some = quick[at : at + TOGETHER]
            attacks = [(ATTACK, script.source) for script in some]
            self._later([script.id for script in some], self._request([CLEAN, *attacks, CLEAN], [CLEAN]))
        for script in scripts:
            if script not in quick:
                self._later((script.id,), self._asks(script))

    def _later(self, names: Sequence[str], asked: Answer) -> Future[Answer]:
        future: Future[Answer] = Future()
        for place, name in enumerate(names):
            self._answers[name] = (future, 1 + place)

        def answer() -> None:
            try:
                future.set_result(self._driven.ask(asked))
            except BaseException as e:
                future.set_exception(e)

        self._asked.put(answer)
        return future

    def later(self, source: str, timeout: float = PATIENT, load_timeout: float = PATIENT) -> Future[Answer]:
        """One clean call of a script, after all that it was asked before. The future may raise HostDied."""
        return self._later((), self._request([CLEAN], source=source, timeout=timeout, load_timeout=load_timeout))

    def _request(
        self,
        *batches: list[tuple[str, str]],
        source: str | None = None,
        timeout: float = PATIENT,
        load_timeout: float = PATIENT,
        lasting: bool = False,
    ) -> Answer:
        pairs: list[Batch] = [(self.isolation, batch) for batch in batches]
        return request(*pairs, source=source, timeout=timeout, load_timeout=load_timeout, lasting=lasting)

    def _asks(self, script: Hostile) -> Answer:
        """An attack stands among clean calls; of one box that takes turns with another, too."""
        if script in LOADS:
            load_timeout = patience(script.ending, LOAD_TIMEOUT)
            return self._request(
                [CLEAN, CLEAN], source=script.source, timeout=patience(script.calls), load_timeout=load_timeout
            )
        if script in TRACES:
            batches = [[CLEAN] * 6] if self.isolation == "call" else [[CLEAN]] * 4
            return self._request(*batches, source=script.source)
        around = [CLEAN, (ATTACK, script.source), CLEAN]
        after = [CLEAN] if self.isolation == "batch" else [CLEAN, CLEAN]
        return self._request(around, after, timeout=_patience(script), lasting=script.lasting)

    def judge(self, script: Hostile) -> None:
        """Whether all went as it must."""
        self._pristine = self._answers["pristine"][0].result()["batches"][0][0]["value"]
        assert self._pristine["score"] == DISTANCE, self._pristine
        future, place = self._answers[script.id]
        told = future.result()
        as_before(told)
        if script in LOADS:
            self._judge_load(script, told)
        elif script in TRACES:
            self._judge_trace(script, told)
        else:
            self._judge_attack(script, told, place)

    def _judge_attack(self, script: Hostile, told: Answer, place: int) -> None:
        (before, *attacked, after), others = told["batches"]
        assert [e["call"] for e in told["batches"][0]] == [*range(len(attacked) + 2)], told["batches"]
        judge(script.ending, attacked[place - 1], _patience(script))
        assert before["value"] == self._pristine, before
        if self.isolation == "call":
            others = [after, *others]
        elif not script.lasting:
            assert (after["status"], after["value"]["score"]) == ("ok", DISTANCE), after
        for other in others:
            assert (other["value"], other["output"]) == (self._pristine, "probe\n"), other

    def _judge_load(self, script: Hostile, told: Answer) -> None:
        judge(script.ending, told["loaded"], patience(script.ending, LOAD_TIMEOUT))
        (found,) = told["batches"]
        assert [e["call"] for e in found] == [0, 1], found
        for execution in found:
            if told["loaded"]["status"] == "ok":
                judge(script.calls, execution, patience(script.calls))
            else:
                assert execution["status"] == told["loaded"]["status"], execution

    def _judge_trace(self, script: Hostile, told: Answer) -> None:
        found = [execution for batch in told["batches"] for execution in batch]
        for execution in found:
            judge(script.ending, execution, PATIENT)
        ends = {(e["status"], str(e["value"])) for e in found}
        assert len(ends) == 1, found  # a call that differs has learned of one before it

    def finish(self) -> None:
        finished: Future[Answer] = Future()
        self._asked.put(lambda: finished.set_result(self._driven.finish()))
        left = finished.result()
        assert (left["status"], left["children"], left["files"]) == (0, [], []), left


def _is_quick(script: Hostile) -> bool:
    """Whether it may share its request with others: it ends by itself and spoils nothing."""
    return script.category in ("errors", "host", "results") and not script.lasting and script.may <= QUICK


def _patience(script: Hostile) -> float:
    return PATIENT if script.category == "memory" else patience(script.ending)


def as_before(told: Answer) -> None:
    """Nothing was raised, another program's call is as ever, nothing goes on and nothing is left."""
    assert "raised" not in told, told["raised"]
    assert is_clean(told["clean"][0]), told["clean"]
    for now, then, what in zip(told["held"], told["first"], ("processes", "descriptors", "busy threads"), strict=True):
        assert now <= then, f"{now - then} {what} are left"


@cache
def tiers() -> tuple[Tier, ...]:
    """Those that work here; skips the test where none does."""
    found = tuple(tier for tier in TIERS if _works(tier))
    if not found:
        pytest.skip("the deno sandbox works in no tier here")
    return found


def _works(tier: Tier) -> bool:
    async def body() -> None:
        async with DenoSandbox(DenoConfig(tier=tier, jobs=1)):
            pass

    try:
        asyncio.run(body())
    except SandboxUnavailableError:
        return False
    return True


def hosts(folder: Path, tiers: Sequence[Tier]) -> dict[str, Host]:
    """By name; each in a process of its own, in a folder that is open to others."""
    found = {}
    folder.mkdir(mode=0o755)
    for tier in tiers:
        for isolation in get_args(Isolation):
            place = folder / f"{tier}-{isolation}"
            place.mkdir(mode=0o755)
            found[place.name] = Host(place, tier, isolation)
    return found
