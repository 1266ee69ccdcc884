"""
What a machine, or a container, does to a script for want of memory or processes is never told as the script's doing.

A group of processes with limits of its own stands for the container; see test_container.py for a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.groups import MEMORY, limited
from tests.sandboxes.hostile.driven import ROOT

pytestmark = pytest.mark.rotating("process", "process")

EATEN = MEMORY + 150  # MB that a script takes

DRIVER = """
import asyncio, json, resource, sys
given = json.loads(sys.argv[1])
for folder in given["groups"]:
    with open(folder + "/cgroup.procs", "w") as file: file.write("0")
if given["hard"]: resource.setrlimit(resource.RLIMIT_NOFILE, (given["hard"], given["hard"]))
from sandboxes import Call, Limits, SandboxError, Script
from sandboxes import registry
import sandboxes.deno, sandboxes.process
from sandboxes.wasm.sandbox import WasmConfig

CONFIGS = {
    "process": sandboxes.process.ProcessConfig, "deno": sandboxes.deno.DenoConfig, "wasm": WasmConfig
}
limits = Limits(timeout=60, load_timeout=60, memory=2000 << 20)

def processes(more):
    "Allows so many processes besides those that there are."
    with open(given["pids"] + "/pids.current") as file: now = int(file.read())
    with open(given["pids"] + "/pids.max", "w") as file: file.write("max" if more is None else str(now + more))

async def main():
    config = CONFIGS[given["backend"]](**given["config"])
    if given["crowded"]: processes(1)  # for a thread of ours
    async with registry.create(config) as sandbox:
        program = await sandbox.load(Script(given["source"], sandbox.language, "evaluate"), limits)
        if given["more"] is not None: processes(given["more"])
        if given["files"]: resource.setrlimit(resource.RLIMIT_NOFILE, (given["files"], 4096))
        found, lost = [], ""
        try:
            calls = [Call(id=n, arguments={"x": x}) for n, x in enumerate(given["rows"])]
            async for execution in program.run(calls, limits):
                found.append([execution.call, execution.status])
        except SandboxError as e:
            lost = f"{type(e).__name__}: {e}"
        if given["more"] is not None: processes(None)
        if given["files"]: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        async for execution in program.run([Call(id=99, arguments={"x": "little"})], limits):
            found.append([execution.call, execution.status])
        return found, lost

async def told():
    try:
        return await main()
    except SandboxError as e:
        return [], f"{type(e).__name__}: {e}"
    finally:
        processes(None)

print(json.dumps(asyncio.run(told())))
"""
PYTHON = f"""
import os, signal, threading, time
if os.environ.get("LOADS"): eaten = b"x" * ({EATEN} << 20)
def evaluate(x):
    if x == "much": return len(b"x" * ({EATEN} << 20))
    if x == "kills itself": os.kill(os.getpid(), signal.SIGKILL)
    if x == "threads":
        for _ in range(20): threading.Thread(target=time.sleep, args=(0.5,)).start()
    if x == "helper":
        if (pid := os.fork()) == 0: os._exit(len(b"x" * ({EATEN} << 20)) % 7)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status < 0: raise ChildProcessError(f"my helper was killed: {{status}}")
    return len(x)
"""
IN_WASM = f"def evaluate(x): return len(b'x' * ({EATEN} << 20)) if x == 'much' else len(x)\n"
TYPESCRIPT = f"""
export function evaluate({{ x }}: {{ x: string }}) {{
  const kept: Uint8Array[] = [];
  while (x === "much" && kept.length < {EATEN}) kept.push(new Uint8Array(1 << 20).fill(1));
  return kept.length;
}}
"""
SHORT = "SandboxLostError: the machine, or its container, ran out of memory"
CROWDED = "SandboxLostError: the machine, or its container, has no room for another process"


class Group:
    """A group of processes with limits of its own."""

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders
        self.pids = folders[-1]

    def run(self, backend: str, rows: list[str], source: str, **options: Any) -> tuple[dict[int, str], str]:
        """What became of the rows, by their numbers, and why not of all."""
        given = {
            "groups": self._folders,
            "pids": self.pids,
            "backend": backend,
            "rows": rows,
            "source": source,
            "more": options.pop("more", None),
            "files": options.pop("files", None),
            "hard": options.pop("hard", None),
            "crowded": options.pop("crowded", False),
            "config": {"jobs": 1} | options,
        }
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, json.dumps(given)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        found, lost = json.loads(done.stdout.splitlines()[-1])
        return dict(found), lost


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with limited() as folders:
        yield Group(folders)


@pytest.mark.parametrize(("tier", "isolation"), [("A", "batch"), ("B", "call")])
def test_what_the_machine_has_no_memory_for_is_lost(group: Group, tier: str, isolation: str) -> None:
    rows = ["little", "much", "little", "kills itself", "helper", "little"]
    found, lost = group.run("process", rows, PYTHON, tier=tier, isolation=isolation)
    if lost.startswith("SandboxUnavailableError"):
        pytest.skip(lost)
    assert found == {0: "ok", 2: "ok", 3: "crash", 5: "ok", 99: "ok"}
    assert lost.startswith(SHORT)


def test_the_same_in_deno(group: Group) -> None:
    found, lost = group.run("deno", ["little", "much", "little"], TYPESCRIPT)
    if lost.startswith("SandboxUnavailableError"):
        pytest.skip(lost)
    assert found == {0: "ok", 2: "ok", 99: "ok"}
    assert lost.startswith(SHORT)


def test_the_same_in_wasm(group: Group) -> None:
    found, lost = group.run("wasm", ["little", "much", "little"], IN_WASM, jobs=2, isolation="batch")
    # The first may be lost with its worker: what it came to is told a little later, together with others.
    assert found in ({0: "ok", 2: "ok", 99: "ok"}, {2: "ok", 99: "ok"})
    assert lost.startswith(SHORT)


def test_a_script_that_cannot_be_loaded_for_want_of_memory(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADS", "much")
    found, lost = group.run("process", ["little"], PYTHON, env=["LOADS"])
    assert found == {}
    assert lost.startswith(SHORT)


@pytest.mark.parametrize(("rows", "more"), [(["threads"], 8), (["little"], 0)], ids=["threads", "a run"])
def test_a_process_that_is_refused_by_the_machine_is_lost(group: Group, rows: list[str], more: int) -> None:
    found, lost = group.run("process", rows, PYTHON, more=more)
    assert found == {99: "ok"}
    assert lost.startswith(CROWDED)


def test_too_few_descriptors_of_ours_lose_a_row(group: Group) -> None:
    found, lost = group.run("process", ["little"], PYTHON, files=8)
    assert found == {99: "ok"}
    assert lost.startswith("SandboxLostError: too many files are open")


@pytest.mark.parametrize("backend", ["process", "deno", "wasm"])
def test_a_sandbox_that_finds_no_room_says_so(group: Group, backend: str) -> None:
    found, why = group.run(backend, ["little"], IN_WASM, crowded=True, jobs=2)
    assert found == {}
    assert "has no room for another process; stop some, raise" in why


@pytest.mark.parametrize(("backend", "needed"), [("process", 64), ("deno", 256)])
def test_a_machine_that_allows_too_few_open_files_is_told(group: Group, backend: str, needed: int) -> None:
    found, why = group.run(backend, ["little"], PYTHON, hard=50)
    assert found == {}
    assert f"needs {needed} open files (ulimit -n), but this process may have only 50" in why


CLI = """
import os, sys
folder, more = sys.argv.pop(1), int(sys.argv.pop(1))
with open(folder + "/cgroup.procs", "w") as file: file.write("0")
from runner.__main__ import main
with open(folder + "/pids.max", "w") as file: file.write(str(1 + more))
sys.exit(main())
"""


@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_a_command_that_finds_no_room_could_not_judge(group: Group, more: int, tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text("def evaluate(output): return output\n")
    (tmp_path / "rows.csv").write_text("output\na\n")
    try:
        done = subprocess.run(
            [sys.executable, "-c", CLI, group.pids, str(more), "run", "same.py", "rows.csv", "--sandbox", "process"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    finally:
        Path(group.pids, "pids.max").write_text("max")
    assert done.returncode == 3, done.stderr
    assert "has no room for another process; stop some" in done.stderr
    assert "unexpectedly" not in done.stderr
    assert "Traceback" not in done.stderr
