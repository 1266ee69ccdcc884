"""What is left on a node when a program is killed: a cluster's guardian or the next worker clears it away."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sandboxes.cluster.files import WorkerFiles
from tests.cluster.processes import below, left

PROGRAM = """
import os, subprocess, sys
from sandboxes.cluster.connection import _marked
from sandboxes.cluster.guardian import Guardian
guardian = Guardian(sys.argv[1])
with _marked(sys.argv[1]):
    started = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
other = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(other.pid, flush=True)
sys.stdin.read()
if sys.argv[2] == "ends":
    guardian.end()
    for process in started:
        process.wait()
else:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it needs /proc")
@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_a_cluster_of_this_machine_is_gone_with_its_program(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "evalcell-ray-1"
    folder.mkdir()
    (folder / "log").write_text("x")
    words = [sys.executable, "-c", PROGRAM, str(folder), how]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, text=True, cwd=Path(__file__).parents[2], stdin=pipe, stdout=pipe) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        other = int(program.stdout.readline())
        seen = below([program.pid]) - below([other])
        assert len(seen) == 4, "the program, its guardian, and two of the cluster"
        program.stdin.close()
        try:
            assert not left(seen)
            assert not folder.exists()
            assert left(below([other]), 0.0), "it is not of the cluster"
        finally:
            os.kill(other, signal.SIGKILL)


WORKER = """
import os, sys
from sandboxes.cluster.files import WorkerFiles
print(WorkerFiles().write({"WORDS": b"one two"})["WORDS"], flush=True)
os.kill(os.getpid(), 9)
"""


def test_the_files_of_a_worker_that_was_killed_are_deleted_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(tempfile.mkdtemp(prefix="ec-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    try:
        own = os.environ | {"TMPDIR": str(place)}
        done = subprocess.run(
            [sys.executable, "-c", WORKER], env=own, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        assert done.returncode == -signal.SIGKILL
        assert Path(done.stdout.strip()).read_text() == "one two"
        held = WorkerFiles()
        held.write({"OTHER": b"three"})
        assert not Path(done.stdout.strip()).parent.exists()
        WorkerFiles().write({})
        assert len(list(place.iterdir())) == 1, "one that is held stays"
        held.close()
    finally:
        shutil.rmtree(place)
