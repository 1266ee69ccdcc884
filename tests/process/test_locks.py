"""No lock that a script takes reaches a file of the host, and none of the host's reaches a script."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

from sandboxes import Call, Execution
from sandboxes.boxes.launch import Tier
from sandboxes.process import ProcessConfig, ProcessSandbox
from tests.process.conftest import LIMITS, Evaluate, run
from tests.scripts import python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

HOLDS = """
import fcntl, os, struct, sys
library = next(path for path in (f"{folder}/json/__init__.py" for folder in sys.path) if os.path.exists(path))
held = []
def lock(path):
    file = open(path, "rb")
    held.append(file)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.fcntl(file, 37, struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    for command in (fcntl.F_SETLEASE, 1040):  # the second: F_SETDELEG, of newer kernels
        try: fcntl.fcntl(file, command, fcntl.F_RDLCK)
        except PermissionError: continue
        raise AssertionError(command)
for path in (os.environ["MODEL"], library): lock(path)
def evaluate(): return len(held)
"""
DATABASE = """
import os, sqlite3
def evaluate():
    found = sqlite3.connect("file:" + os.environ["MODEL"] + "?mode=ro", uri=True).execute("select n from t").fetchall()
    if os.path.isdir("/tmp"):
        try: own = sqlite3.connect("/tmp/own.db")
        except sqlite3.OperationalError: return found  # tier B: nothing can be written
        own.execute("create table t(n)"), own.execute("insert into t values (2)"), own.commit()
        found += own.execute("select n from t").fetchall()
    return found
"""


@pytest.fixture
def model(open_folder: Path) -> Path:
    path = open_folder / "model"
    path.write_text("weights")
    path.chmod(0o644)
    return path


def test_a_lock_reaches_no_file_of_the_host(tier: Tier, model: Path) -> None:
    async def body() -> list[Execution]:
        config = ProcessConfig(tier=tier, jobs=1, files={"MODEL": str(model)})
        async with ProcessSandbox(config) as sandbox:
            program = await sandbox.load(python(HOLDS), LIMITS)
            with model.open("r+b") as file:  # what the host does while the script holds its locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = [e async for e in program.run([Call(id=0)], LIMITS)]
            return found

    (found,) = run(body())
    assert (found.status, found.value) == ("ok", 2), found.error


def test_a_lock_of_the_host_holds_up_no_script(evaluate: Evaluate, model: Path) -> None:
    with model.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        found = evaluate(HOLDS, files={"MODEL": str(model)})
    assert (found.status, found.value) == ("ok", 2), found.error


def test_a_database_can_be_used(evaluate: Evaluate, tier: Tier, model: Path) -> None:
    sqlite3 = pytest.importorskip("sqlite3", reason="this Python has no SQLite")
    os.unlink(model)
    with sqlite3.connect(model) as made:
        made.execute("create table t(n)"), made.execute("insert into t values (1)")
    made.close()
    model.chmod(0o644)
    found = evaluate(DATABASE, files={"MODEL": str(model)})
    assert found.status == "ok", found.error
    assert found.value == ([[1], [2]] if tier == "A" else [[1]])
