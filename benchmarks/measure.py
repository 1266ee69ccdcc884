"""What all figures share: how they are told, and how time and memory are looked at."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from rich.table import Table

from sandboxes import Call, Limits, Program, Sandbox, Script
from templates import source as template

AnySandbox = TypeVar("AnySandbox", bound=Sandbox)
OUTPUT = '{"name":"x","items":[1,2,3,{"a":1}],"ok":true}'
REFERENCE = '{"name":"y","items":[1,2,4,{"a":2}],"ok":true,"extra":null}'
EVALCELL = (sys.executable, "-P", "-c", "from runner.__main__ import main; main()")


class Figures:
    """What was measured, one line each."""

    def __init__(self) -> None:
        self.table = Table("figure", "measured", "bar", "met", "beside it")

    def add(self, name: str, measured: str, bar: str = "", beside: str = "", *, met: bool | None = None) -> None:
        """`met` is None for what has no bar."""
        verdict = "" if met is None else "yes" if met else "NO"
        self.table.add_row(name, measured, bar, verdict, beside)
        print(f"  {name}: {measured}", file=sys.stderr, flush=True)


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def spread(rounds: Sequence[float], form: str = ".2f") -> str:
    """The median, and between what it lies."""
    return f"{statistics.median(rounds):{form}} ({min(rounds):{form}} to {max(rounds):{form}})"


def in_ms(rounds: Sequence[float], form: str = ".2f") -> str:
    return f"{spread([seconds * 1e3 for seconds in rounds], form)} ms"


def calls(count: int) -> list[Call]:
    return [Call(id=n, arguments={"output": OUTPUT, "reference": REFERENCE}) for n in range(count)]


def source() -> str:
    return template("json-distance")


@asynccontextmanager
async def program_in(sandbox: AnySandbox, script: Script) -> AsyncIterator[tuple[AnySandbox, Program]]:
    """The sandbox, opened, and the script in it. Raises SandboxUnavailableError."""
    sandbox.progress = lambda line: None
    async with sandbox:
        program = await sandbox.load(script, Limits())
        assert program.loaded.status == "ok", program.loaded
        yield sandbox, program
        await program.close()


async def late(program: Program, count: int) -> list[float]:
    """Seconds that calls without an end run over their time."""
    found = [e async for e in program.run([Call(id=n) for n in range(count)], Limits(timeout=0.1))]
    assert all(e.status == "timeout" for e in found), found
    return [e.duration - 0.1 for e in found]


async def gaps(program: Program, wanted: Sequence[Call]) -> list[float]:
    """Seconds from one finished call to the next, everything included."""
    times, last = [], time.perf_counter()
    async for found in program.run(wanted, Limits()):
        assert found.status == "ok", found
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
    return times


def timed(f: Callable[[], object]) -> float:
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


def run(command: Sequence[str], **env: str) -> None:
    subprocess.run(command, check=True, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def peak_memory(command: list[str]) -> float:
    """
    Runs it to its end; the most MB that it and its workers held at one time, looked at five times a second.

    Proportional set size: what processes share is counted once. Linux only.
    """
    child, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), 0
    while child.poll() is None:
        peak = max(peak, sum(held(process) for process in [child.pid, *children(child.pid)]))
        time.sleep(0.2)
    assert child.returncode == 0, command
    return peak / 1024


def children(parent: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def run_time(process: int) -> float:
    """Seconds of processor time of a process' threads, those that have ended not among them. Linux only."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{process}/task").glob("*/schedstat")) / 1e9


def held(process: int, what: str = "Pss") -> int:
    """KB of proportional set size, or of `Rss`; 0 for a process that has ended or is not ours to look at."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def dataset(folder: Path, rows: int) -> Path:
    path = folder / f"{rows}.jsonl"
    with path.open("w") as file:
        for n in range(rows):
            file.write(json.dumps({"id": f"r{n}", "output": OUTPUT, "reference": REFERENCE}) + "\n")
    return path


def score(data: Path, *options: str) -> list[str]:
    return [*EVALCELL, "run", "json-distance", str(data), "--quiet", *options]
