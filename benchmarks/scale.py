"""
A cluster of a thousand workers, simulated: `python -m benchmarks.scale [workers]`.

The engine and the pool are the real ones (`runner/engine`, `sandboxes/cluster`); Ray, workers and clock are not.
Workers die, lie on slow machines, or are slow for a batch, and a row takes as long as the scenario says. An hour of a
thousand workers takes a minute, and gives the same figures each time.

The clock is that of an event loop which does not wait: where nothing is left to do, it goes on to the next timer.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, aclosing
from dataclasses import replace
from itertools import islice
from typing import Any
from unittest.mock import patch

from benchmarks.fake_ray import FakeRay, Found, Scenario
from runner.engine import local
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import SandboxConfig
from sandboxes.cluster import sandbox as cluster
from sandboxes.cluster.sandbox import on_cluster

CONFIG = SandboxConfig(backend="wasm")
SCRIPT = "def evaluate(output):\n    return 1.0\n"


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
