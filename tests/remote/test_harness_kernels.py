"""The harness on kernels and Pythons that lack something: it runs scripts all the same, or says what is missing."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from sandboxes import Isolation
from sandboxes.remote import agent_protocol
from tests.groups import MEMORY, limited
from tests.remote.harness_scripts import MANY, SHORT
from tests.remote.room import PYTHON
from tests.remote.ways import LIMITS, OWN, Running, ask, asked, refused, rows

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="machines run Linux"),
    pytest.mark.rotating("providers", "remote"),
]

FAILS = {
    "no-filter": ("agent.confine.seccomp = None", {"seccomp"}),
    "bare": ("agent.confine.mount_tmp = None", {"mounts", "seccomp", "pids"}),
}


@pytest.mark.parametrize(("broken", "lacks"), FAILS.values(), ids=FAILS)
def test_what_the_kernel_only_seems_to_have_is_left_out_and_told(broken: str, lacks: set[str]) -> None:
    """The walls are broken inside the harness, for no kernel at hand is as odd as some are."""
    program = f"{broken}; agent.main("
    running = Running(OWN, asked(MANY), rows("x", "exits", "y"), change=lambda b: b.replace("agent.main(", program))
    found = running.answer()
    assert found.listener.greeting is not None
    assert not lacks & set(found.listener.greeting.protects)
    assert [(e.status, e.value) for e in found.executions] == [("ok", "x"), ("crash", None), ("ok", "y")]


def test_an_older_python_says_who_it_is_and_no_more() -> None:
    def older(boot: str) -> str:
        changed = boot.replace("sys.version_info < (3, 9)", "sys.version_info < (9, 0)")
        assert changed != boot
        return changed

    found = Running(OWN, None, [], change=older).answer()
    assert found.listener.greeting is not None
    assert (found.listener.greeting.protects, found.listener.finished) == ((), True)


ORPHANS = """
import os, time
def evaluate(x):
    if x == "leaves":
        heard, tell = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                os.setpgid(0, 0)
                os.write(tell, b".")
                time.sleep(60)
            os._exit(0)
        os.read(heard, 1)
    return x
"""


@pytest.mark.parametrize("lacks", [(), ("namespaces", "landlock")])
def test_a_kernel_that_lets_nobody_adopt_orphans_runs_scripts_and_says_what_that_costs(lacks: tuple[str, ...]) -> None:
    """As gVisor before July 2023. A namespace of processes keeps orphans in; without one nobody finds them."""
    refusing = refused().before
    way = replace(OWN, before=(*refusing[: refusing.index("namespaces")], "subreaper", *lacks, "--"), alone=True)
    running = Running(way.lasting, asked(ORPHANS, limits=SHORT), rows("first", "leaves", "last"))
    try:
        found, pieces = [], running.pieces()
        while not running.listener.finished:
            found += running.listener.feed(next(pieces))
        assert [(e.status, e.value) for e in found] == [("ok", "first"), ("ok", "leaves"), ("ok", "last")]
        greeting = running.listener.greeting
        assert greeting is not None
        assert "orphans" not in greeting.protects
        assert ("pids" in greeting.protects) == (not lacks)
        assert bool(running.left(0.5 if lacks else 3)) == bool(lacks)
    finally:
        running.process.kill()
        running.end()


SETTLED = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
def evaluate(x):
    flags = [sys.flags.hash_randomization, sys.flags.utf8_mode]
    return [list(map(str, {*"abcdefgh"})), flags, [str(libc.getenv(name.encode())) for name in x]]
"""

DROPPED = {
    "all": {},
    "some": {"PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"},
    "replaced": {"PYTHONHASHSEED": "7", "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONPATH": "/nowhere"},
}


@pytest.mark.parametrize("variables", DROPPED.values(), ids=DROPPED)
def test_what_a_service_does_with_variables_changes_no_result(variables: dict[str, str]) -> None:
    """As where sudo keeps none of them, or a machine has its own."""
    calls = rows(["OMP_NUM_THREADS", "LD_BIND_NOW"])
    usual = ask(SETTLED, calls)
    assert usual.values[0][1:] == [[0, 1], ["b'1'", "b'1'"]]
    found = Running(OWN, asked(SETTLED), calls, variables=variables).answer()
    assert found.listener.greeting is not None
    assert found.listener.greeting.hash_seed == "0"
    assert (found.values, found.errors) == (usual.values, "")


def test_a_python_that_obeys_no_variable_says_its_hash_seed_and_starts_no_script() -> None:
    """Its way to begin anew is taken from it, for no Python at hand is as deaf."""

    def deaf(boot: str) -> str:
        changed = boot.replace("not settled()", "False")
        assert changed != boot
        return changed

    found = Running(OWN, None, [], change=deaf, variables={}).answer()
    assert found.listener.greeting is not None
    assert found.listener.greeting.hash_seed == "other"
    running = Running(OWN, asked("def evaluate(x): return x"), rows(1), change=deaf, variables={})
    with pytest.raises(agent_protocol.UnclearError, match="hash seed is not 0"):
        running.answer()


ENTERS = """
import os, sys
count = int(sys.argv[1])
for folder in sys.argv[2:2 + count]:
    with open(folder + "/cgroup.procs", "w") as file: file.write("0")
os.execvp(sys.argv[2 + count], sys.argv[2 + count:])
"""


EATS = f"""
import os, signal
def evaluate(x):
    if x == "much": return len(b"x" * ({MEMORY + 150} << 20))
    if x == "kills itself": os.kill(os.getpid(), signal.SIGKILL)
    return x
"""


@pytest.mark.parametrize("isolation", ["batch", "call"])
def test_a_row_that_the_machine_has_no_memory_for_is_lost_and_the_others_go_on(isolation: Isolation) -> None:
    with limited() as folders:
        enters = (str(PYTHON), "-I", "-S", "-c", ENTERS, str(len(folders)), *folders)
        way = replace(OWN, before=enters)
        found = ask(
            EATS,
            rows("a", "much", "b", "kills itself", "c"),
            isolation,
            way,
            LIMITS.model_copy(update={"timeout": 60, "memory": 2000 << 20}),
        )
    assert [(e.call, e.status) for e in found.executions] == [(10, "ok"), (12, "ok"), (13, "crash"), (14, "ok")]
    assert found.listener.lost.startswith("the machine, or its container, ran out of memory")
