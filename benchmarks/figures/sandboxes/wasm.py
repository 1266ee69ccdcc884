"""The Wasm sandbox, and evalcell from the command line with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from functools import partial
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
    peak_memory,
    program_in,
    run,
    score,
    source,
    spread,
    timed,
)
from sandboxes import Isolation, Limits, Program
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox
from tests.scripts import python

ROUNDS = 7


def subprocess_per_call(count: int = 4) -> float:
    """The usual way: boot a bare CPython for each evaluation."""
    script = source() + f"\nprint(evaluate({OUTPUT!r}, {REFERENCE!r}))\n"
    return statistics.median(timed(lambda: run([sys.executable, "-I", "-S", "-c", script])) for _ in range(count))


async def per_call(program: Program, runs: int) -> float:
    """Seconds a call, in runs of 50, as results of quick calls come in groups."""
    return statistics.median([statistics.fmean(await gaps(program, calls(50))) for _ in range(runs)])


KINDS: tuple[tuple[Isolation, Reset], ...] = (("call", "auto"), ("call", "instance"), ("batch", "auto"))


async def in_turns() -> list[tuple[float, ...]]:
    """Seconds a call with restored memory, with new instances, and warm, of one worker each; and to boot CPython."""
    async with contextlib.AsyncExitStack() as opened:
        programs = []
        for isolation, reset in KINDS:
            config = WasmConfig(jobs=1, isolation=isolation, reset=reset)
            sandbox = await opened.enter_async_context(WasmSandbox(config))
            programs.append(await sandbox.load(python(source()), Limits()))
            await per_call(programs[-1], 2)
        found = []
        for _ in range(ROUNDS):
            took = [await per_call(program, 8) for program in programs]
            found.append((*took, subprocess_per_call()))
        return found


def figure_fresh(figures: Figures) -> None:
    rounds = asyncio.run(in_turns())
    restored, renewed, warm, booted = map(list, zip(*rounds, strict=True))
    of_each = [[boot / each for boot, each in zip(booted, kind, strict=True)] for kind in (restored, renewed, warm)]
    fresh, new, kept = (f"{spread(times, '.0f')} times" for times in of_each)
    met = statistics.median(of_each[0]) >= 80 and statistics.median(restored) <= 0.5e-3
    beside = f"as quick as a `python -I -S` each: {in_ms(booted)}"
    figures.add("fresh-state call, p50", in_ms(restored), "0.5 ms; 80 times", f"{fresh} {beside}", met=met)
    figures.add("the same by new instances, p50", in_ms(renewed), "", new)
    figures.add("warm call (batch), p50", in_ms(warm), "0.15 ms", kept, met=statistics.median(warm) <= 0.15e-3)


def bare_start(count: int = 10) -> float:
    return statistics.median(timed(lambda: run([sys.executable, "-I", "-S", "-c", "pass"])) for _ in range(count))


def starts(command: list[str], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of the command, and as many starts of a bare Python before and after it."""
    took, found = [], []
    for _ in range(rounds):
        before = bare_start()
        took.append(timed(lambda: run(command)))
        found.append(took[-1] / statistics.fmean([before, bare_start()]))
    return took, found


def figure_rows(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        many, few = dataset(Path(folder), 10_000), dataset(Path(folder), 10)
        run(score(few))
        took, found = starts(score(many, "-j", "2", "-o", f"{folder}/x.jsonl"), 5)
        rate = f"{10_000 / statistics.median(took):.0f} rows/s; {spread(found, '.0f')} starts of `python -I -S`"
        met = statistics.median(found) <= 120
        figures.add("10,000 rows, -j 2, to a file", f"{spread(took)} s", "120 starts", rate, met=met)
        took, found = starts(score(few), 7)
        met = statistics.median(found) <= 32 and statistics.median(took) <= 0.4
        beside = f"{spread(found, '.0f')} starts of `python -I -S`"
        figures.add("10 rows, start to exit", f"{spread(took)} s", "0.4 s; 32 starts", beside, met=met)
        took, found = starts([*EVALCELL, "--help"], 7)
        beside = f"{spread(found, '.1f')} starts of `python -I -S`"
        figures.add(
            "evalcell --help", f"{spread(took, '.3f')} s", "0.25 s", beside, met=statistics.median(took) <= 0.25
        )


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

    async def over() -> list[float]:
        script = python("def evaluate():\n    while True: pass\n")
        async with program_in(WasmSandbox(WasmConfig(jobs=1)), script) as (_, program):
            return await late(program, 30)

    found = sorted(asyncio.run(over()))
    figures.add("timeout, late by, p50", ms(found[15]))
    figures.add("timeout, late by, worst of 30", ms(found[-1]), "25 ms", met=found[-1] <= 0.025)


def figure_memory(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            peak_memory(score(dataset(Path(folder), rows), "-j", "2", "-o", f"{folder}/x.jsonl"))
            for rows in (10_000, 1_000_000)
        )
    beside = f"{large:.0f} MB against {small:.0f} MB, all processes"
    ratio = large / small
    figures.add("peak memory, 1,000,000 rows / 10,000", f"{ratio:.2f}", "1.3", beside, met=ratio <= 1.3)
