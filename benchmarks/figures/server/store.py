"""100,000 results in the store: added, and paged by row, by score, by a filter and by a search."""

from __future__ import annotations

import io
import json
import random
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.figures.compare import row
from benchmarks.measure import Figures, timed
from runner.core.types import Result
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store import open_store
from runner.results.store.segments import SegmentBuilder
from runner.results.store.store import Store
from runner.results.store.types import RunSpec, Selection

ROWS = 100_000
SHARE, MEGABYTES = 0.5, 40
SELECTIONS = {
    "the first page": Selection(),
    "the last page": Selection(first=ROWS - 50),
    "the worst": Selection(order="worst"),
    "the worst of a label": Selection(order="worst", label="mismatch", low=0.5),
    "a search": Selection(search="row-99999"),
}


def figure_store(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(folder=Path(folder) / "store") as store:
        run = _run(store)
        seconds = timed(lambda: _fill(store, run))
        lines = [one.path for one in store.segments(run)]
        parsing = timed(lambda: [json.loads(line) for path in lines for line in path.open()])
        beside = f"json.loads of all their lines alone: {parsing:.2f} s"
        figures.add(f"{ROWS:,} results added to the store", f"{ROWS / seconds:,.0f}/s", beside=beside)
        for name, selection in SELECTIONS.items():
            taken = statistics.median(timed(partial(store.select, run, selection)) for _ in range(5))
            share = taken / parsing
            what = f"{name} of {ROWS:,} stored results ÷ json.loads of all their lines"
            figures.add(what, f"{share:.2f}", f"≤ {SHARE:g}", f"{taken * 1000:.0f} ms", met=share <= SHARE)
        more = _memory(folder, run)
        figures.add("memory that selecting takes", f"{more} MB", f"< {MEGABYTES} MB", met=more < MEGABYTES)


def _run(store: Store) -> str:
    script = '# /// script\n# [tool.evalcell]\n# output = { kind = "freeform", direction = "maximize" }\n# ///\n'
    store.add_evaluator(parse_evaluator(f"{script}def evaluate(output): return 1.0\n", "bench"))
    store.add_dataset(io.BytesIO(b"{}\n"), name="rows", suffix=".jsonl")
    return store.create_run(RunSpec(evaluator="bench", dataset="rows"), state="running").id


def _fill(store: Store, run: str) -> None:
    draw, builder = random.Random(1), SegmentBuilder()
    for number in range(1, ROWS + 1):
        fields = row(number, draw.random())
        builder.add(Result.model_validate(fields | {"number": number, "row": {"output": "some text " * 5}}))
        if builder.full:
            store.add_segment(run, builder.take())
    if len(builder):
        store.add_segment(run, builder.take())


def _memory(folder: str, run: str) -> int:
    """What the selections add to a process that has opened the store, in MB."""
    done = subprocess.run([sys.executable, "-m", __name__, folder, run], capture_output=True, check=True)
    return int(done.stdout)


def _peak() -> int:
    """MB. That of getrusage would begin with what the parent had."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


if __name__ == "__main__":
    with open_store(folder=Path(sys.argv[1]) / "store") as opened:
        opened.select(sys.argv[2], Selection(count=1))
        before = _peak()
        for one in SELECTIONS.values():
            opened.select(sys.argv[2], one)
        print(_peak() - before)
