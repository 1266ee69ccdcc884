"""A dataset in parts, scored by a sandbox that does nothing: what workers bring where evalcell does all the work."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path

from runner.parts import plan
from runner.parts.run import PartsRun
from runner.request import RunRequest, prepare
from sandboxes import SandboxConfig
from tests.bench.measure import Figures, spread

_ROWS = 160_000
_PARTS = 8
_ROUNDS = 3
_BAR = 0.9


def figure_parts(figures: Figures) -> None:
    """4 workers ÷ one: rows a second, from the plan to the summary, with the starts of all processes."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="evalcell-bench-") as folder:
        os.chdir(folder)
        try:
            _rows()
            each = [(_seconds(1), _seconds(4)) for _ in range(_ROUNDS)]
        finally:
            os.chdir(here)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ratios = [one / four for one, four in each]
    wanted = _BAR * min(4, cores)
    rates = spread([_ROWS / four for _, four in each], ",.0f")
    figures.add(
        "parts: 4 workers ÷ one",
        spread(ratios),
        f"≥ {wanted:.1f} ({cores} cores)",
        f"{rates} rows/s of 4; one: {spread([_ROWS / one for one, _ in each], ',.0f')}",
        met=max(ratios) >= wanted,
    )


def _rows() -> None:
    for part in range(_PARTS):
        count = _ROWS // _PARTS
        with Path(f"rows-{part}.jsonl").open("w") as file:
            for number in range(part * count, (part + 1) * count):
                row = {"id": f"r{number}", "output": f"answer {number % 97}", "reference": f"answer {number % 89}"}
                file.write(json.dumps(row) + "\n")
    Path("same.py").write_text("def evaluate(output, reference):\n    return output == reference\n")


def _seconds(workers: int) -> float:
    config = SandboxConfig(backend="fake", jobs=workers)
    request = RunRequest(evaluator="same.py", dataset="rows-*.jsonl", seed=1, sandbox=config)
    work = PartsRun(prepare(request), files=[f"out-{workers}/"])
    began = time.perf_counter()
    with work.open():
        asyncio.run(work.score())
        work.end("finished")
    taken = time.perf_counter() - began
    assert work.summary().rows == _ROWS
    assert work.parts >= _PARTS, plan.BYTES
    return taken
