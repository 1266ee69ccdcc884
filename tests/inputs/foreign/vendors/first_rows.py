"""What a tool's package makes ready is ready before the first row: each batch, a fork of its own, would do it anew."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

import runner
from runner.inputs.evaluators.program import program
from tests.inputs.foreign.vendors.comparison import ours, real_rows
from tests.inputs.foreign.vendors.environment import HERE, KEPT, TIME, python, variables

# What is loaded for a script, called once in a process of its own; then what that call imported and read.
PROBE = """
import asyncio, json, os, sys, threading
source, entry, row = json.load(sys.stdin)
lines, names = os.fdopen(os.dup(1), "w"), {}
os.dup2(2, 1)
exec(compile(source, "<evalcell>", "exec"), names)
known, read = set(sys.modules), []
if "pydantic_settings" in known:
    kind = sys.modules["pydantic_settings"].BaseSettings
    kind.__init__ = lambda self, *given, begin=kind.__init__, **named: (read.append(type(self).__name__),
                                                                        begin(self, *given, **named))[1]
result = names[entry](**row)
own = {name for name in set(sys.modules) - known if not name.partition(".")[0] in sys.stdlib_module_names}
json.dump([result, sorted(own), read, threading.active_count()], lines)
lines.close()
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("vendor", "script"),
    [
        ("deepeval", "length_ratio.py:LengthRatio"),
        ("inspect", "last_number.py:last_number"),
        ("mlflow", "same.py:same"),
        ("opik", "words.py:Words"),
        ("phoenix", "words.py:words"),
        ("pydantic-evals", "overlap.py:Overlap"),
        ("ragas", "words.py:Words"),
        ("weave", "words.py:Words"),
    ],
)
def test_a_row_imports_nothing_reads_no_settings_and_starts_no_thread(vendor: str, script: str) -> None:
    loaded = program(runner.read_evaluator(f"{HERE}/scripts/{vendor}/{script}"))
    row = real_rows("text")[0]
    row["metadata"]["target"] = row["reference"]
    words = {name: row[name] for name in ("input", "output", "reference", "metadata")}
    if vendor == "deepeval":
        words["threshold"] = 0.5
    result, imported, read, threads = _probed(vendor, [loaded.source, loaded.entrypoint, words])
    assert result, "a row without a result"
    assert (imported, read, threads) == ([], [], 1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("vendor", "entry", "made"), [("opik", "Made", [None, 1.0, None]), ("ragas", "made", ["before", None, None])]
)
def test_a_metric_is_made_once_for_all_batches(vendor: str, entry: str, made: list[Any]) -> None:
    python(vendor)
    found = ours(HERE / "scripts" / vendor / "made.py", entry, real_rows("text")[:40], {})
    assert [one["outputs"] for one in found] == [{"": made}] * 40, found[0]


def _probed(vendor: str, asked: list[Any]) -> Any:
    done = subprocess.run(
        [python(vendor), "-c", PROBE],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=TIME,
        env=variables(),
        cwd=KEPT / "home",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
