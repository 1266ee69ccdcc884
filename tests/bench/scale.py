"""
A cluster of a thousand workers, simulated: `python -m tests.bench.scale [workers]`.

The engine and the pool are the real ones (`runner/engine`, `sandboxes/cluster`); Ray, workers and clock are not.
Workers die, lie on slow machines, or are slow for a batch, and a row takes as long as the scenario says. An hour of a
thousand workers takes a minute, and gives the same figures each time.

The clock is that of an event loop which does not wait: where nothing is left to do, it goes on to the next timer.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import selectors
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from itertools import islice
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from runner.datasets.rows import cases_from_rows
from runner.engine import local
from runner.evaluators.load import parse_evaluator
from sandboxes.base import SandboxConfig
from sandboxes.cluster import sandbox as cluster
from sandboxes.cluster.facts import facts
from sandboxes.cluster.sandbox import on_cluster

CONFIG = SandboxConfig(backend="wasm")
SCRIPT = "def evaluate(output):\n    return 1.0\n"
HOUR = 3600.0


@dataclass(frozen=True)
class Scenario:
    """What is simulated; times are in seconds."""

    workers: int = 1000
    rows: int = 360_000
    row: float = 10.0
    """What a row takes on a worker that is not slow."""
    dying: float = 0.01
    """The share of the workers that die in an hour."""
    detected: float = 10.0
    """How long it takes Ray to tell of a worker that died."""
    slow_workers: float = 0.01
    """The share of the workers that are slow all the time."""
    slow_batches: float = 0.01
    """The share of the batches that are slow, for a reason of the machine's: elsewhere they would not be."""
    times: float = 10.0
    """How many times as long these take."""
    start: float = 15.0
    """From asking for a worker to its open sandbox."""
    stop: float = 1.0
    """Until a batch that is cancelled has stopped."""
    way: float = 0.001
    """There and back."""
    driver_row: float = 40e-6
    """What a row costs the driver, which does one thing at a time."""
    driver_batch: float = 400e-6
    seed: int = 1

    @property
    def ideal(self) -> float:
        """The time without any fault, wait or slowness, with the work shared out evenly."""
        return self.rows * self.row / self.workers


@dataclass
class Found:
    """What a simulation gave."""

    wall: float = 0.0
    first: float = 0.0
    """When the workers were ready."""
    results: int = 0
    wrong: int = 0
    """Results that are not scored, or not in the dataset's order."""
    batches: int = 0
    rows: int = 0
    """Rows that workers have run, lost and repeated ones too."""
    died: int = 0
    slow: int = 0
    seconds: float = 0.0
    """What the simulation took itself."""
    state: str = ""
    """What a progress bar showed at the end."""
    warnings: list[str] = field(default_factory=list)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only where everybody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self._pass))

    def time(self) -> float:
        return self.now

    def _pass(self, seconds: float) -> None:
        self.now += seconds


class _Selector(selectors.SelectSelector):
    def __init__(self, skip: Callable[[float], None]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or not timeout:
            if timeout is None and not found:
                return super().select(60)  # for a thread, such as that of a signal
            return found
        self._skip(timeout)
        return []


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class RuntimeEnvSetupError(RayError):
    pass


class FakeRay:
    """As much of Ray as the pool uses."""

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayActorError=RayError,
        RayTaskError=RayTaskError,
        RuntimeEnvSetupError=RuntimeEnvSetupError,
        TaskCancelledError=RayError,
        ObjectStoreFullError=RayTaskError,
        OutOfDiskError=RayTaskError,
    )

    def __init__(self, scenario: Scenario, found: Found) -> None:
        self.scenario = scenario
        self.found = found
        self.random = random.Random(scenario.seed)
        self.driver_free = 0.0
        self.count = 0

    def remote(self, _: type) -> SimpleNamespace:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: FakeActor(self)))

    def kill(self, actor: FakeActor, no_restart: bool = True) -> None:
        actor.die(silently=False)

    def cancel(self, reference: Reference, **_: object) -> None:
        reference.actor.cancel(reference)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.scenario.workers)}


class Reference:
    """A reply to come."""

    def __init__(self, actor: FakeActor) -> None:
        self.actor = actor
        self.reply: Future[Any] = Future()

    def future(self) -> Future[Any]:
        return self.reply

    def settle(self, value: Any) -> None:
        """Hand over a reply, or an error, if the reference has none yet."""
        if not self.reply.done():
            if isinstance(value, BaseException):
                self.reply.set_exception(value)
            else:
                self.reply.set_result(value)


class FakeActor:
    """A worker: it runs one batch after the other, and dies when its time has come."""

    def __init__(self, ray: FakeRay) -> None:
        self._ray = ray
        self._loop = asyncio.get_running_loop()
        ray.count += 1
        self._number = ray.count
        self._slow = ray.random.random() < ray.scenario.slow_workers
        ray.found.slow += self._slow
        self._dead = False
        self._free = 0.0
        self._pending: dict[Reference, asyncio.TimerHandle | None] = {}
        if rate := ray.scenario.dying / HOUR:
            self._loop.call_later(ray.random.expovariate(rate), self.die)

    def __getattr__(self, method: str) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *arguments: self._ask(method, arguments))

    def _ask(self, method: str, arguments: tuple[Any, ...]) -> Reference:
        reference = Reference(self)
        self._pending[reference] = None
        if self._dead:
            self._loop.call_later(self._ray.scenario.way, self._fail, reference)
            return reference
        now = self._loop.time()
        if method == "run":
            rows = len(pickle.loads(arguments[1]))
            began = max(now + self._ray.scenario.way / 2, self._free)
            self._free = began + self._lasts(rows)
            self._pending[reference] = self._loop.call_at(self._free, self._ran, reference, arguments[1])
        else:
            after = self._ray.scenario.start if method == "open" else self._ray.scenario.way
            self._pending[reference] = self._loop.call_later(after, self._reply, reference, REPLIES.get(method))
        return reference

    def _lasts(self, rows: int) -> float:
        scenario = self._ray.scenario
        slow = self._slow or self._ray.random.random() < scenario.slow_batches
        self._ray.found.batches += 1
        self._ray.found.rows += rows
        return rows * scenario.row * (scenario.times if slow else 1.0)

    def _ran(self, reference: Reference, calls: bytes) -> None:
        """The batch is done; its reply waits for the driver, which takes one after the other."""
        executions = [{**EXECUTION, "call": call.id} for call in pickle.loads(calls)]
        ray, now = self._ray, self._loop.time()
        cost = ray.scenario.driver_batch + len(executions) * ray.scenario.driver_row
        ray.driver_free = max(now + ray.scenario.way / 2, ray.driver_free) + cost
        reply = json.dumps({"executions": executions, "lost": None}).encode()
        self._pending[reference] = self._loop.call_at(ray.driver_free, self._reply, reference, reply)

    def _reply(self, reference: Reference, value: Any) -> None:
        if self._pending.pop(reference, self) is not self:
            reference.settle(value)

    def _fail(self, reference: Reference) -> None:
        self._reply(reference, RayError("The actor died unexpectedly before finishing this task."))

    def cancel(self, reference: Reference) -> None:
        """Stop a batch; what was to run after it begins as late as it would have, unless there was nothing."""
        if (timer := self._pending.get(reference)) is not None:
            timer.cancel()
            stopped = self._loop.time() + self._ray.scenario.stop
            if timer.when() == self._free:
                self._free = stopped
            self._loop.call_at(stopped, self._fail, reference)

    def die(self, *, silently: bool = True) -> None:
        """End at once. Without a word, it takes a while until anybody knows."""
        if self._dead:
            return
        self._dead = True
        self._ray.found.died += silently
        for reference, timer in list(self._pending.items()):
            if timer is not None:
                timer.cancel()
            self._loop.call_later(self._ray.scenario.detected if silently else 0.0, self._fail, reference)


EXECUTION = {
    "call": 0,
    "status": "ok",
    "value": 1.0,
    "error": None,
    "output": "",
    "truncated": False,
    "duration": 0.0,
}
REPLIES: dict[str, Any] = {
    "hello": facts(),
    "open": {
        "identity": "simulated",
        "lock": None,
        "python": None,
        "batch": 64,
        "run_seconds": 0.05,
        "manifest": {},
        "warnings": [],
    },
    "load": {"loaded": {**EXECUTION, "call": -1}},
}


class Ahead:
    """In the place of the thread that reads rows ahead, whose time is not simulated."""

    def __init__(self, source: Iterable[Any], ahead: int) -> None:
        self.failure: BaseException | None = None
        self._source = iter(source)

    async def take(self, most: int) -> list[Any]:
        """The next items."""
        return list(islice(self._source, most))

    async def close(self) -> None:
        """Nothing is open."""


class FakeConnection:
    """In the place of the connection to a cluster."""

    def __init__(self, ray: FakeRay) -> None:
        self.ray = ray
        self.cpus = ray.scenario.workers

    async def open(self) -> None:
        """It is."""

    async def close(self) -> None:
        """It is."""


def simulate(scenario: Scenario) -> Found:
    """One run of the scenario."""
    began, found = time.perf_counter(), Found()
    loop = VirtualLoop()
    with ExitStack() as stack:
        stack.enter_context(patch.object(local, "Prefetcher", Ahead))
        stack.enter_context(patch.object(local, "perf_counter", loop.time))
        stack.enter_context(
            patch.object(cluster, "Connection", lambda *_, **__: FakeConnection(FakeRay(scenario, found)))
        )
        stack.callback(loop.close)
        loop.run_until_complete(_run(scenario, found, loop))
    found.seconds = time.perf_counter() - began
    return found


async def _run(scenario: Scenario, found: Found, loop: VirtualLoop) -> None:
    sandbox = on_cluster(CONFIG, "ray")
    sandbox.warn = found.warnings.append
    evaluator = parse_evaluator(SCRIPT, "simulated")
    cases = cases_from_rows({"output": ""} for _ in range(scenario.rows))
    async with sandbox:
        found.first = loop.time()
        async with aclosing(local.score(evaluator, cases, sandbox)) as results:
            async for result in results:
                found.results += 1
                found.wrong += result.score != 1.0 or result.number != found.results
        found.wall, found.state = loop.time() - found.first, sandbox.state


def shown(scenario: Scenario, found: Found) -> str:
    """A line for people."""
    repeated = found.rows / found.results - 1
    return (
        f"{scenario.workers:>5} workers, {scenario.rows:>9,} rows of {scenario.row:g} s: "
        f"wall {found.wall:,.0f} s, ideal {scenario.ideal:,.0f} s: {found.wall / scenario.ideal:.3f} "
        f"({found.died} died, {found.slow} slow, {found.batches:,} batches, {repeated:.2%} of the rows run again, "
        f"{found.results - scenario.rows} too many, {found.wrong} wrong; simulated in {found.seconds:.0f} s)"
    )


def main(words: list[str]) -> None:
    workers = int(words[0]) if words else 1000
    share = workers / 1000
    base = Scenario(workers=workers, rows=int(100_000 * share))
    for scenario in (
        replace(base, dying=0, slow_workers=0, slow_batches=0),
        base,
    ):
        print(shown(scenario, simulate(scenario)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
