"""Hostile scripts on a machine: each comes to an end that was foreseen, and costs its neighbours nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Isolation
from tests.process.leaving import LEAVES, LEAVING
from tests.remote.ways import EACH_WAY, OWN, Way, ask, refused, rows
from tests.sandboxes.hostile.boxed import boxed, named, tools
from tests.sandboxes.hostile.judged import LIMITS as TIGHT
from tests.sandboxes.hostile.judged import judge, patience
from tests.sandboxes.hostile.scripts import ATTACK, CLEAN, scripts

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="machines run Linux")

HOSTILE = Path(__file__).parents[1] / "process" / "hostile"


def test_a_hostile_row_harms_no_other() -> None:
    """The attacks on the process sandbox, one after the other on one machine, with a clean row after each."""
    attacks = [s for s in scripts(HOSTILE, ("escapes", "frames", "kernel")) if "shown" not in s.name]
    clean = {"output": CLEAN[0], "reference": CLEAN[1]}
    name = f"hn{os.getpid()}"
    for timeout in {patience(s.boxed) for s in attacks}:
        some = [s for s in attacks if patience(s.boxed) == timeout]
        calls = [Call(id=0, arguments=clean, seed=1)]
        for script in some:
            calls.append(Call(id=len(calls), arguments={"output": ATTACK, "reference": script.source}, seed=1))
            calls.append(Call(id=len(calls), arguments=clean, seed=1))
        limits = TIGHT.model_copy(update={"timeout": timeout})
        first, *found = ask(boxed(name), calls, way=OWN.caged, limits=limits).executions
        assert first.value["label"] == "clean"
        for script, attacked, after in zip(some, found[::2], found[1::2], strict=True):
            try:
                judge(script.boxed, attacked.model_dump(), timeout)
            except AssertionError as e:
                raise AssertionError(script.id) from e
            assert after.value == first.value, script.id
    assert named(name) == []


KEPT_OUT = (
    "closes-everything", "control-in-the-hands-of-rows", "daemons", "forged-load", "forks-lie", "kills-the-guardian"
)  # fmt: skip


@pytest.mark.parametrize("script", [s for s in scripts(HOSTILE, ("load",)) if s.name in KEPT_OUT], ids=lambda s: s.id)
def test_a_script_that_attacks_while_it_loads_spoils_no_more_than_its_own_rows(script: Any) -> None:
    name = f"hl{os.getpid()}"
    calls = [Call(id=n, arguments={"output": "", "reference": ""}) for n in range(2)]
    times = {"timeout": patience(script.calls), "load_timeout": patience(script.boxed, TIGHT.load_timeout)}
    found = ask(f"{tools(name)}\n{script.source}", calls, way=OWN.caged, limits=TIGHT.model_copy(update=times))
    assert found.listener.loaded is not None
    judge(script.boxed, found.listener.loaded.model_dump(), times["load_timeout"])
    for execution in found.executions:
        assert execution.status in script.calls.may or execution.status == found.listener.loaded.status
    assert named(name) == []


KILLS = """
import os, signal
def evaluate(x):
    if x == "kills":
        for pid in (os.getppid(), -1, *range(1, 400)):
            try: os.kill(pid, signal.SIGKILL)
            except OSError: pass
    return x
"""


@EACH_WAY
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_a_row_that_kills_all_that_it_can_costs_itself_alone(way: Way, isolation: Isolation) -> None:
    if way.name == "nothing" or (way.name == "refused" and os.geteuid()):
        pytest.skip("the script's user is the harness's own there, and no kernel keeps them apart")
    found = ask(KILLS, rows("a", "kills", "b"), isolation, way.caged)
    first, killer, last = found.executions
    assert (first.value, last.value) == ("a", "b")
    assert killer.status in ("crash", "ok")


def test_what_a_row_leaves_behind_is_not_blamed_on_others() -> None:
    assert ask(LEAVES, rows(*LEAVING), "batch").values == LEAVING


WRITES = """
import glob, os
def evaluate(x):
    for forged in FORGED:
        for path in [f"/proc/{n}/fd/{fd}" for n in os.listdir("/proc") if n.isdigit() for fd in range(8)]:
            try:
                with open(path, "wb", buffering=0) as file: file.write(forged)
            except OSError: pass
        for fd in range(64):
            try: os.write(fd, forged)
            except OSError: pass
    return x
"""


def test_nothing_that_a_script_writes_anywhere_is_heard_as_the_harness() -> None:
    """With a /proc to look for descriptors in, and nothing but the user between the script and the harness."""
    if os.geteuid():
        pytest.skip("needs to be root")
    forged = [b'{"row":1,"told":{"how":"reply"}}\n', b'{"done":2,"mark":"' + b"0" * 32 + b'"}\n', b"\n\n{"]
    source = f"FORGED = {forged!r}\n{WRITES}"
    found = ask(source, rows(0, 1, 2), way=refused())
    assert [e.call for e in found.executions] == [10, 11, 12]
    assert {e.status for e in found.executions} <= {"ok", "crash", "no_result"}


LOOKS = """
import ctypes, re
def evaluate(x):
    found = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1][0] == "r" and "[v" not in line:
                found |= set(re.findall(rb"(?:row|machines)-secret-[0-9]", ctypes.string_at(first, last - first)))
    return sorted(text.decode() for text in found)
"""


def test_a_script_has_neither_other_rows_nor_the_machines_variables_in_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way = refused()
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:machines-secret-7")
    values = [f"row-secret-{n}" for n in range(3)]
    assert ask(LOOKS, rows(*values), way=way).values == [[value] for value in values]
