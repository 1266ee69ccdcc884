"""
`evalcell serve`: from the command to its first page, beside Python with FastAPI alone.

    python -m tests.bench.serve_start
"""

from __future__ import annotations

import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

TIMES = 5


def started(state: Path) -> tuple[float, float]:
    """Seconds to the first page, and processor seconds of all until it was stopped."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", "serve", "--port", "0"],
        env=os.environ | {"EVALCELL_STATE_DIR": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    assert httpx.get(found[0], headers={"accept": "text/html"}, timeout=60).status_code == 200
    seconds = time.perf_counter() - began
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def baseline() -> float:
    """Seconds of a Python that imports FastAPI."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, uvicorn, sqlalchemy"], check=True)
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, _ = started(Path(folder))
        later = [started(Path(folder)) for _ in range(TIMES)]
    base = statistics.median(baseline() for _ in range(TIMES))
    seconds, processor = (statistics.median(values) for values in zip(*later, strict=True))
    print(f"first start {first:.2f} s; later {seconds:.2f} s to the first page, {processor:.2f} s of processor in all")
    print(f"importing FastAPI, uvicorn and SQLAlchemy {base:.2f} s; ratio {seconds / base:.1f}")


if __name__ == "__main__":
    main()
