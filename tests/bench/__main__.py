"""
What the README claims about speed, measured: `make bench`, or `python -m tests.bench [figure ...]`.

Each figure stands beside a baseline of the same run, since machines are noisy: read the ratios.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandboxes import Call, Execution, Isolation, Limits, Program
from sandboxes.wasm import WasmConfig, WasmSandbox
from templates import path as template

OUTPUT = '{"name":"x","items":[1,2,3,{"a":1}],"ok":true}'
REFERENCE = '{"name":"y","items":[1,2,4,{"a":2}],"ok":true,"extra":null}'
EVALCELL = (sys.executable, "-P", "-c", "from runner.cli import main; main()")


class Figures:
    """What was measured, one line each."""

    def __init__(self) -> None:
        self.table = Table("figure", "measured", "bar", "beside it")

    def add(self, name: str, measured: str, bar: str, beside: str = "") -> None:
        self.table.add_row(name, measured, bar, beside)
        print(f"  {name}: {measured}", file=sys.stderr, flush=True)


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def calls(count: int) -> list[Call]:
    return [Call(id=n, arguments={"output": OUTPUT, "reference": REFERENCE}) for n in range(count)]


def source() -> str:
    return template("json_distance").read_text()


async def per_call(isolation: Isolation, count: int, *, reset: str = "auto") -> list[float]:
    """Seconds from one finished call to the next, everything included, on one thread."""
    config = WasmConfig.model_validate({"jobs": 1, "isolation": isolation, "reset": reset})
    async with WasmSandbox(config) as sandbox:
        program = await sandbox.load(source(), Limits())
        [e async for e in program.run(calls(50), Limits())]
        return await gaps(program, count)


async def gaps(program: Program, count: int) -> list[float]:
    times, last = [], time.perf_counter()
    async for found in program.run(calls(count), Limits()):
        assert found.status == "ok", found
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
    return times


def subprocess_per_call(count: int = 30) -> float:
    """The usual way: boot a bare CPython for each evaluation."""
    script = source() + f"\nprint(evaluate({OUTPUT!r}, {REFERENCE!r}))\n"
    return statistics.median(timed(lambda: run([sys.executable, "-I", "-S", "-c", script])) for _ in range(count))


def timed(f: Callable[[], object]) -> float:
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


def run(command: list[str], **env: str) -> None:
    subprocess.run(command, check=True, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def peak_memory(command: list[str]) -> float:
    """
    Runs it to its end; the most MB that it and its workers held at one time, looked at five times a second.

    Proportional set size: what processes share is counted once. Linux only.
    """
    child, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), 0
    while child.poll() is None:
        peak = max(peak, sum(map(held, [child.pid, *children(child.pid)])))
        time.sleep(0.2)
    assert child.returncode == 0, command
    return peak / 1024


def children(parent: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def held(process: int) -> int:
    """KB of proportional set size; 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def dataset(folder: Path, rows: int) -> Path:
    path = folder / f"{rows}.jsonl"
    with path.open("w") as file:
        for n in range(rows):
            file.write(json.dumps({"id": f"r{n}", "output": OUTPUT, "reference": REFERENCE}) + "\n")
    return path


def score(data: Path, *options: str) -> list[str]:
    return [*EVALCELL, "run", "json-distance", str(data), "--quiet", *options]


def figure_fresh(figures: Figures) -> None:
    restored = statistics.median(asyncio.run(per_call("call", 3000)))
    renewed = statistics.median(asyncio.run(per_call("call", 1000, reset="instance")))
    warm = statistics.median(asyncio.run(per_call("batch", 5000)))
    booted = subprocess_per_call()
    beside = f"a `python -I -S` each: {ms(booted)}, {booted / restored:.0f} times as long"
    figures.add("fresh-state call, p50", ms(restored), "0.5 ms; 40 times", beside)
    figures.add("the same by new instances, p50", ms(renewed), "", f"{booted / renewed:.0f} times")
    figures.add("warm call (batch), p50", ms(warm), "0.15 ms", f"{booted / warm:.0f} times")


def figure_rows(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        many, few = dataset(Path(folder), 10_000), dataset(Path(folder), 10)
        run(score(few))
        bare = statistics.median(timed(lambda: run([sys.executable, "-c", "pass"])) for _ in range(10))
        took = min(timed(lambda: run(score(many, "-j", "2", "-o", f"{folder}/x.jsonl"))) for _ in range(3))
        figures.add("10,000 rows, -j 2, to a file", f"{took:.2f} s", "6 s", f"{10_000 / took:.0f} rows/s")
        took = statistics.median(timed(lambda: run(score(few))) for _ in range(7))
        figures.add("10 rows, start to exit", f"{took:.2f} s", "1.2 s", f"`python -c pass`: {bare:.3f} s")
        took = statistics.median(timed(lambda: run([*EVALCELL, "--help"])) for _ in range(7))
        figures.add("evalcell --help", f"{took:.3f} s", "0.25 s", f"{took / bare:.1f} times `python -c pass`")


def figure_first(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        few = dataset(Path(folder), 10)
        first = timed(lambda: run(score(few), EVALCELL_CACHE_DIR=f"{folder}/cache"))
        again = timed(lambda: run(score(few), EVALCELL_CACHE_DIR=f"{folder}/cache"))
        figures.add("first run ever, longer by", f"{first - again:.1f} s", "8 s", f"then {again:.2f} s")


def figure_late(figures: Figures) -> None:
    """How much over its time a call runs."""

    async def body() -> list[Execution]:
        async with WasmSandbox(WasmConfig(jobs=1)) as sandbox:
            program = await sandbox.load("def evaluate():\n    while True: pass\n", Limits())
            return [e async for e in program.run([Call(id=n) for n in range(30)], Limits(timeout=0.1))]

    late = sorted(e.duration - 0.1 for e in asyncio.run(body()))
    figures.add("timeout, late by, p50", ms(late[15]), "", "")
    figures.add("timeout, late by, worst of 30", ms(late[-1]), "25 ms", "")


def figure_memory(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large = (
            peak_memory(score(dataset(Path(folder), rows), "-j", "2", "-o", f"{folder}/x.jsonl"))
            for rows in (10_000, 1_000_000)
        )
    beside = f"{large:.0f} MB against {small:.0f} MB, all processes"
    figures.add("peak memory, 1,000,000 rows / 10,000", f"{large / small:.2f}", "1.3", beside)


FIGURES = {name.removeprefix("figure_"): f for name, f in list(globals().items()) if name.startswith("figure_")}


def main(names: list[str]) -> None:
    figures = Figures()
    for name in names or FIGURES:
        FIGURES[name](figures)
    Console(width=140).print(figures.table)


if __name__ == "__main__":
    main(sys.argv[1:])
