"""Machines for several users at once: as many as wanted, fewer where the account is full, none twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sandboxes import SandboxUnavailableError
from sandboxes.remote import pool as pools
from sandboxes.remote.pool import MachinePool
from sandboxes.remote.provider import FullError, Machine, Order, RefusedError, UnreachableError
from tests.remote.shelf import Shelf


class Rig:
    """A pool, what it made and ended, and what it said."""

    def __init__(self, *, size: int = 2, wait: float = 5, wrong: Callable[[int], Exception | None] = lambda n: None):
        self.made = 0
        self.tried = 0
        self.ended: list[str] = []
        self.said: list[str] = []
        self.wrong = wrong
        shelf = Shelf()
        shelf.longest = 1000  # type: ignore[misc]
        self.pool = MachinePool(
            shelf,
            self._make,
            lambda machine: self.ended.append(machine.key),
            self.said.append,
            size=size,
            lifetime=60,
            wait=wait,
        )

    async def _make(self) -> Machine:
        self.tried += 1
        await asyncio.sleep(0.001)
        if wrong := self.wrong(self.tried):
            raise wrong
        self.made += 1
        return Machine(str(self.made), str(self.made))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_AGAIN", 0.01)


async def test_no_more_than_wanted_and_none_twice_at_once() -> None:
    rig = Rig(size=3)
    busy: set[str] = set()

    async def use() -> None:
        machine = await rig.pool.take()
        assert machine.key not in busy
        busy.add(machine.key)
        await asyncio.sleep(0.002)
        busy.remove(machine.key)
        rig.pool.give_back(machine)

    await asyncio.gather(*(use() for _ in range(20)))
    assert rig.made == 3


async def test_a_dropped_machine_is_replaced() -> None:
    rig = Rig(size=1)

    first = await rig.pool.take()
    rig.pool.drop(first)
    rig.pool.drop(first)
    rig.pool.give_back(first)
    assert (await rig.pool.take()).key != first.key
    assert rig.ended == ["1"]


@pytest.mark.parametrize("error", [FullError("10 of 10"), UnreachableError("503")])
async def test_with_one_machine_a_full_account_means_going_on_with_that_one(error: Exception) -> None:
    rig = Rig(size=3, wrong=lambda n: error if n > 1 else None)

    async def use() -> None:
        machine = await rig.pool.take()
        await asyncio.sleep(0.002)
        rig.pool.give_back(machine)

    rig.pool.give_back(await rig.pool.take())
    await asyncio.gather(*(use() for _ in range(10)))
    assert rig.made == 1
    assert rig.said == [f"{error}; continuing with fewer machines"]


async def test_a_full_account_is_waited_for() -> None:
    rig = Rig(wrong=lambda n: FullError("10 of 10") if n < 4 else None)

    await rig.pool.take()
    assert rig.said == ["10 of 10; waiting until one ends"]


async def test_but_not_for_ever() -> None:
    rig = Rig(wait=0.05, wrong=lambda n: FullError("10 of 10"))

    with pytest.raises(SandboxUnavailableError, match=r"10 of 10; waited 0 s.*evalcell reap"):
        await rig.pool.take()


@pytest.mark.parametrize("error", [RefusedError("no"), UnreachableError("503")])
async def test_what_does_not_pass_is_raised_when_there_is_no_machine(error: Exception) -> None:
    rig = Rig(wrong=lambda n: error)

    with pytest.raises(type(error)):
        await rig.pool.take()
    assert rig.tried == 1


async def test_an_old_machine_is_replaced_before_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(size=1)
    now = [0.0]
    monkeypatch.setattr(pools, "monotonic", lambda: now[0])

    rig.pool.give_back(await rig.pool.take())
    now[0] = 900
    assert (await rig.pool.take()).key == "2"
    assert rig.ended == ["1"]


@pytest.mark.parametrize("wrong", [None, RuntimeError("a fault of the provider's class")])
async def test_machines_are_kept_alive_and_dropped_when_they_are_gone(wrong: Exception | None) -> None:
    shelf = Shelf()
    shelf.before = lambda what, times: wrong if times < 3 else None
    ended: list[str] = []

    async def make() -> Machine:
        return shelf._made(Order(f"k{len(shelf.orders)}", {}, 60, False, 1))

    pool = MachinePool(shelf, make, lambda m: ended.append(m.key), print, size=2, lifetime=0, wait=1)

    machines = [await pool.take(), await pool.take()]
    for machine in machines:
        pool.give_back(machine)
    keeping = asyncio.create_task(pool.keep_alive())
    await asyncio.sleep(0.01)
    shelf.orders.pop(machines[0].id)
    await asyncio.sleep(0.01)
    keeping.cancel()
    assert (await pool.take()).key == machines[1].key
    assert shelf.asked.count("extend") > 4
    assert ended == ["k0"]
