"""How machines end, whatever the provider says, whoever listens, and wherever it is cancelled."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sandboxes import SandboxError
from sandboxes.remote import lifecycle
from sandboxes.remote.ledger import Ledger
from sandboxes.remote.provider import RefusedError, UnreachableError
from sandboxes.remote.retry import Pauses
from tests.remote.lives import Run
from tests.remote.shelf import Shelf
from tests.remote.speaker import Memory, Speaker
from tests.stopping import Stopping


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize("wrong", [UnreachableError("503"), RuntimeError("a fault of the provider's class")])
async def test_what_cannot_be_ended_stays_in_the_ledger_and_is_told(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: wrong if what == "kill" else None
    run = Run(shelf, Pauses(first=0.001, longest=0.01, total=0.1))

    run.life.end(await run.create())
    await run.life.close(5)
    (left,) = Ledger().open_entries()
    assert run.said == [f"shelf: machine {left.id} may still run ({wrong}); run: evalcell reap"]


async def test_an_end_that_takes_too_long_is_told_with_its_machine_and_the_reason() -> None:
    shelf = Shelf()
    shelf.silent = lambda what, times: what == "kill"
    run = Run(shelf)

    machine = await run.create()
    run.life.end(machine)
    await run.life.close(0.05)
    told = f"shelf: machine {machine.id} may still run (ending it took longer than 0.05 s)"
    assert run.said[-1] == f"{told}; run: evalcell reap"
    assert [entry.event for entry in Ledger().open_entries()] == ["left"]


async def test_a_closed_one_makes_no_more() -> None:
    """As when a sandbox is closed under a run, which takes its machines for lost and wants others."""
    shelf = Shelf()
    shelf.delay = 0.02
    run = Run(shelf)

    making = asyncio.create_task(run.create())
    await asyncio.sleep(0.01)
    await run.life.close(5)
    for late in (making, run.create()):
        with pytest.raises(SandboxError, match="was closed"):
            await late
    await run.life.close(5)
    assert shelf.asked.count("create") == 1
    assert not shelf.orders
    assert not Ledger().open_entries()


def test_a_loop_that_ends_waits_for_what_is_begun() -> None:
    """As when somebody breaks out of `stream`, and nobody closes what it had open."""
    shelf = Shelf()
    run = Run(shelf)

    async def body() -> None:
        first = await run.create()
        shelf.silent = lambda what, times: (what, times) in {("kill", 1), ("create", 2)}
        run.life.end(first)
        making = asyncio.create_task(run.create())
        while first.id in shelf.orders or not shelf.orders:  # each is done, and its answer on its way
            await asyncio.sleep(0.005)
        making.cancel()
        await asyncio.sleep(0)

    asyncio.run(body())
    assert shelf.asked.count("create") == 2
    assert shelf.asked.count("kill") == 3  # that of the first was cut off, and is asked again
    assert not shelf.orders
    assert not Ledger().open_entries()


FAULTS: dict[str, Callable[[str, int], BaseException | None]] = {
    "all goes well": lambda what, times: None,
    "answers are lost": lambda what, times: UnreachableError("cut") if times == 1 else None,
    "creation fails halfway": lambda what, times: RefusedError("no") if what == "create" else None,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_cancelled_at_any_wait_nothing_is_left(fault: Callable[[str, int], BaseException | None]) -> None:
    n = 0
    while True:
        n += 1
        shelf = Shelf()
        shelf.after = fault
        shelf.delay = 0.001
        stopping = Stopping(n)
        stopping.run(partial(two_lives, shelf))
        assert not shelf.orders, f"cancelled at wait {n}"
        assert not Ledger().open_entries(), f"cancelled at wait {n}"
        if not stopping.struck:
            break
    assert n > 5


async def two_lives(shelf: Shelf) -> None:
    run = Run(shelf)
    try:
        first = await run.create()
        second = await run.create()
        run.life.end(first)
        await asyncio.sleep(0)
        run.life.end(second)
    except SandboxError:
        pass
    finally:
        await run.life.close(5)


def test_nobody_who_fails_to_listen_keeps_a_machine_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a terminal is gone: that machines take long to end cannot be written to it. Nor is the rest a failure."""

    class Gone(list[str]):
        def append(self, line: str) -> None:
            super().append(line)
            raise OSError(errno.EIO, "the terminal is gone")

    monkeypatch.setattr(lifecycle, "_SOON", 0.0)

    async def fails() -> None:
        raise UnreachableError("the connections cannot be closed")

    def prepare(speaker: Speaker) -> None:
        speaker.delay = 0.02
        monkeypatch.setattr(speaker, "close", fails)

    memory = Memory(prepare, 4)
    memory.tried.said = Gone()
    asyncio.run(asyncio.wait_for(memory.work(), 20))
    memory.check("nobody listens")
    assert len(memory.tried.results) == 4
    assert "to end" in "".join(memory.tried.said)
