"""What is left on a node when a program is killed: a cluster's guardian or the next worker clears it away."""

from __future__ import annotations

import os
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
def start(words, **variables):
    return subprocess.Popen(words, start_new_session=True, env=os.environ | variables)
SLEEP = ["sleep", "600"]
others = [start(SLEEP)]
with _marked(sys.argv[1]):
    raylet = start([sys.executable, "-S", "-c", "import signal; signal.pause()", "--temp_dir=" + sys.argv[1]])
    started = [raylet, start(SLEEP, RAY_RAYLET_PID=str(raylet.pid))]
    others += [start(SLEEP), start(SLEEP, RAY_RAYLET_PID=str(os.getppid()))]
print(*(other.pid for other in others), flush=True)
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
        others = [int(word) for word in program.stdout.readline().split()]
        try:
            seen = below([program.pid]) - below(others)
            assert len(seen) == 4, "the program, its guardian, a raylet and its worker"
            program.stdin.close()
            assert not left(seen)
            assert not folder.exists()
            assert len(left(below(others), 0.0)) == 3, "begun before, meanwhile, and by another raylet"
        finally:
            for other in others:
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
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WORKER], env=own, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == -signal.SIGKILL
    found = Path(done.stdout.strip())
    assert found.read_text() == "one two"
    assert found.parent.parent == tmp_path, "however long its name is"
    older = tmp_path / "evalcell-files-abcdefgh"
    older.mkdir()
    held = WorkerFiles()
    held.write({"OTHER": b"three"})
    assert not found.parent.exists()
    WorkerFiles().write({})
    assert len(list(tmp_path.iterdir())) == 2, "one that is held stays, and one of an evalcell that did not hold it"
    held.close()
