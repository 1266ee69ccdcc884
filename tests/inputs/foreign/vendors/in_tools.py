"""
What `evalcell export` writes, in the tools themselves: scores, a row that fails, one that abstains.

`make test-vendors` runs this. It installs the tools, so that no other tests do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.foreign.vendors.environment import HERE, node, python

ROOT = HERE.parents[3]
SCRIPT = """
# /// script
# [tool.evalcell.outputs.same]
# kind = "continuous"
# [tool.evalcell.outputs.short]
# kind = "continuous"
# ///
def evaluate(output, reference, bonus=0):
    if output == "raise":
        raise ValueError("no such answer")
    if output == "skip":
        return {"score": None, "explanation": "nothing to say"}
    explanation = f"wanted {reference}"
    return {"same": {"score": float(output == reference) + bonus, "explanation": explanation}, "short": len(output)}
"""
SAID = ["4", "15", "raise", "skip"]


def exported(folder: Path, tool: str, file: str, *options: str) -> None:
    (folder / "polite.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "runner", "export", tool, "polite.py", *options, "-o", file]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def with_evalcell(folder: Path, vendor: str) -> str:
    """An interpreter that has the vendor's packages, and behind them evalcell and what it needs."""
    theirs = python(vendor)
    made = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    (packages,) = made.glob("lib/python3*/site-packages")
    (own,) = theirs.parents[1].glob("lib/python3*/site-packages")
    packages.joinpath("all.pth").write_text(f"{own}\n{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return str(made / "bin" / "python")


def lines(folder: Path, vendor: str, script: str, file: str) -> list[Any]:
    command = [with_evalcell(folder, vendor), str(HERE / "exported" / script), file, "polite"]
    said, env = json.dumps(SAID), {**os.environ, "LANGSMITH_TRACING": "false"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, input=said, env=env, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("[", "{"))]


@pytest.mark.timeout(900)
def test_inspect(tmp_path: Path) -> None:
    exported(tmp_path, "inspect", "polite_inspect.py", "--map", "bonus=metadata.bonus")
    good, bad, raised, skipped, over = lines(tmp_path, "inspect", "inspect_eval.py", "polite_inspect.py")
    assert good == {"scores": [[{"same": 2.0, "short": 1.0}, "4", "wanted 4"]], "error": None}
    assert bad["scores"][0][0] == {"same": 1.0, "short": 2.0}
    assert raised["scores"] == []
    assert "ValueError: no such answer" in raised["error"]
    assert (skipped["error"], over["status"]) == (None, "success")
    assert over["metrics"]["mean"] == 1.5, over  # of the rows with a score alone


@pytest.mark.timeout(900)
def test_langsmith(tmp_path: Path) -> None:
    exported(tmp_path, "langsmith", "polite_langsmith.py", "--set", "bonus=1", "--sandbox", "process")
    good, bad, raised, skipped = lines(tmp_path, "langsmith", "langsmith_evaluate.py", "polite_langsmith.py")
    assert [(one["key"], one["score"]) for one in good] == [("same", 2.0), ("short", 1.0)]
    assert (bad[0]["score"], bad[0]["comment"]) == (1.0, "wanted 4")
    assert [(one["key"], one["score"], one["extra"]) for one in raised] == [
        ("same", None, {"error": True}),
        ("short", None, {"error": True}),
    ]
    assert all(one["score"] is None and one["extra"] is None for one in skipped)


@pytest.mark.timeout(900)
def test_promptfoo(tmp_path: Path) -> None:
    folder = node("promptfoo")
    exported(tmp_path, "promptfoo", "polite.mjs", "--timeout", "30", "--threshold", "0.5")
    assertion: dict[str, Any] = {"type": "javascript", "value": "file://polite.mjs"}
    tests: list[Any] = [{"vars": {"said": one, "expected": "4"}, "assert": [assertion]} for one in SAID]
    tests.append({"vars": {"said": "5", "expected": "4"}, "assert": [{**assertion, "config": {"bonus": 2}}]})
    config = {"prompts": ["{{said}}"], "providers": ["echo"], "tests": tests}
    tmp_path.joinpath("promptfooconfig.json").write_text(json.dumps(config))
    command = tmp_path / "evalcell"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m runner "$@"\n')
    command.chmod(0o755)
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": str(tmp_path)}
    entry = folder / "node_modules" / "promptfoo" / "dist" / "src" / "entrypoint.js"
    done = subprocess.run(
        [
            folder / "bin" / "node",
            entry,
            "eval",
            "-c",
            "promptfooconfig.json",
            "--no-cache",
            "--no-table",
            "-o",
            "o.json",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **quiet, "EVALCELL": str(command)},
    )
    found = json.loads(tmp_path.joinpath("o.json").read_text())["results"]["results"], done.stdout[-2000:]
    good, bad, raised, skipped, given = sorted(found[0], key=lambda one: one["testIdx"])
    assert (good["success"], good["score"], good["namedScores"]) == (True, 1, {"same": 1, "short": 1})
    assert (bad["success"], bad["score"], bad["error"]) == (False, 0, "wanted 4")
    # 2 is promptfoo's word for an error, which is no failed test.
    assert (raised["failureReason"], raised["error"]) == (2, "Error: raised: ValueError: no such answer (line 10)")
    assert (skipped["failureReason"], skipped["error"]) == (2, "Error: no score: nothing to say")
    assert (given["success"], given["score"]) == (True, 2)
