"""On gVisor's kernel: Wasm runs, and `process` and `deno` say why they do not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.rotating("process", "process"),
    pytest.mark.skipif(
        shutil.which("runsc") is None or not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs runsc, as root"
    ),
]

ROOT = Path(__file__).parents[2]
RUNSC = ("runsc", "--network=none", "--ignore-cgroups", "do", "--")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run evalcell in gVisor. `runsc do` gives its standard input to `nobody`: never the machine's own /dev/null."""
    command = [
        *RUNSC,
        "env",
        f"--chdir={cwd}",
        sys.executable,
        "-c",
        "from runner.__main__ import main; main()",
        *arguments,
    ]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, env=variables, cwd=ROOT, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=250
    )
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tried = subprocess.run([*RUNSC, "/bin/true"], stdin=subprocess.PIPE, capture_output=True, text=True, timeout=250)
    if tried.returncode:
        pytest.skip(f"runsc does not work here: {tried.stderr[-200:]}")
    (tmp_path / "same.py").write_text("def evaluate(output): return 1.0\n")
    (tmp_path / "same.ts").write_text("export function evaluate(output: string): number { return 1; }\n")
    (tmp_path / "rows.jsonl").write_text('{"output": "a"}\n')
    return tmp_path


def test_wasm_runs_behind_the_filter(folder: Path) -> None:
    done = run("run", "same.py", "rows.jsonl", "--sandbox", "wasm", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "mean 1" in done.stdout
    listed = " ".join(run("sandboxes", cwd=folder).stdout.split())
    assert "tier B, around each worker: seccomp" in listed


@pytest.mark.parametrize(("script", "sandbox"), [("same.py", "process"), ("same.ts", "deno")])
def test_what_needs_namespaces_or_landlock_says_why_it_has_none(script: str, sandbox: str, folder: Path) -> None:
    done = run("run", script, "rows.jsonl", "--sandbox", sandbox, cwd=folder)
    said = " ".join(done.stderr.split())
    if done.returncode == 0:
        pytest.skip("this gVisor has namespaces or Landlock")
    assert done.returncode == 3
    assert "the kernel here is gVisor's" in said
    assert "which gVisor does not have" in said
