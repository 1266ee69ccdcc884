"""The hostile scripts of a process, in a container: each comes to an end that was foreseen, and harms nobody."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from sandboxes import Call, Execution, Isolation, Limits, Program, Sandbox
from tests.containers import local
from tests.sandboxes.hostile.boxed import boxed, named, tools
from tests.sandboxes.hostile.judged import LIMITS, PATIENT, is_clean, judge, patience
from tests.sandboxes.hostile.scripts import ATTACK, CLEAN, Hostile, scripts
from tests.scripts import python

pytestmark = [
    pytest.mark.thorough("promises in containers, and the same scripts in a process"),
    pytest.mark.timeout(300),
]

PROCESS = Path(__file__).parents[1] / "process" / "hostile"
THEIRS = scripts(PROCESS, tuple(sorted(path.stem for path in PROCESS.glob("*.txt"))))
SCRIPTS = (*scripts(), *(script for script in THEIRS if "victim" not in script.source))
"""`victim` is a module in a folder of the host, which no container is shown."""


def _timeout(script: Hostile) -> float:
    return PATIENT if script.category == "hogs" else patience(script.boxed)


def _groups() -> Iterator[list[Hostile]]:
    """Those of a category that have the same time."""
    groups: dict[tuple[str, float], list[Hostile]] = {}
    for script in SCRIPTS:
        if not script.attacks_at_load:
            groups.setdefault((script.category, _timeout(script)), []).append(script)
    for group in groups.values():
        yield from (group[at : at + TOGETHER] for at in range(0, len(group), TOGETHER))


TOGETHER = 12
"""Attacks in one batch, each of which takes the container a moment to begin."""
GROUPS = list(_groups())
NAMES = [f"{group[0].id}-and-{len(group) - 1}" for group in GROUPS]


class Room:
    """One container, in which all attacks are tried, and two programs: one is attacked, one looks on."""

    def __init__(self, portal: BlockingPortal, sandbox: Sandbox) -> None:
        self._portal, self.sandbox = portal, sandbox
        self.name = f"hc{os.getpid()}"
        self.shell, self.clean = (self.load(boxed(self.name), Limits()) for _ in range(2))
        ((self.pristine,),) = [self.run(self.shell, [CLEAN])]

    def load(self, source: str, limits: Limits) -> Program:
        return self._portal.call(self.sandbox.load, python(source), limits)

    def run(
        self,
        program: Program,
        batch: Sequence[tuple[str, str]],
        limits: Limits | None = None,
        isolation: Isolation = "call",
    ) -> list[Execution]:
        calls = [Call(id=n, arguments={"output": a, "reference": b}, seed=7) for n, (a, b) in enumerate(batch)]

        async def body() -> list[Execution]:
            self.sandbox.isolation = isolation
            return sorted([one async for one in program.run(calls, limits or Limits())], key=lambda one: one.call)

        return self._portal.call(body)

    def look_around(self) -> None:
        """Assert that another program's call is as ever, and that nothing is left on the machine."""
        assert is_clean(self.run(self.clean, [CLEAN])[0].model_dump())
        assert named(self.name) == []


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    if why := local.missing():
        pytest.skip(why)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(local.sandbox(jobs=1)) as sandbox:
        yield Room(portal, sandbox)
    assert local.containers_of() == []


@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
def test_hostile_rows_harm_no_other(room: Room, group: list[Hostile]) -> None:
    """One after the other, with a clean row after each."""
    timeout = _timeout(group[0])
    limits = LIMITS.model_copy(update={"timeout": timeout, "load_timeout": PATIENT})
    rows = [row for script in group for row in ((ATTACK, script.source), CLEAN)]
    first, *others = room.run(room.shell, [CLEAN, *rows], limits)
    assert first.value == room.pristine.value, first
    for script, attacked, after in zip(group, others[::2], others[1::2], strict=True):
        try:
            judge(script.boxed, attacked.model_dump(), timeout)
        except AssertionError as e:
            raise AssertionError(script.id) from e
        assert after.value == room.pristine.value, (script.id, after)
    room.look_around()


@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
def test_hostile_rows_of_a_batch_harm_no_other_batch(room: Room, group: list[Hostile]) -> None:
    limits = LIMITS.model_copy(update={"timeout": 2.0, "load_timeout": PATIENT})  # none of them is judged
    rows = [(ATTACK, script.source) for script in group]
    assert len(room.run(room.shell, rows, limits, "batch")) == len(rows)
    assert room.run(room.shell, [CLEAN], None, "batch")[0].value == room.pristine.value
    room.look_around()


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.attacks_at_load], ids=lambda s: s.id)
def test_a_script_that_is_hostile_while_it_loads_harms_no_other(room: Room, script: Hostile) -> None:
    times = {"timeout": patience(script.calls), "load_timeout": patience(script.boxed, LIMITS.load_timeout)}
    limits = LIMITS.model_copy(update=times)
    program = room.load(f"{tools(room.name)}\n{script.source}", limits)
    assert program.loaded is not None
    judge(script.boxed, program.loaded.model_dump(), times["load_timeout"])
    for execution in room.run(program, [CLEAN, CLEAN], limits):
        if program.loaded.status == "ok":
            judge(script.calls, execution.model_dump(), max(times.values()))
        else:
            assert execution.status == program.loaded.status, execution
    room.look_around()
