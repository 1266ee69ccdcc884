"""The Wasm sandbox, and evalcell from the command line with it."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from sandboxes import Call, Execution, Isolation, Limits
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox
from tests.bench.measure import (
    EVALCELL,
    OUTPUT,
    REFERENCE,
    Figures,
    calls,
    dataset,
    gaps,
    ms,
    peak_memory,
    run,
    score,
    source,
    timed,
)
from tests.scripts import python


async def per_call(isolation: Isolation, count: int, *, reset: str = "auto") -> list[float]:
    """Seconds a call, on one thread: the means of runs of 50, as results of quick calls come in groups."""
    config = WasmConfig.model_validate({"jobs": 1, "isolation": isolation, "reset": reset})
    async with WasmSandbox(config) as sandbox:
        program = await sandbox.load(python(source()), Limits())
        [e async for e in program.run(calls(50), Limits())]
        return [statistics.fmean(await gaps(program, calls(50))) for _ in range(count // 50)]


def subprocess_per_call(count: int = 30) -> float:
    """The usual way: boot a bare CPython for each evaluation."""
    script = source() + f"\nprint(evaluate({OUTPUT!r}, {REFERENCE!r}))\n"
    return statistics.median(timed(lambda: run([sys.executable, "-I", "-S", "-c", script])) for _ in range(count))


def figure_fresh(figures: Figures) -> None:
    restored = statistics.median(asyncio.run(per_call("call", 3000)))
    renewed = statistics.median(asyncio.run(per_call("call", 1000, reset="instance")))
    warm = statistics.median(asyncio.run(per_call("batch", 5000)))
    booted = subprocess_per_call()
    beside = f"a `python -I -S` each: {ms(booted)}, {booted / restored:.0f} times as long"
    met = restored <= 0.5e-3 and booted >= 40 * restored
    figures.add("fresh-state call, p50", ms(restored), "0.5 ms; 40 times", beside, met=met)
    figures.add("the same by new instances, p50", ms(renewed), "", f"{booted / renewed:.0f} times")
    figures.add("warm call (batch), p50", ms(warm), "0.15 ms", f"{booted / warm:.0f} times", met=warm <= 0.15e-3)


def figure_rows(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        many, few = dataset(Path(folder), 10_000), dataset(Path(folder), 10)
        run(score(few))
        bare = statistics.median(timed(lambda: run([sys.executable, "-I", "-S", "-c", "pass"])) for _ in range(20))
        took = min(timed(lambda: run(score(many, "-j", "2", "-o", f"{folder}/x.jsonl"))) for _ in range(3))
        rate = f"{10_000 / took:.0f} rows/s; {took / bare:.0f} starts of `python -I -S`"
        figures.add("10,000 rows, -j 2, to a file", f"{took:.2f} s", "120 starts", rate, met=took <= 120 * bare)
        took = statistics.median(timed(lambda: run(score(few))) for _ in range(7))
        starts = f"{took / bare:.0f} starts of `python -I -S -c pass`, {ms(bare)} each"
        met = took <= min(0.4, 35 * bare)
        figures.add("10 rows, start to exit", f"{took:.2f} s", "0.4 s; 35 starts", starts, met=met)
        took = statistics.median(timed(lambda: run([*EVALCELL, "--help"])) for _ in range(7))
        beside = f"{took / bare:.1f} starts of `python -I -S`"
        figures.add("evalcell --help", f"{took:.3f} s", "0.25 s", beside, met=took <= 0.25)


def figure_cache(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.jsonl")
        with rows.open("w") as file:  # equal rows would be scored once
            for n in range(10_000):
                file.write(
                    json.dumps({"output": json.dumps([n, OUTPUT]), "reference": json.dumps([n, REFERENCE])}) + "\n"
                )
        ratios = []
        for number in range(3):  # each in a cache of its own, in which the sandbox is compiled already
            own = {"EVALCELL_CACHE_DIR": f"{folder}/{number}"}
            run(score(dataset(Path(folder), 10)), **own)
            cached = partial(run, score(rows, "-j", "2", "--cache"), **own)
            first, second = timed(cached), timed(cached)
            ratios.append(second / first)
        ratio = min(ratios)
        figures.add("10,000 rows with a full cache, to the first", f"{ratio:.2f} times", "0.3", met=ratio <= 0.3)


def figure_first(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        few = dataset(Path(folder), 10)
        first = timed(lambda: run(score(few), EVALCELL_CACHE_DIR=f"{folder}/cache"))
        again = timed(lambda: run(score(few), EVALCELL_CACHE_DIR=f"{folder}/cache"))
        longer = first - again
        figures.add("first run ever, longer by", f"{longer:.1f} s", "8 s", f"then {again:.2f} s", met=longer <= 8)


def figure_late(figures: Figures) -> None:
    """How much over its time a call runs."""

    async def body() -> list[Execution]:
        async with WasmSandbox(WasmConfig(jobs=1)) as sandbox:
            program = await sandbox.load(python("def evaluate():\n    while True: pass\n"), Limits())
            return [e async for e in program.run([Call(id=n) for n in range(30)], Limits(timeout=0.1))]

    late = sorted(e.duration - 0.1 for e in asyncio.run(body()))
    figures.add("timeout, late by, p50", ms(late[15]))
    figures.add("timeout, late by, worst of 30", ms(late[-1]), "25 ms", met=late[-1] <= 0.025)


def figure_memory(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            peak_memory(score(dataset(Path(folder), rows), "-j", "2", "-o", f"{folder}/x.jsonl"))
            for rows in (10_000, 1_000_000)
        )
    beside = f"{large:.0f} MB against {small:.0f} MB, all processes"
    ratio = large / small
    figures.add("peak memory, 1,000,000 rows / 10,000", f"{ratio:.2f}", "1.3", beside, met=ratio <= 1.3)
