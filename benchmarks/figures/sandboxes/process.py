"""The process sandbox with scripts of the standard library: batches, a fork a call, its start, lateness, memory."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Figures, calls, dataset, gaps, held, in_ms, late, ms, run, score, source, spread, timed
from benchmarks.side_by_side import compared, loaded
from sandboxes.boxes.host_files import view
from sandboxes.guest.supervisor import procfs

ENDLESS = "def evaluate():\n    while True: pass\n"


def bare_python(code: str = "pass") -> float:
    """Seconds of a plain Python from start to exit, the one that the sandbox runs."""
    return timed(lambda: run([view().python, "-I", "-S", "-c", code]))


def figure_batches(figures: Figures) -> None:
    found = asyncio.run(compared(source(), calls(1280), workers=(1,), rounds=9))
    row, rates = found.row(1), [batches.rate for batches in found.boxed[1]]
    name, loop = f"process (tier {found.tier}), batches, 1 worker", statistics.median(found.bare)
    beside = f"bare loop {ms(1 / loop)}, {row * loop:.2f} times as long"
    figures.add(f"{name}: a row, p50", ms(row), "0.4 ms", beside, met=row <= 0.4e-3)
    beside = f"bare loop {spread(found.bare, '.0f')}; ratio {spread(found.ratios(1))}"
    figures.add("  rows/s", spread(rates, ".0f"), "2,500", beside, met=statistics.median(rates) >= 2500)
    with tempfile.TemporaryDirectory() as folder:
        command = score(dataset(Path(folder), 10_000), "--sandbox", "process", "-j", "1", "-o", f"{folder}/x.jsonl")
        took = [timed(lambda: run(command)) for _ in range(2)]
    beside = f"{10_000 / min(took):.0f} rows/s from start to exit"
    figures.add("  evalcell run, 10,000 rows, -j 1", f"{min(took):.2f} s", beside=beside)


def figure_forks(figures: Figures) -> None:
    async def body() -> tuple[list[float], list[float]]:
        boxed: list[float] = []
        bare: list[float] = []
        async with loaded(source(), isolation="call") as (_, program):
            for _ in range(6):
                boxed.append(statistics.median(await gaps(program, calls(50))))
                bare += [bare_python(), bare_python()]
        return boxed, bare

    boxed, bare = asyncio.run(body())
    call = statistics.median(boxed)
    beside = f"a `python -I -S -c pass` each: {in_ms(bare)}, {statistics.median(bare) / call:.1f} times as long"
    figures.add("process, a fork a call, p50 of 50", in_ms(boxed), "3 ms", beside, met=call <= 3e-3)


def figure_start(figures: Figures) -> None:
    async def first() -> float:
        began = time.perf_counter()
        async with loaded(source()) as (_, program):
            await gaps(program, calls(1))
            return time.perf_counter() - began

    async def body() -> tuple[list[float], list[float]]:
        await first()
        pairs = [(await first(), bare_python()) for _ in range(20)]
        return [boxed for boxed, _ in pairs], [bare for _, bare in pairs]

    boxed, bare = asyncio.run(body())
    p50 = statistics.median(boxed)
    beside = f"a `python -I -S -c pass`: {in_ms(bare)}; ratio {p50 / statistics.median(bare):.1f}"
    figures.add("process, open and load to the first result", in_ms(boxed), "60 ms", beside, met=p50 <= 0.06)


def figure_boxes(figures: Figures) -> None:
    """How much over its time a call runs, and what a box holds that waits."""

    async def over() -> list[float]:
        async with loaded(ENDLESS) as (_, program):
            return await late(program, 20)

    async def memory() -> tuple[int, int]:
        others = set(procfs.descendants(os.getpid()))
        async with loaded(source()) as (_, program):
            await gaps(program, calls(64))
            mine = set(procfs.descendants(os.getpid())) - others
            return sum(held(pid, "Rss") for pid in mine), sum(held(pid) for pid in mine)

    figures.add("process, timeout, late by, p50 of 20", in_ms(asyncio.run(over())))
    rss, pss = asyncio.run(memory())
    measured = f"{pss / 1024:.0f} MB" if pss else "not to be seen"
    figures.add("process, a box that waits, PSS", measured, beside=f"RSS {rss / 1024:.0f} MB, all its processes")
