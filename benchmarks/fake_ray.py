"""A cluster in the place of Ray's, whose workers do nothing for as long as a scenario says."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from sandboxes.cluster.facts import facts

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


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class RuntimeEnvSetupError(RayError):
    pass


class FakeRay:
    """As much of Ray as the pool uses: workers die, lie on slow machines, or are slow for a batch."""

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
        executions = [{**EXECUTION, "call": number} for number, *_ in pickle.loads(calls)]
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
