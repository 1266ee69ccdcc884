"""
Sandboxes at a provider, here at the local servers of the tests, which run the commands on this machine.

What is measured is our own share: requests, round trips, the harness. How long a real provider takes to make a machine
is not in it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import aclosing

from benchmarks.measure import OUTPUT, REFERENCE, Figures, spread
from runner.engine.local import score
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.resolve import find_evaluator

ROWS, BATCH, MACHINES, LATENCY, ROUNDS = 1000, 100, 4, 0.1, 3
REQUESTS = 60


def figure_remote_e2b(figures: Figures) -> None:
    _figure(figures, "e2b")


def figure_remote_modal(figures: Figures) -> None:
    _figure(figures, "modal")


def figure_remote_vercel(figures: Figures) -> None:
    _figure(figures, "vercel")


def figure_remote_daytona(figures: Figures) -> None:
    _figure(figures, "daytona")


def _figure(figures: Figures, name: str) -> None:
    from tests.remote.served import server

    served = server(name)
    asyncio.run(_scored(name))  # the server's own first time
    near: list[float] = []
    far: list[float] = []
    asked: list[int] = []
    for _ in range(ROUNDS):
        for latency, times in ((0.0, near), (LATENCY, far)):
            served.clear()
            served.latency(latency)
            times.append(asyncio.run(_scored(name)))
            state = served.state()
            assert not state.machines, state.machines
            asked.append(sum(state.requests.values()))
            detail = ", ".join(f"{n} {op}" for op, n in sorted(state.requests.items()))
    served.clear()
    what = f"{ROWS} rows at {name}, batches of {BATCH} at most, {MACHINES} machines"
    most = max(asked)
    figures.add(
        f"{what}: requests",
        f"{statistics.median(asked):.0f} ({min(asked)} to {most})",
        f"{REQUESTS}",
        detail,
        met=most <= REQUESTS,
    )
    ratio = statistics.median(far) / statistics.median(near)
    figures.add(
        f"the same with {LATENCY * 1e3:.0f} ms a request, by the same without",
        f"{ratio:.2f} times",
        "2",
        f"{spread(far)} s, {spread(near)} s",
        met=ratio <= 2,
    )


async def _scored(name: str) -> float:
    """Seconds from opening to closed, all rows scored."""
    from tests.remote.served import sandbox

    evaluator = find_evaluator("json-distance")
    cases = cases_from_rows([{"output": OUTPUT, "reference": REFERENCE}] * ROWS)
    began = time.perf_counter()
    count = 0
    async with sandbox(name, jobs=MACHINES, batch=BATCH) as opened, aclosing(score(evaluator, cases, opened)) as found:
        async for result in found:
            assert result.outcome == "scored", result
            count += 1
    assert count == ROWS
    return time.perf_counter() - began
