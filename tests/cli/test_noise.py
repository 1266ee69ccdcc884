"""What runs when any Python starts, and prints, reads, starts processes: nothing of it is taken for a word of ours."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest

from runner.runs.pool.process import WorkerProcess
from sandboxes.errors import SandboxLostError
from sandboxes.packages import interpreter_facts
from sandboxes.packages.resolution import interpreter
from sandboxes.packages.tool_process import ToolResult
from sandboxes.packages.uv import failure, find_uv
from sandboxes.wasm import compiler, lanes
from sandboxes.wasm.frames import Bounds
from tests.cli.commands import LENGTH, ROWS, evalcell, write_rows
from tests.cli.folders import KEY, Folders

RUN = ["run", "same.py", "rows.jsonl"]
# The processes that are ours to talk to get more: it does not fit into any pipe, and a process keeps the pipes open.
NOISE = """
import os, subprocess, sys, threading, time
os.write(1, b"x")
sys.stderr.write("chatter\\n")
if sys.flags.no_site:
    assert os.read(0, 1) == b"", "it took what is not its own"
    os.write(1, b"n" * 8_000 + b"\\n")
    for _ in range(2000):
        print("n" * 10_000)
    subprocess.Popen(["sleep", "3"])
    kept = os.dup(1)
    def go_on():
        while True:
            os.write(kept, b"more\\n")
            time.sleep(0.01)
    threading.Thread(target=go_on, daemon=True).start()
"""

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sleep"),
    pytest.mark.rotating("noise of a Python that starts", "cli", "wasm", "parts", "pool", "data", "remote", "packages"),
]


@pytest.fixture
def noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sitecustomize.py; in the current one are a script and rows."""
    folder = tmp_path / "noise"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NOISE)
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "same.py").write_text(LENGTH)
    (place / "same.ts").write_text("export function evaluate(output: string): number { return output.length; }\n")
    for name in ("rows", "rows-a", "rows-b"):
        write_rows(place / f"{name}.jsonl", ROWS[:2])
    pa.parquet.write_table(pa.table({"output": ["x", "xxx"]}), "rows.parquet")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        [*RUN, "-j", "2"],
        [*RUN, "-j", "1"],
        [*RUN, "--sandbox", "process"],
        ["run", "same.ts", "rows.jsonl"],
        ["run", "same.py", "rows-*.jsonl"],
        ["run", "same.py", "rows.parquet", "-j", "2"],
        pytest.param([*RUN, "--on", "ray"], marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
    ids=["workers", "instance", "process", "deno", "parts", "parquet", "ray"],
)
def test_a_run_is_as_without(noise: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    if "ray" in words and find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    program = [sys.executable, "-P", "-c", "from runner.__main__ import main; main()", *words, "-o", "out/", "-q"]
    paths = os.pathsep.join((str(noise), *filter(None, [os.environ.get("PYTHONPATH")])))
    done = subprocess.run(
        program, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for path in sorted(Path("out").rglob("results.jsonl")) for line in path.read_text().splitlines()]
    assert [json.loads(line)["score"] for line in lines] == [1, 3] * (len(lines) // 2)
    assert len(lines) == (4 if "rows-*.jsonl" in words else 2)


async def test_a_worker_of_a_server_and_what_compiles(noise: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(noise))
    worker = WorkerProcess("tried", os.environ)
    await worker.start()
    await worker.close()
    quiet = compiler.native("an empty module", b"\0asm\1\0\0\0")
    assert quiet.startswith(b"\x7fELF")


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_worker_that_never_starts_is_told_as_such(noise: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A large script does not fit into a pipe that nobody reads."""
    (noise / "sitecustomize.py").write_text("import sys, time\nif sys.flags.no_site:\n    time.sleep(3600)\n")
    monkeypatch.setenv("PYTHONPATH", str(noise))
    monkeypatch.setattr(lanes, "GRACE", 1.0)

    async def load() -> None:
        await lanes.Lane("auto").load(1, bytes(size), Bounds(1.0, 1 << 20, 1 << 20, None))

    with pytest.raises(SandboxLostError, match="worker process did not answer within 2 s"):
        asyncio.run(load())


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """A Python whose packages have a .pth file that prints."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "noise.pth").write_text("import os; os.write(1, b'noise\\n'); os.write(2, b'chatter\\n')\n")
    return tmp_path / "venv" / "bin" / "python3"


def test_a_machine_of_a_provider(noise: Path, noisy: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what stores files there, whose reply is one line."""
    import folder_package  # type: ignore[import-not-found]  # installed by the fixture

    monkeypatch.setattr(folder_package, "sys", SimpleNamespace(executable=str(noisy)))
    monkeypatch.setenv("FOLDER_KEY", KEY)
    monkeypatch.setenv("HOME", str(noise))
    done = evalcell(*RUN, "--sandbox", "folder", "--allow-network", "--file", "MODEL=rows-a.jsonl", "-o", "out/")
    assert done.exit_code == 0, done.output
    assert subprocess.run([noisy, "-c", ""], capture_output=True).stdout.startswith(b"noise\n")


async def test_what_another_python_is(noisy: Path, tmp_path: Path) -> None:
    """Evalcell can ask it; uv cannot, and then that is the reason that is told."""
    talks = tmp_path / "python"
    talks.write_text(f'#!/bin/sh\necho a word of a wrapper\nexec "{noisy}" "$@"\n')
    talks.chmod(0o755)
    found = await interpreter(talks, asyncio.get_running_loop().time() + 60)
    assert found.facts["tag"] == interpreter_facts.facts()["tag"]
    (tmp_path / "wanted").write_text("tiny\n")
    command = [str(find_uv()), "pip", "compile", "wanted", "--python", str(noisy), "--offline", "--no-cache"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    error = failure(ToolResult(done.returncode, done.stdout, done.stderr.decode()), "tiny", "change it")
    assert "prints to standard output: look for a .pth file" in str(error)
