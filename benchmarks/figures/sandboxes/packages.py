"""The process sandbox with pinned packages: token cosine with scikit-learn, and how long its packages take."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Figures, gaps, in_ms, spread, timed
from benchmarks.side_by_side import bare_loop, compared, loaded, site
from runner.inputs.evaluators.resolve import find_evaluator
from sandboxes import Call
from sandboxes.boxes.host_files import view
from templates import demo

ROWS = 5000
"""As many as a dataset may have; the first batches are small."""

SHARED = Path(__file__).parents[4] / "shared"
EVALUATOR = find_evaluator("token-cosine")


def script() -> str:
    """The published recipe where it lies beside the repository, or else our template."""
    published = SHARED / "recipes" / "token_cosine.py"
    return published.read_text() if published.is_file() else EVALUATOR.source


def texts() -> list[Call]:
    """Answers to school mathematics, or else the rows that come with the template."""
    path = SHARED / "datasets" / "text_gsm8k.jsonl"
    found = path if path.is_file() else demo("token-cosine")
    assert found is not None
    rows = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
    return [
        Call(id=n, arguments={"output": row["output"], "reference": row["reference"]}) for n, row in enumerate(rows)
    ]


def figure_cosine(figures: Figures) -> None:
    wanted = (texts() * 60)[:ROWS]
    found = asyncio.run(compared(script(), wanted, packages=EVALUATOR.packages, workers=(1, 2), rounds=3))
    for workers, bar in ((1, 0.8), (2, 1.3)):
        rates, ratios = [batches.rate for batches in found.boxed[workers]], found.ratios(workers)
        name = f"token cosine (tier {found.tier}), {ROWS:,} rows, {workers} worker{'s'[: workers - 1]} / bare loop"
        beside = f"rows/s: {spread(rates, '.0f')}, bare {spread(found.bare, '.0f')}"
        figures.add(name, spread(ratios), f"{bar}", beside, met=statistics.median(ratios) >= bar)


def figure_cosine_forks(figures: Figures) -> None:
    async def body() -> tuple[list[float], list[float], list[float]]:
        wanted, folder = texts()[:40], await site(EVALUATOR.packages)
        boxed: list[float] = []
        bare: list[float] = []
        async with loaded(script(), packages=EVALUATOR.packages, isolation="call") as (_, program):
            with bare_loop(script(), wanted, folder) as loop:
                for _ in range(7):
                    boxed.append(statistics.median(await gaps(program, wanted)))
                    bare.append(loop.seconds() / len(wanted))
        return boxed, bare, [started(wanted[:1], folder) for _ in range(3)]

    boxed, bare, whole = asyncio.run(body())
    call = statistics.median(boxed)
    beside = f"a process each: {in_ms(whole, '.0f')}, {statistics.median(whole) / call:.0f} times as long"
    beside += f"; in a bare loop {in_ms(bare)}"
    figures.add("token cosine, a fork a call, p50 of 40", in_ms(boxed), "12 ms", beside, met=call <= 12e-3)


def started(wanted: list[Call], folder: Path | None) -> float:
    """Seconds of a plain Python that evaluates one row, from start to exit."""

    def body() -> None:
        with bare_loop(script(), wanted, folder):
            pass

    return timed(body)


def figure_packages(figures: Figures) -> None:
    name = f"{' '.join(EVALUATOR.packages)}, resolved and installed"
    asyncio.run(site(EVALUATOR.packages))
    warm = [resolved() for _ in range(5)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            cold = resolved(EVALCELL_CACHE_DIR=folder)
    except subprocess.CalledProcessError:
        beside = "an empty cache: no index could be reached"
    else:
        beside = f"an empty cache, once: {cold:.1f} s, {cold / statistics.median(warm):.0f} times as long"
    figures.add(name, f"{spread(warm)} s", "0.5 s", beside, met=statistics.median(warm) <= 0.5)


def resolved(**env: str) -> float:
    """Seconds in a new process, without the start of Python. Raises CalledProcessError where it failed."""
    command = [sys.executable, "-m", "benchmarks.resolved", view().python, *EVALUATOR.packages]
    done = subprocess.run(command, check=True, env=os.environ | env, capture_output=True)
    return float(done.stdout)
