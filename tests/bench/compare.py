"""Two runs of 100,000 rows, compared."""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import tempfile
from pathlib import Path

from tests.bench.measure import EVALCELL, Figures, timed

ROWS = 100_000
SECONDS, MEGABYTES = 3.0, 300


def figure_compare(figures: Figures) -> None:
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("base.jsonl", "new.jsonl")]
        for shift, path in enumerate(paths):
            with path.open("w") as file:
                for number in range(ROWS):
                    file.write(json.dumps(row(number, draw.random() - shift / 50)) + "\n")

        def compare() -> None:
            command = [*EVALCELL, "compare", *map(str, paths), "--direction", "maximize", "--json"]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            assert (found["compared"], found["verdict"]) == (ROWS, "worse")

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = statistics.median(timed(compare) for _ in range(3))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 3
        parsing = timed(lambda: [json.loads(line) for path in paths for line in path.open()])
    memory = after.ru_maxrss >> 10
    name = f"two runs of {ROWS:,} rows in `.jsonl` compared"
    beside = f"processor time {cpu:.1f} s; json.loads of all lines alone: {parsing:.1f} s"
    figures.add(name, f"{seconds:.1f} s", f"≤ {SECONDS:g} s", beside, met=seconds <= SECONDS)
    figures.add(f"{name}, memory", f"{memory} MB", f"< {MEGABYTES} MB", met=memory < MEGABYTES)


def row(number: int, score: float) -> dict[str, object]:
    """As a run writes it."""
    return {
        "id": f"row-{number}",
        "evaluator": "json-distance",
        "version": "0123456789ab",
        "sandbox": "wasm/python-3.14.0/wasmtime-50.0.1",
        "given": f"{number:08x}{hash(score) & 0xFFFFFFFF:08x}",
        "outcome": "scored",
        "label": "match" if number % 3 else "mismatch",
        "score": score,
        "explanation": "2 field(s) differ from the reference.",
        "error": None,
        "stdout": "",
        "duration_ms": 0.123,
    }
