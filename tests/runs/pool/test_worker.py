"""What a worker keeps: opened sandboxes, loaded programs, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from runner.runs.pool.worker.shared_sandbox import Lease
from runner.runs.pool.worker.warm import FairQueue, Programs, Sandboxes
from sandboxes.base import Call, Execution, Limits, SandboxConfig, Script
from sandboxes.errors import SandboxLostError, UnsupportedConfigError
from sandboxes.fake import FakeSandbox
from sandboxes.registry import create


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def script(number: int = 0) -> Script:
    return Script(f"# {number}", "python", "evaluate")


def fake(**fields: object) -> FakeSandbox:
    return cast(FakeSandbox, create(SandboxConfig.model_validate({"backend": "fake", **fields})))


@asynccontextmanager
async def leased(
    sandboxes: Sandboxes, *, dry: bool = True, **fields: object
) -> AsyncIterator[tuple[Lease, FakeSandbox]]:
    async with Lease(sandboxes, fake(**fields), dry=dry) as lease:
        yield lease, cast(FakeSandbox, lease._sandbox)


async def test_ten_that_ask_at_once_share_one_sandbox_and_one_program() -> None:
    sandboxes = Sandboxes(Programs(lambda: 0))
    leases = [Lease(sandboxes, fake(), dry=True) for _ in range(10)]
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(lease) for lease in leases))
        await asyncio.gather(*(lease.load(script(), Limits()) for lease in leases))
        (one,) = {cast(FakeSandbox, lease._sandbox) for lease in leases}
        assert one.opened == 1
        assert len(one.programs) == 1
        async with leased(sandboxes, isolation="batch") as (_, other):
            assert other is not one
            assert len(sandboxes) == 2
    await sandboxes.close()
    assert one.closed == other.closed == 1


async def test_a_sandbox_that_fails_to_open_is_forgotten_and_says_why(tmp_path: Path) -> None:
    sandboxes = Sandboxes(Programs(lambda: 0))
    missing = create(SandboxConfig(backend="process", files={"MODEL": str(tmp_path / "none")}))
    for lease in [Lease(sandboxes, missing, dry=True) for _ in range(2)]:
        with pytest.raises(UnsupportedConfigError, match="cannot be read"):
            await lease.open()
        assert len(sandboxes) == 0
    await sandboxes.close()


async def test_a_sandbox_that_is_lost_twice_in_a_row_is_opened_anew() -> None:
    def lost(call: Call) -> Execution:
        raise SandboxLostError("gone")

    sandboxes = Sandboxes(Programs(lambda: 0))
    async with leased(sandboxes) as (lease, first):
        first.answer = lost
        program = await lease.load(script(), Limits())
        for kept in (1, 0):
            with pytest.raises(SandboxLostError):
                _ = [found async for found in program.run([Call(id=0)], Limits())]
            assert len(sandboxes) == kept
        assert first.closed == 0
    await sandboxes.wait_closed()
    assert first.closed == 1
    async with leased(sandboxes) as (lease, second):
        assert second is not first
    await sandboxes.close()


async def test_what_nobody_uses_is_closed_after_minutes_and_the_oldest_makes_room() -> None:
    clock = Clock()
    sandboxes = Sandboxes(Programs(lambda: 0), idle=300, most=2, clock=clock)
    async with leased(sandboxes, isolation="call") as (_, busy):
        clock.now = 1000
        sandboxes.sweep()
        assert len(sandboxes) == 1
    async with leased(sandboxes, isolation="batch") as (_, other):
        clock.now = 1299
        sandboxes.sweep()
        assert len(sandboxes) == 2
        clock.now = 1300
        sandboxes.sweep()
        assert len(sandboxes) == 1
        await sandboxes.wait_closed()
        assert (busy.closed, other.closed) == (1, 0)
    async with (
        leased(sandboxes, install_timeout=5) as (_, third),
        leased(sandboxes, isolation="batch") as (_, again),
    ):
        assert again is other
        waiting = asyncio.create_task(Lease(sandboxes, fake(language="python"), dry=True).open())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    assert len(sandboxes) == 2
    assert third.opened == 1
    await sandboxes.close()


async def test_programs_are_bounded_in_number_and_in_bytes() -> None:
    held, clock = [0], Clock()
    programs = Programs(lambda: held[0], most=3, bytes=100 << 20, clock=clock)
    sandboxes = Sandboxes(programs)
    async with leased(sandboxes) as (lease, sandbox):

        async def load(number: int) -> None:
            clock.now += 1
            await (await lease.load(script(number), Limits())).close()

        for number in (1, 2, 3, 1, 4):
            await load(number)
        assert len(programs) == 3
        assert len(sandbox.programs) == 4
        await load(1)  # 2 was the one used longest ago
        assert len(sandbox.programs) == 4
        held[0] = 115 << 20
        used = await lease.load(script(5), Limits())
        assert len(programs) == 2
        await load(1)
        assert len(sandbox.programs) == 5
        await used.close()
    await sandboxes.close()


async def test_turns_are_fair_and_a_lane_is_left() -> None:
    clock, order = Clock(), list[str]()
    turns = FairQueue(3, clock)
    parties = {name: turns.join(dry=name == "dry") for name in ("a", "b", "dry")}
    gates = {name: asyncio.Event() for name in ("a", "b", "dry")}

    async def take(name: str, seconds: float) -> None:
        async with turns.turn(parties[name]):
            order.append(name)
            await gates[name].wait()
            clock.now += seconds

    tasks = [asyncio.create_task(take("a", 5)) for _ in range(4)]
    await asyncio.sleep(0)
    assert order == ["a", "a"]
    tasks += [asyncio.create_task(take("b", 1)) for _ in range(2)]
    tasks += [asyncio.create_task(take("dry", 1)) for _ in range(2)]
    await asyncio.sleep(0)
    assert order == ["a", "a", "dry"]
    assert turns.waiting == 5
    for gate in gates.values():
        gate.set()
    await asyncio.gather(*tasks)
    assert order[3:] == ["dry", "b", "b", "a", "a"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_turn_that_nobody_waits_for_any_more_goes_to_the_next(order: tuple[int, int]) -> None:
    turns = FairQueue(2)
    party = turns.join(dry=False)
    done = asyncio.Event()

    async def take() -> None:
        async with turns.turn(party):
            await done.wait()

    tasks = [asyncio.create_task(take()) for _ in range(3)]
    await asyncio.sleep(0)
    for number in order:
        tasks[number].cancel()
    ended = await asyncio.gather(*tasks[:2], return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    done.set()
    await tasks[2]
    assert turns.waiting == 0
    async with turns.turn(party):
        pass
