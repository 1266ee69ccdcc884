"""Who owns a machine, from its order to its end: with a provider in memory, whatever goes wrong and whoever cancels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sandboxes import SandboxError
from sandboxes.remote.ledger import Ledger
from sandboxes.remote.provider import BusyError, FullError, GoneError, RefusedError, UnreachableError
from sandboxes.remote.retry import Pauses
from tests.remote.lives import Run
from tests.remote.shelf import Shelf


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))


async def test_a_machine_is_noted_before_it_is_asked_for_and_after_it_ended() -> None:
    shelf = Shelf()
    run = Run(shelf)

    machine = await run.create()
    (entry,) = Ledger().open_entries()
    assert (entry.event, entry.id, entry.key) == ("created", machine.id, machine.key)
    tags = shelf.orders[machine.id].tags
    assert (tags["owner"], tags["run"], tags["key"]) == ("evalcell", run.life.run, machine.key)
    assert all(len(value) <= 63 for value in tags.values())
    run.life.end(machine)
    await run.life.close(5)
    assert not Ledger().open_entries()
    assert not shelf.orders


@pytest.mark.parametrize("wrong", [UnreachableError("503"), UnreachableError("no", sent=False), BusyError("429", 0.01)])
async def test_what_may_pass_is_asked_again(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: wrong if times < 3 else None
    run = Run(shelf)

    await run.create()
    assert len(shelf.orders) == 1
    await run.life.close(5)
    assert not shelf.orders
    assert not Ledger().open_entries()
    assert run.said == [f"{wrong}; asking again"]


async def test_an_order_whose_answer_was_lost_makes_one_machine() -> None:
    shelf = Shelf()
    shelf.after = lambda what, times: UnreachableError("cut") if (what, times) == ("create", 1) else None
    run = Run(shelf)

    machine = await run.create()
    assert list(shelf.orders) == [machine.id]
    await run.life.close(5)
    assert shelf.asked.count("create") == 1
    assert not shelf.orders


async def test_an_answer_that_takes_too_long_leaves_no_machine() -> None:
    shelf = Shelf()
    # The order is carried out, and its answer never comes.
    shelf.silent = lambda what, times: what == "create"
    run = Run(shelf, start_timeout=0.05)

    await run.create()
    await run.life.close(5)
    assert not shelf.orders
    assert not Ledger().open_entries()


@pytest.mark.parametrize("wrong", [RefusedError("no"), FullError("full")])
async def test_what_does_not_pass_is_told_at_once(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: wrong
    run = Run(shelf)

    with pytest.raises(type(wrong)):
        await run.create()
    await run.life.close(5)
    assert shelf.asked.count("create") == 1
    assert not Ledger().open_entries()


async def test_a_retry_after_of_hours_is_not_waited_for() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: BusyError("429", 7200)
    run = Run(shelf)

    with pytest.raises(BusyError):
        await run.create()
    assert shelf.asked == ["create"]


async def test_a_retry_after_of_nothing_is_no_reason_to_hurry() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: BusyError("429", 0.0)
    run = Run(shelf, Pauses(first=0.05, longest=0.2, total=0.5))

    with pytest.raises(BusyError):
        await run.create()
    assert 2 <= len(shelf.asked) < 10


async def test_a_machine_that_could_not_be_noted_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    run = Run(shelf)

    def full(self: Ledger, key: str, id: str) -> None:
        raise SandboxError("the disk is full")

    monkeypatch.setattr(Ledger, "record_creation", full)

    with pytest.raises(SandboxError, match="disk"):
        await run.create()
    await run.life.close(5)
    assert not shelf.orders


async def test_an_order_whose_answer_takes_too_long_is_told_with_its_key() -> None:
    shelf = Shelf()
    shelf.silent = lambda what, times: what == "create"
    run = Run(shelf)

    making = asyncio.create_task(run.create())
    while not shelf.orders:
        await asyncio.sleep(0.001)
    making.cancel()
    await asyncio.wait({making})
    await run.life.close(0.05)
    (left,) = Ledger().open_entries()
    assert run.said[-1] == (
        f"shelf: the machine ordered as {left.key} may still run "
        "(ending it took longer than 0.05 s); run: evalcell reap"
    )


async def test_a_failure_without_words_is_told_by_its_kind() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: TimeoutError() if what == "kill" else None
    run = Run(shelf)

    machine = await run.create()
    run.life.end(machine)
    await run.life.close(5)
    assert run.said == [f"shelf: machine {machine.id} may still run (TimeoutError); run: evalcell reap"]


@pytest.mark.parametrize("wrong", [RefusedError("403"), RuntimeError("a fault of the provider's class")])
async def test_an_order_whose_answer_was_lost_is_never_taken_for_refused(wrong: Exception) -> None:
    shelf = Shelf()
    shelf.after = lambda what, times: UnreachableError("cut") if what == "create" else None
    shelf.before = lambda what, times: wrong if what == "find" else None
    run = Run(shelf)

    with pytest.raises(type(wrong)):
        await run.create()
    await run.life.close(5)
    assert shelf.orders  # there is one, and nobody could look
    assert [entry.event for entry in Ledger().open_entries()] == ["left"]
    assert "evalcell reap" in run.said[-1]


async def test_a_new_machine_that_the_provider_does_not_know_yet_is_ended() -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: GoneError("404") if (what, times) == ("kill", 1) else None
    run = Run(shelf)

    run.life.end(await run.create())
    await run.life.close(5)
    assert not shelf.orders
    assert not Ledger().open_entries()
    assert run.said == []
