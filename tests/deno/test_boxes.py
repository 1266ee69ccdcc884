"""What stands behind a script in Deno: spare boxes, processes that are replaced, folders that are swept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandboxes import Call, Execution
from sandboxes.boxes.program import BoxedProgram
from sandboxes.deno import DenoConfig, DenoSandbox, box_folder
from sandboxes.deno.box_folder import PREFIX, YOUNG, Folder, sweep
from sandboxes.deno.standby_box import StandbyHolder
from sandboxes.guest.supervisor import deno_fifo, deno_run
from tests.deno.opened import LIMITS, Opened
from tests.scripts import typescript

pytestmark = pytest.mark.rotating("deno", "deno")

HANGS = "function evaluate({ n }: { n: number }) { while (n < 0); return n; }"


def sandbox() -> DenoSandbox:
    return DenoSandbox(DenoConfig(isolation="batch", jobs=1))


def turns(program: object) -> StandbyHolder:
    assert isinstance(program, BoxedProgram)
    (lane,) = program._lanes
    assert isinstance(lane.box, StandbyHolder)
    return lane.box


@pytest.mark.usefixtures("opened")
async def test_once_a_call_has_ended_its_box_another_stands_ready() -> None:
    async with sandbox() as opened:
        program = await opened.load(typescript(HANGS), LIMITS)

        async def scored(*values: int) -> list[str]:
            batch = [Call(id=place, arguments={"n": n}) for place, n in enumerate(values)]
            limits = LIMITS.model_copy(update={"timeout": 0.3})
            found: list[Execution] = [e async for e in program.run(batch, limits)]
            return [e.status if e.value is None else str(e.value) for e in sorted(found, key=lambda e: e.call)]

        assert await scored(1, 2) == ["1", "2"]
        box = turns(program)
        assert (box._other, box._coming) == (None, None)  # a script that ends no box costs no second one
        assert await scored(1, -1, 2) == ["1", "timeout", "2"]
        assert box._coming is not None
        spare = await box._coming
        assert spare is not None
        assert await scored(-1, 3) == ["timeout", "3"]
        assert box._box is spare
        assert turns(program) is box


@pytest.mark.usefixtures("opened")
async def test_a_process_that_keeps_too_much_of_what_is_over_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deno_run, "GROWTH_BYTES", -1 << 40)

    async with sandbox() as opened:
        program = await opened.load(typescript("let n = 0; function evaluate() { return ++n; }"), LIMITS)
        inner = []
        for _ in range(3):
            found = []
            async for execution in program.run([Call(id=n) for n in range(3)], LIMITS):
                found.append(execution.value)
                last = turns(program)._box._inner
            inner.append(last)
            assert found == [1, 2, 3]
        assert len(set(inner)) == 3


KILLED = """
import os, signal, sys
from sandboxes.deno import box_folder
box_folder._temporary_folder = lambda: sys.argv[1]
print(box_folder.Folder(pipes=["asked"]).path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_folder, "_temporary_folder", lambda: str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    left = Path(killed.stdout.strip())
    used, young = Folder(pipes=["asked"]), tmp_path / f"{PREFIX}young"
    young.mkdir()
    other = tmp_path / "evalcell-other"
    other.mkdir()
    old = time.time() - YOUNG - 1
    for path in (left, used.path, other):
        os.utime(path, (old, old))
    assert left.is_dir()
    sweep.cache_clear()
    sweep(str(tmp_path))
    assert (left.exists(), used.path.exists(), young.exists(), other.exists()) == (False, True, True, True)
    used.remove()
    assert not used.path.exists()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            b"\n\n#\n# Fatal error in , line 0\n# Fatal process out of memory: Zone\n#\n#\n#FailureMessage",
            "Fatal error in",
        ),
        (b"error: Uncaught (in promise) NotFound\n    at file", "error: Uncaught (in promise) NotFound"),
        (b"\xff#\n", "\ufffd"),
        (b"#\n #  #\n", ""),
    ],
)
def test_why_deno_did_not_start_is_told_without_its_frame(said: bytes, why: str) -> None:
    found = deno_fifo.why_not(said)
    assert found.startswith(why)
    assert "#" not in found
    assert len(found) <= 300


@pytest.mark.parametrize(("more", "status"), [(0, "ok"), (1, "output")])
def test_a_value_may_be_as_large_as_the_limit_and_no_larger(opened: Opened, more: int, status: str) -> None:
    limit = 100_000
    frame = len('{"label":"","score":1e-7}')
    source = f'function evaluate() {{ return {{ label: "x".repeat({limit - frame + more}), score: 1e-7 }}; }}'
    (found,) = opened.evaluate(source, [{}], result=limit)
    assert found.status == status
