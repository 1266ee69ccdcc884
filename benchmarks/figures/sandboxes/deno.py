"""The deno sandbox: batches, a fresh Worker a call, its start, a timeout, the type check."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from benchmarks.measure import (
    EVALCELL,
    OUTPUT,
    REFERENCE,
    Figures,
    calls,
    dataset,
    gaps,
    in_ms,
    late,
    ms,
    program_in,
    run,
    spread,
    timed,
)
from sandboxes import Isolation, Program
from sandboxes.deno import DenoConfig, DenoSandbox
from sandboxes.deno.binary import find_deno
from templates import source as template
from tests.scripts import typescript

ENDLESS = "function evaluate() { while (true) {} }"
ALONE = "\nconsole.log(JSON.stringify(evaluate({ output: Deno.args[0], reference: Deno.args[1] })));\n"


def loaded(source: str, isolation: Isolation = "batch") -> AbstractAsyncContextManager[tuple[DenoSandbox, Program]]:
    return program_in(DenoSandbox(DenoConfig(jobs=1, isolation=isolation)), typescript(source))


def script() -> str:
    return template("json-distance", "typescript")


@contextlib.contextmanager
def alone() -> Iterator[list[str]]:
    """The command that scores one row in a Deno of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "alone.ts")
        path.write_text(script() + ALONE, encoding="utf-8")
        yield [find_deno(), "run", "--no-prompt", "--no-config", "--no-remote", str(path), OUTPUT, REFERENCE]


def figure_deno_batches(figures: Figures) -> None:
    async def body() -> tuple[str, list[float], list[float]]:
        rates, rows = [], []
        async with loaded(script()) as (sandbox, program):
            for _ in range(9):
                found = await gaps(program, calls(sandbox.batch))
                rates.append(len(found) / sum(found))
                rows.append(statistics.median(found))
            return sandbox.identity, rates, rows

    name, rates, rows = asyncio.run(body())
    each = 1 / statistics.median(rates)
    figures.add(f"{name}, batches, 1 worker: a row, p50", in_ms(rows, ".3f"), "0.2 ms", met=max(each, *rows) <= 0.2e-3)
    beside = f"{ms(each)} a row with all that a batch costs"
    figures.add("  rows/s", spread(rates, ".0f"), "4,000", beside, met=statistics.median(rates) >= 4000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "json_distance.ts")
        path.write_text(script(), encoding="utf-8")
        data = str(dataset(Path(folder), 10_000))
        command = [*EVALCELL, "run", str(path), data, "--quiet", "-j", "2", "-o", f"{folder}/x.jsonl"]
        took = [timed(lambda: run(command)) for _ in range(3)]
    middle = statistics.median(took)
    beside = f"{10_000 / middle:.0f} rows/s from start to exit"
    figures.add("  evalcell run, 10,000 rows, -j 2", f"{spread(took)} s", "8 s", beside, met=middle <= 8)


def figure_workers(figures: Figures) -> None:
    async def body(command: list[str]) -> tuple[list[float], list[float], list[float]]:
        ready: list[float] = []
        busy: list[float] = []
        bare: list[float] = []
        async with loaded(script(), "call") as (_, program):
            await gaps(program, calls(20))
            for _ in range(6):
                busy.append(statistics.median(await gaps(program, calls(50))))
                for _ in range(10):
                    await asyncio.sleep(0.05)  # the next Worker is ready by then
                    ready += await gaps(program, calls(1))
                bare += [timed(lambda: run(command, DENO_NO_UPDATE_CHECK="1")) for _ in range(3)]
        return ready, busy, bare

    with alone() as command:
        run(command)  # fills Deno's cache, as a second run would find it
        ready, busy, bare = asyncio.run(body(command))
    call, row, process = (statistics.median(found) for found in (ready, busy, bare))
    beside = f"`deno run` each: {in_ms(bare)}, {process / call:.1f} times as long (bar: 2)"
    met = call <= 6e-3 and process >= 2 * call
    figures.add("deno, a fresh Worker a call, the next one ready: p50 of 60", in_ms(ready), "6 ms", beside, met=met)
    beside = f"{process / row:.1f} times as long; two processes start a Worker for each row"
    figures.add("  one row right after the other, p50 of 50", in_ms(busy), "6 ms", beside, met=row <= 6e-3)


def figure_deno_start(figures: Figures) -> None:
    async def first() -> float:
        began = time.perf_counter()
        async with loaded(script()) as (_, program):
            await gaps(program, calls(1))
            return time.perf_counter() - began

    async def over() -> list[float]:
        async with loaded(ENDLESS) as (_, program):
            return await late(program, 10)

    async def checked() -> list[float]:
        async with loaded(script()) as (sandbox, _):
            found = []
            for _ in range(3):
                began = time.perf_counter()
                assert await sandbox.problems(script()) == []
                found.append(time.perf_counter() - began)
            return found

    with alone() as command:
        pairs = [(asyncio.run(first()), timed(lambda: run(command, DENO_NO_UPDATE_CHECK="1"))) for _ in range(10)]
    boxed, bare = [one for one, _ in pairs], [other for _, other in pairs]
    beside = f"`deno run` of the same, from start to exit: {in_ms(bare)}"
    figures.add("deno, open and load to the first result", in_ms(boxed), beside=beside)
    figures.add("deno, timeout, late by, p50 of 10", in_ms(asyncio.run(over())))
    figures.add("deno, type check of a script", f"{spread(asyncio.run(checked()))} s", beside=f"{os.cpu_count()} cores")
