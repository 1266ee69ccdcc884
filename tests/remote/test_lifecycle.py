"""Who owns a machine, from its order to its end: with a provider in memory, whatever goes wrong and whoever cancels."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandboxes import SandboxError
from sandboxes.remote import lifecycle
from sandboxes.remote.ledger import Ledger
from sandboxes.remote.lifecycle import Lifecycle
from sandboxes.remote.provider import BusyError, FullError, GoneError, Machine, RefusedError, UnreachableError
from sandboxes.remote.retry import Pauses
from tests.remote.shelf import Shelf
from tests.remote.speaker import Memory, Speaker
from tests.stopping import Stopping

QUICK = Pauses(first=0.001, longest=0.002, total=20)
"""Short pauses, and patience: a machine may stand still between two attempts for longer than all pauses together."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))


class Run:
    """A lifecycle over a shelf, and what it said."""

    def __init__(self, shelf: Shelf, pauses: Pauses = QUICK, start_timeout: float = 20) -> None:
        self.said: list[str] = []
        self.shelf = shelf
        self.life = Lifecycle(shelf, pauses, self.said.append, start_timeout=start_timeout, lifetime=60)

    async def create(self) -> Machine:
        return await self.life.create(network=False, memory=1)


def lasting(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 30))


def test_a_machine_is_noted_before_it_is_asked_for_and_after_it_ended() -> None:
    shelf = Shelf()
    run = Run(shelf)

    async def body() -> None:
        machine = await run.create()
        (entry,) = Ledger().open_entries()
        assert (entry.event, entry.id, entry.key) == ("created", machine.id, machine.key)
        tags = shelf.orders[machine.id].tags
        assert (tags["owner"], tags["run"], tags["key"]) == ("evalcell", run.life.run, machine.key)
        assert all(len(value) <= 63 for value in tags.values())
        run.life.end(machine)
        await run.life.close(5)
        assert not Ledger().open_entries()

    lasting(body)
    assert not shelf.orders


@pytest.mark.parametrize("wrong", [UnreachableError("503"), UnreachableError("no", sent=False), BusyError("429", 0.01)])
def test_what_may_pass_is_asked_again(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: wrong if times < 3 else None
    run = Run(shelf)

    async def body() -> None:
        await run.create()
        assert len(shelf.orders) == 1
        await run.life.close(5)

    lasting(body)
    assert not shelf.orders
    assert not Ledger().open_entries()
    assert run.said == [f"{wrong}; asking again"]


def test_an_order_whose_answer_was_lost_makes_one_machine() -> None:
    shelf = Shelf()
    shelf.after = lambda what, times: UnreachableError("cut") if (what, times) == ("create", 1) else None
    run = Run(shelf)

    async def body() -> None:
        machine = await run.create()
        assert list(shelf.orders) == [machine.id]
        await run.life.close(5)

    lasting(body)
    assert shelf.asked.count("create") == 1
    assert not shelf.orders


def test_an_answer_that_takes_too_long_leaves_no_machine() -> None:
    shelf = Shelf()
    # The order is carried out, and its answer never comes.
    shelf.silent = lambda what, times: what == "create"
    run = Run(shelf, start_timeout=0.05)

    async def body() -> None:
        await run.create()
        await run.life.close(5)

    lasting(body)
    assert not shelf.orders
    assert not Ledger().open_entries()


@pytest.mark.parametrize("wrong", [RefusedError("no"), FullError("full")])
def test_what_does_not_pass_is_told_at_once(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: wrong
    run = Run(shelf)

    async def body() -> None:
        with pytest.raises(type(wrong)):
            await run.create()
        await run.life.close(5)

    lasting(body)
    assert shelf.asked.count("create") == 1
    assert not Ledger().open_entries()


def test_a_retry_after_of_hours_is_not_waited_for() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: BusyError("429", 7200)
    run = Run(shelf)

    async def body() -> None:
        with pytest.raises(BusyError):
            await run.create()

    lasting(body)
    assert shelf.asked == ["create"]


def test_a_retry_after_of_nothing_is_no_reason_to_hurry() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: BusyError("429", 0.0)
    run = Run(shelf, Pauses(first=0.05, longest=0.2, total=0.5))

    async def body() -> None:
        with pytest.raises(BusyError):
            await run.create()

    lasting(body)
    assert 2 <= len(shelf.asked) < 10


def test_a_machine_that_could_not_be_noted_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    run = Run(shelf)

    def full(self: Ledger, key: str, id: str) -> None:
        raise SandboxError("the disk is full")

    monkeypatch.setattr(Ledger, "record_creation", full)

    async def body() -> None:
        with pytest.raises(SandboxError, match="disk"):
            await run.create()
        await run.life.close(5)

    lasting(body)
    assert not shelf.orders


@pytest.mark.parametrize("wrong", [UnreachableError("503"), RuntimeError("a fault of the provider's class")])
def test_what_cannot_be_ended_stays_in_the_ledger_and_is_told(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: wrong if what == "kill" else None
    run = Run(shelf, Pauses(first=0.001, longest=0.01, total=0.1))

    async def body() -> None:
        run.life.end(await run.create())
        await run.life.close(5)

    lasting(body)
    (left,) = Ledger().open_entries()
    assert run.said == [f"shelf: machine {left.id} may still run ({wrong}); run: evalcell reap"]


def test_an_end_that_takes_too_long_is_told_with_its_machine_and_the_reason() -> None:
    shelf = Shelf()
    shelf.silent = lambda what, times: what == "kill"
    run = Run(shelf)

    async def body() -> None:
        machine = await run.create()
        run.life.end(machine)
        await run.life.close(0.05)
        told = f"shelf: machine {machine.id} may still run (ending it took longer than 0.05 s)"
        assert run.said[-1] == f"{told}; run: evalcell reap"

    lasting(body)
    assert [entry.event for entry in Ledger().open_entries()] == ["left"]


def test_an_order_whose_answer_takes_too_long_is_told_with_its_key() -> None:
    shelf = Shelf()
    shelf.silent = lambda what, times: what == "create"
    run = Run(shelf)

    async def body() -> None:
        making = asyncio.create_task(run.create())
        while not shelf.orders:
            await asyncio.sleep(0.001)
        making.cancel()
        await asyncio.wait({making})
        await run.life.close(0.05)

    lasting(body)
    (left,) = Ledger().open_entries()
    assert run.said[-1] == (
        f"shelf: the machine ordered as {left.key} may still run "
        "(ending it took longer than 0.05 s); run: evalcell reap"
    )


def test_a_failure_without_words_is_told_by_its_kind() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: TimeoutError() if what == "kill" else None
    run = Run(shelf)

    async def body() -> None:
        machine = await run.create()
        run.life.end(machine)
        await run.life.close(5)
        assert run.said == [f"shelf: machine {machine.id} may still run (TimeoutError); run: evalcell reap"]

    lasting(body)


@pytest.mark.parametrize("wrong", [RefusedError("403"), RuntimeError("a fault of the provider's class")])
def test_an_order_whose_answer_was_lost_is_never_taken_for_refused(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.after = lambda what, times: UnreachableError("cut") if what == "create" else None
    shelf.before = lambda what, times: wrong if what == "find" else None
    run = Run(shelf)

    async def body() -> None:
        with pytest.raises(type(wrong)):
            await run.create()
        await run.life.close(5)

    lasting(body)
    assert shelf.orders  # there is one, and nobody could look
    assert [entry.event for entry in Ledger().open_entries()] == ["left"]
    assert "evalcell reap" in run.said[-1]


def test_a_new_machine_that_the_provider_does_not_know_yet_is_ended() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: GoneError("404") if (what, times) == ("kill", 1) else None
    run = Run(shelf)

    async def body() -> None:
        run.life.end(await run.create())
        await run.life.close(5)

    lasting(body)
    assert not shelf.orders
    assert not Ledger().open_entries()
    assert run.said == []


def test_a_closed_one_makes_no_more() -> None:
    """As when a sandbox is closed under a run, which takes its machines for lost and wants others."""
    shelf = Shelf()
    shelf.delay = 0.02
    run = Run(shelf)

    async def body() -> None:
        making = asyncio.create_task(run.create())
        await asyncio.sleep(0.01)
        await run.life.close(5)
        for late in (making, run.create()):
            with pytest.raises(SandboxError, match="was closed"):
                await late
        await run.life.close(5)

    lasting(body)
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
