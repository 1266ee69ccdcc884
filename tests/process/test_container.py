"""evalcell in a real container with little memory: what its kernel ends is nobody's fault, and the run goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandboxes.hostile.driven import ROOT

pytestmark = pytest.mark.thorough("a group of processes with limits stands for the container in test_shortage.py")

ROWS, MEGABYTES = 24, (5, 60, 120, 20, 200, 10, 150, 30)
PYTHON = """
import time
def evaluate(output):
    block = bytearray(int(output) << 20)
    for at in range(0, len(block), 4096): block[at] = 1
    time.sleep(0.05)
    return int(output)
"""
TYPESCRIPT = """
export function evaluate({ output }: { output: string }) {
  const kept: Uint8Array[] = [];
  while (kept.length < Number(output)) kept.push(new Uint8Array(1 << 20).fill(1));
  return kept.length;
}
"""


@pytest.fixture(scope="module")
def container() -> Iterator[tuple[list[str], Path]]:
    """A command that runs what follows in a container of 250 MB, with this machine's programs and a folder /work."""
    if os.geteuid() or not shutil.which("podman") or not shutil.which("runc"):
        pytest.skip("needs root, podman and runc")
    with tempfile.TemporaryDirectory(prefix="evalcell-container-", dir="/var/tmp") as made:
        root, work = Path(made) / "root", Path(made) / "work"
        work.mkdir()
        for name in ("usr", "tmp", "proc", "sys", "dev", "etc", "work"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                (root / name).symlink_to(os.readlink(f"/{name}"))
        shown = {"/usr", sys.base_prefix, sys.prefix, str(ROOT)}
        shown = {path for path in shown if not any(path.startswith(other + "/") for other in shown)}
        command = ["podman", "--runtime", "runc", "run", "--rm", "--network", "none", "--workdir", "/work"]
        command += ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=8192:8192"]
        command += ["--memory", "250m", "--memory-swap", "250m", "--volume", f"{work}:/work"]
        command += [word for path in shown for word in ("--volume", f"{path}:{path}:ro")]
        variables = {"PYTHONPATH": str(ROOT), "HOME": "/work", "PYTHONDONTWRITEBYTECODE": "1"}
        command += [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        command += ["--rootfs", str(root)]
        tried = subprocess.run([*command, sys.executable, "-c", "print('here')"], capture_output=True, text=True)
        if tried.stdout != "here\n":
            pytest.skip(f"no container can be run here: {tried.stderr.strip()[-300:]}")
        with open(work / "rows.jsonl", "w") as file:
            for number in range(ROWS):
                file.write(json.dumps({"output": str(MEGABYTES[number % len(MEGABYTES)])}) + "\n")
        (work / "eats.py").write_text(PYTHON)
        (work / "eats.ts").write_text(TYPESCRIPT)
        yield [*command, sys.executable, "-c", "import sys; from runner.__main__ import main; sys.exit(main())"], work


@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", ["eats.py", "eats.ts"])
def test_no_row_is_blamed_for_what_the_kernel_ended(container: tuple[list[str], Path], script: str) -> None:
    command, work = container
    sandbox = "deno" if script.endswith(".ts") else "process"
    asked = ["run", script, "rows.jsonl", "--sandbox", sandbox, "-j", "2", "-o", f"{script}.jsonl"]
    # In that folder podman's own process leaves a file which says that memory ran out.
    done = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=280, cwd=work)
    assert done.returncode == 0, done.stderr[-2000:]
    found = Counter(json.loads(line)["outcome"] for line in (work / f"{script}.jsonl").read_text().splitlines())
    assert found["failed"] == 0, done.stdout
    assert found["lost"] > 0, "the container had memory for all: the test tries nothing"
    assert found["scored"] + found["lost"] == ROWS
