"""Runs beside each other in one box: each has a state, limits and blame of its own, and is known by what it asks."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from runner.core.types import Case
from runner.engine.local import score
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes import Call, Execution, Limits
from sandboxes.boxes import landlock
from sandboxes.boxes.launch import Tier
from sandboxes.boxes.seats import Seats
from sandboxes.errors import SandboxLostError
from tests.judges.test_door import ASKING, box_grant, opened

pytestmark = pytest.mark.usefixtures("key")

BESIDE = """
import os, sys, time
rows = []

def evaluate(model, do="", **more):
    rows.append(model)
    if do:
        return globals()[do](**more)
    ask(model)
    return len(rows)

def refused(what):
    try:
        what()
    except (OSError, ValueError) as error:
        return type(error).__name__
    return "done"

def reach():
    tmp = "/tmp" if os.path.isdir("/tmp") else "/"
    tries = [lambda: open(tmp + "/left", "w"), lambda: os.mkdir(tmp + "/left"), lambda: os.chmod(tmp, 0o755),
             lambda: os.setxattr(tmp, "user.left", b"1"), lambda: os.utime(tmp), os.fork]
    tries += [lambda: os.open(tmp, os.O_TMPFILE | os.O_RDWR)]  # which would fill the folder for all
    tries += [lambda pid=pid: os.kill(pid, 9) for pid in range(1, 40) if pid != os.getpid()]
    os.kill(-1, 9)  # succeeds, as the kernel has it, and reaches nobody
    return sorted({refused(what) for what in tries})

def memory():
    held = []
    while True:
        held.append(bytearray(8 << 20))

def flood():
    while True:
        print("x" * 65536)

def spin():
    while True:
        pass

burn = spin

def leave():
    os._exit(3)

def crowd(count=500):
    import threading
    ended = threading.Event()
    while count:
        try:
            threading.Thread(target=ended.wait, daemon=True).start()
            count -= 1
        except RuntimeError:
            time.sleep(0.01)
    return "all began"

def hide():
    # The connection is open in no process: it is in a message to this one.
    import json, socket
    body = json.dumps({"model": "error-500", "messages": [{"role": "user", "content": "is 4 right?"}]})
    head = f"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {len(body)}\\r\\n"
    head += f"Authorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\n\\r\\n"
    host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
    asking = socket.create_connection((host, int(port)))
    asking.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # what is sent waits until it is hidden
    asking.sendall((head + body).encode())
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [asking.fileno()])
    asking.close()
    time.sleep(4)
    return "hid"

def doze():
    time.sleep(3.5)
    return "dozed"

def hoard():
    import socket
    host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
    held = []
    try:
        while True:
            held.append(socket.create_connection((host, int(port))))
    except OSError:
        time.sleep(4)
    return "hoarded"

def fill():
    import tempfile
    files = []
    try:
        while True:
            files.append(tempfile.NamedTemporaryFile())
            files[-1].write(bytes(8 << 20))
    except OSError as error:
        time.sleep(2)  # what the others write goes elsewhere
        return [type(error).__name__, error.errno]

def tidy():
    import shutil, tempfile
    time.sleep(1)
    own = tempfile.gettempdir()
    before, others = os.listdir(own), [f"/rows/{number}" for number in range(16) if f"/rows/{number}" != own]
    folder = tempfile.mkdtemp()
    with open(folder + "/a", "w") as file:
        file.write("a" * (8 << 20))
    os.rename(folder + "/a", folder + "/b")
    with open(folder + "/b") as file:
        size = len(file.read())
    tries = [lambda: os.listdir("/rows")] + [lambda path=path: os.listdir(path) for path in others]
    tries += [lambda path=path: open(path + "/x", "w") for path in others]
    return [own, before, size, sorted({refused(what) for what in tries})]

def patient(after=2):
    time.sleep(after)
    return [bool(ask("judge")) for _ in range(3)]
"""


async def together(program: Any, *calls: dict[str, Any]) -> list[Execution]:
    """Run the calls at the same time."""

    async def run(number: int, arguments: dict[str, Any]) -> Execution:
        call = Call(id=number, arguments={"model": "judge"} | arguments)
        do = arguments.get("do")
        limits = Limits(timeout=1 if do == "spin" else 60, cpu=0.5 if do == "burn" else None)
        execution: Execution
        (execution,) = [one async for one in program.run([call], limits)]
        return execution

    return await asyncio.gather(*(run(number, arguments) for number, arguments in enumerate(calls)))


async def test_rows_wait_beside_each_other(judge: Any, tier: Tier, tmp_path: Path) -> None:
    judges = box_grant(judge, beside=True, record=str(tmp_path / "record"))
    async with opened(judges, ASKING + BESIDE, tier) as (sandbox, program):
        sandbox.broker.rows |= {number: (f"row {number}", 1) for number in range(12)}
        executions = await together(program, *[{"model": f"slow-2+{number}"} for number in range(12)])
        assert [one.value for one in executions] == [1] * 12, executions
        again = await together(program, *[{"model": f"slow-0.1+{number}"} for number in range(12)])
        assert [one.value for one in again] == [1] * 12
        assert len([box for box in sandbox._boxes if box.alive]) == 1
    assert judge.stats()["most_in_flight"] > 1
    lines = list(map(json.loads, (tmp_path / "record").read_text().splitlines()))
    assert len(lines) == 24
    assert all(line["request"]["model"].endswith(f"+{line['row'].split()[1]}") for line in lines)


async def test_a_run_reaches_none_beside_it(judge: Any, tier: Tier) -> None:
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE, tier) as (_, program):
        calls = [{"model": "slow-1"}] * 3 + [{"do": "reach"}] * 3
        executions = await together(program, *calls)
        assert [one.value for one in executions[:3]] == [1] * 3
        for one in executions[3:]:
            assert one.status == "ok", one
            assert "done" not in one.value


async def test_each_is_blamed_for_itself(judge: Any) -> None:
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE) as (sandbox, program):
        names = ("memory", "flood", "spin", "burn", "leave")
        calls = [{"do": name} for name in names] + [{"model": "slow-2"}] * 3
        executions = await together(program, *calls)
        expected = ["memory", "output", "timeout", "timeout", "crash", "ok", "ok", "ok"]
        assert [one.status for one in executions] == expected
        assert len([box for box in sandbox._boxes if box.alive]) == 1


async def test_a_crowd_of_threads_ends_its_own_run_alone(judge: Any, tier: Tier) -> None:
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE, tier) as (sandbox, program):
        executions = await together(program, {"do": "crowd"}, *[{"model": "slow-1"}] * 3, {"do": "doze"})
        told = [(one.status, one.error and one.error.type) for one in executions]
        assert told == [("crash", "ProcessLimit"), *[("ok", None)] * 4], executions
        assert len([box for box in sandbox._boxes if box.alive]) == 1


async def test_each_has_a_folder_of_its_own(judge: Any) -> None:
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE, "A") as (sandbox, program):
        for _ in range(2):  # in the same folders again, which are empty
            executions = await together(program, {"do": "fill"}, *[{"do": "tidy"}] * 3)
            assert executions[0].value == ["OSError", errno.ENOSPC], executions
            found = [one.value for one in executions[1:]]
            assert len({own for own, *_ in found}) == 3
            assert [one[1:] for one in found] == [[[], 8 << 20, ["PermissionError"]]] * 3
        assert len([box for box in sandbox._boxes if box.alive]) == 1


async def test_a_box_starts_however_many_files_are_open_here(judge: Any) -> None:
    """Its end of the socket has a number of ours, which may be one of those that the rules of its folders get."""
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE, "A") as (sandbox, _):
        assert sandbox.seats  # from here on nothing is skipped
    with ExitStack() as held:
        while held.enter_context(open(os.devnull)).fileno() < 52:  # the limit of a box is 64
            pass
        for _ in range(8):
            try:
                async with opened(box_grant(judge, beside=True), ASKING + BESIDE, "A") as (_, program):
                    assert (await together(program, {}))[0].value == 1
            except pytest.skip.Exception as e:
                pytest.fail(str(e))
            for _ in range(3):
                held.enter_context(open(os.devnull))


async def test_an_older_kernel_has_neither_seats_nor_their_folders(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "has_scopes", lambda: False)
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE, "A") as (sandbox, program):
        assert (sandbox.seats, (await together(program, {}))[0].value) == (0, 1)
        assert {box._plan.boot["rows"] for box in sandbox._boxes} == {None}  # whose rules it would refuse


async def test_nobody_takes_the_connections_of_others(judge: Any, tier: Tier) -> None:
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE, tier) as (_, program):
        executions = await together(program, *[{"do": "hoard"}] * 4, *[{"do": "patient"}] * 4)
        assert [one.value for one in executions] == ["hoarded"] * 4 + [[True] * 3] * 4, executions


async def test_nobody_is_refused_for_those_of_whom_it_is_not_known_yet(
    judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine takes its time to look whose the hundreds of connections are."""
    look = Seats.owners

    def slowly(seats: Seats) -> Any:
        time.sleep(0.5)
        return look(seats)

    monkeypatch.setattr(Seats, "owners", slowly)
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE, "A") as (_, program):
        executions = await together(program, *[{"do": "hoard"}] * 4, *[{"do": "patient", "after": 0.3}] * 4)
        assert [one.value for one in executions] == ["hoarded"] * 4 + [[True] * 3] * 4, executions


async def test_a_connection_that_is_hidden_is_nobody_elses(judge: Any, tier: Tier) -> None:
    async with opened(box_grant(judge, beside=True, judge_timeout=1), ASKING + BESIDE, tier) as (sandbox, program):
        executions = await together(program, {"do": "hide"}, {"do": "doze"})
        assert [one.value for one in executions] == ["hid", "dozed"], executions
        assert set(sandbox.broker.lost) <= {0}  # if it was seen before it was hidden


async def test_a_refusal_is_known_by_its_row(judge: Any) -> None:
    source = ASKING + BESIDE.replace("    ask(model)\n", "    print(refused(lambda: ask(model)))\n")
    async with opened(box_grant(judge, beside=True, judge_timeout=1), source) as (sandbox, program):
        executions = await together(program, {}, {"model": "error-500"}, {}, {"model": "slow-0.5"})
        assert [one.value for one in executions] == [1] * 4
        assert [*sandbox.broker.lost] == [1]


async def test_runs_are_lost_with_their_box(judge: Any) -> None:
    async with opened(box_grant(judge, beside=True), ASKING + BESIDE) as (sandbox, program):
        (box,) = (box for box in sandbox._boxes if box.alive)
        calls = [asyncio.create_task(together(program, {"model": "slow-5"})) for _ in range(3)]
        while judge.stats()["in_flight"] < 3:
            await asyncio.sleep(0.01)
        os.kill(box.inner, signal.SIGKILL)
        lost = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in lost] == [SandboxLostError] * 3
        (again,) = await together(program, {})
        assert again.value == 1


@pytest.mark.rotating("rows of a box that is lost", "judges", "engine")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_row_of_a_lost_box_pays_for_nothing_twice(judge: Any, tmp_path: Path, stream: bool) -> None:
    told, ends = tmp_path / "told", "    while open(os.environ['TOLD']).read() != 'end':\n        pass\n"
    told.write_text("wait")
    told.chmod(0o644)
    source = f"{ASKING}def evaluate(output):\n    said = [ask('count', stream={stream}) for _ in range(2)]\n{ends}"
    source += "    return float(said[0] != said[1])\n"
    cases = [Case(number=n, id=f"{n}", where="", output="", present=frozenset({"output"})) for n in range(3)]
    judges = box_grant(judge, beside=True, record=str(tmp_path / "record"))
    async with opened(judges, source, files={"TOLD": str(told)}) as (sandbox, _):

        async def kill() -> None:
            while sandbox.broker.counts.calls < 6:
                await asyncio.sleep(0.01)
            for box in sandbox._boxes:
                os.kill(box.inner, signal.SIGKILL)
            told.write_text("end")

        killing = asyncio.create_task(kill())
        found = [one async for one in score(parse_evaluator(source, "e"), cases, sandbox, broker=sandbox.broker)]
        await killing
        assert [(one.score, len(one.exchanges)) for one in found] == [(1, 2)] * 3, found
        assert not sandbox.broker._held
    assert len(judge.requests) == 6
    lines = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    assert sorted((line["row"], line["n"]) for line in lines) == [(f"{row}", n) for row in range(3) for n in (1, 2)]
