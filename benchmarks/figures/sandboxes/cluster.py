"""What runs on a Ray cluster cost: two nodes in this machine, which are real but for their network."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.fake_ray import Scenario
from benchmarks.figures.parts import add_growth
from benchmarks.measure import Figures
from benchmarks.scale import simulate
from runner import SandboxConfig, stream
from sandboxes.errors import SandboxUnavailableError
from tests.cluster.nodes import two_nodes

WAITS = "import time\ndef evaluate(output):\n    time.sleep(0.02)\n    return 1.0\n"
NOTHING = "def evaluate(output):\n    return 1.0\n"
PROCESSORS = 4  # of each node, as Ray counts them: a worker that waits needs none
ROWS = 60_000


@contextlib.contextmanager
def _cluster() -> Iterator[Any]:
    if find_spec("ray") is None:
        raise SandboxUnavailableError("Ray is not installed")
    with two_nodes(PROCESSORS) as made:
        import ray  # here: what it reads of the environment is set now

        ray.init(log_to_driver=False, logging_level=logging.CRITICAL)
        try:
            yield made
        finally:
            ray.shutdown()


def _config(backend: str, jobs: int) -> SandboxConfig:
    return SandboxConfig(backend=backend, jobs=jobs)


async def _each(script: Path, rows: int, jobs: int, backend: str, on: str | None) -> tuple[float, float]:
    """Seconds of a row, and of this process's processor for it, after the first tenth, for which workers start."""
    wall = cpu = 0.0
    seen, first = 0, rows // 10
    many = ({"output": "x"} for _ in range(rows))
    async with aclosing(stream(script, many, sandbox=_config(backend, jobs), on=on)) as results:
        async for result in results:
            assert result.outcome == "scored", result
            seen += 1
            if seen == first:
                wall, cpu = time.perf_counter(), time.process_time()
    return (time.perf_counter() - wall) / (rows - first), (time.process_time() - cpu) / (rows - first)


def figure_cluster(figures: Figures) -> None:
    """All bars of runs on a cluster."""
    with tempfile.TemporaryDirectory() as name, _cluster():
        folder = Path(name)
        waits, nothing = folder / "waits.py", folder / "nothing.py"
        waits.write_text(WAITS)
        nothing.write_text(NOTHING)
        _start(figures, nothing)
        _waiting(figures, waits)
        _driver(figures, nothing)
        add_growth(figures, folder, "ray")


def _start(figures: Figures, script: Path) -> None:
    async def first(jobs: int) -> float:
        began = time.perf_counter()
        async with aclosing(stream(script, [{"output": "x"}], sandbox=_config("wasm", jobs), on="ray")) as results:
            async for _ in results:
                return time.perf_counter() - began
        raise AssertionError

    seconds = asyncio.run(first(2))
    figures.add(
        "start on a running cluster to the first row, wasm, 2 workers", f"{seconds:.1f} s", "10 s", met=seconds <= 10
    )


def _waiting(figures: Figures, script: Path) -> None:
    # In wasm a script that waits reads the clock meanwhile, which needs a core.
    rates = {jobs: 1 / asyncio.run(_each(script, 300 * jobs, jobs, "process", "ray"))[0] for jobs in (1, 2, 4, 8)}
    ratio = rates[8] / (8 * rates[1])
    figures.add(
        "an evaluator that waits 20 ms: 8 workers / (8 x one)",
        f"{ratio:.2f}",
        "0.9",
        "rows/s of 1, 2, 4, 8 workers: " + ", ".join(f"{rate:.1f}" for rate in rates.values()),
        met=ratio >= 0.9,
    )


def _driver(figures: Figures, script: Path) -> None:
    """Processor time of this process, all threads: what others do here does not count."""
    here, there = (asyncio.run(_each(script, ROWS, 2, "fake", on))[1] * 1e6 for on in (None, "ray"))
    figures.add(
        "the driver's processor time for a row, with a sandbox that does nothing",
        f"{there:.0f} us",
        "40 us",
        f"the same without a cluster: {here:.0f} us",
        met=there <= 40,
    )


def figure_scale(figures: Figures) -> None:
    """Simulated; the same on each machine."""
    scenario = Scenario(workers=200, rows=20_000)
    found = simulate(scenario)
    ratio = found.wall / scenario.ideal
    figures.add(
        "simulated: 200 workers, 1% dying an hour, 1% slow, 1% of batches slow, 10 times: wall / ideal",
        f"{ratio:.3f}",
        "1.15",
        f"{found.results - scenario.rows} rows too many, {found.wrong} wrong; python -m benchmarks.scale: 1,000",
        met=ratio <= 1.15,
    )
