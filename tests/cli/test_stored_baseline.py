"""A run is compared with one that the store keeps, by its id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import evalcell, run

DIRECTED = """\
# /// script
# [tool.evalcell.output]
# kind = "freeform"
# direction = "maximize"
# ///
def evaluate(output):
    return len(output) - LESS
"""


@pytest.mark.parametrize("name", ["id", "latest"])
def test_a_baseline_may_be_a_run_of_the_store(here: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(here / "state"))
    (here / "rows.jsonl").write_text("".join(json.dumps({"output": "x" * (n % 7 + 1)}) + "\n" for n in range(20)))
    (here / "directed.py").write_text(DIRECTED.replace("LESS", "0"))
    assert run("directed.py", "rows.jsonl", "--save", "-q").exit_code == 0
    (stored,) = json.loads(evalcell("runs", "--json").stdout)
    (here / "directed.py").write_text(DIRECTED.replace("LESS", "1"))
    baseline = stored["id"] if name == "id" else name
    done = run("directed.py", "rows.jsonl", "--baseline", baseline, "--fail-if-worse", "--json")
    assert done.exit_code == 1, done.stderr
    assert json.loads(done.stdout)["comparison"]["verdict"] == "worse"
    (here / "evalcell.toml").write_text(
        f'dataset = "rows.jsonl"\nevaluator = "directed.py"\nbaseline = "{baseline}"\nfail_if_worse = 0\n'
    )
    done = evalcell("run", "--json")
    assert done.exit_code == 1, done.stderr
