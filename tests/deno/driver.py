"""
As the driver of the other hostile scripts, for the deno sandbox: started with a tier and an isolation, `A-call`.

Each answer also tells what there is when it has become quiet, and was at first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple, cast

from sandboxes import Isolation, Limits
from sandboxes.boxes.launch import Tier
from sandboxes.deno import DenoConfig, DenoSandbox
from sandboxes.guest.supervisor import procfs
from tests.deno.scripts import SHELL
from tests.descriptors import held
from tests.landlock_abi import hold
from tests.sandboxes.hostile.driver import QUIET, Driver, left_behind, run
from tests.sandboxes.hostile.scripts import ATTACK, CLEAN
from tests.scripts import typescript

STEADY = 1.0
"""Seconds without a change, after which the boxes that get ready beside a call are there."""
LOOKS = 3
"""How often in a row a thread must be seen running to count as busy."""


class Held(NamedTuple):
    processes: int
    descriptors: int
    busy: int = 0
    """Threads that run on."""


class DenoDriver(Driver):
    script = staticmethod(typescript)
    first = Held(0, 0)

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        told = await super().answer(asked)
        if asked:
            told["held"], told["first"] = await self.quiet_held(), self.first
        return told

    async def settle(self) -> None:
        """Waits until all that a program keeps ready is there."""
        ends_its_box = (ATTACK, "while (true);")  # after the first one another box stands ready
        await run(self.shell, [CLEAN, ends_its_box, CLEAN], Limits(timeout=1))
        await run(self.clean, [CLEAN, CLEAN, CLEAN], Limits())
        for program in (self.shell, self.clean):
            coming = [lane.box._coming for lane in cast(Any, program)._lanes if lane.box and lane.box._coming]
            if coming:
                await asyncio.wait(coming)
        clock = asyncio.get_running_loop().time
        since = clock()
        while clock() < since + STEADY:
            if (found := _held()) != self.first:
                self.first, since = found, clock()
            await asyncio.sleep(0.02)

    async def quiet_held(self) -> Held:
        """What there is when it is no more than at first, or after so many seconds."""
        clock = asyncio.get_running_loop().time
        until = clock() + QUIET
        while True:
            found = _held()._replace(busy=len(await _busy()))
            if all(now <= then for now, then in zip(found, self.first, strict=True)) or clock() > until:
                return found
            await asyncio.sleep(0.01)


def _held() -> Held:
    return Held(len(procfs.descendants(os.getpid())), held())


async def _busy() -> set[Path]:
    found = _running()
    for _ in range(1, LOOKS):
        if found:
            await asyncio.sleep(0.005)
            found &= _running()
    return found


def _running() -> set[Path]:
    found = set()
    for pid in procfs.descendants(os.getpid()):
        for task in Path(f"/proc/{pid}/task").glob("*"):
            with contextlib.suppress(OSError):  # it has just ended
                if (task / "stat").read_text().rpartition(")")[2].split()[0] == "R":
                    found.add(task)
    return found


async def main(way: str, jobs: str) -> None:
    tier, _, isolation = way.partition("-")
    config = DenoConfig(tier=cast(Tier, tier), isolation=cast(Isolation, isolation), jobs=int(jobs))
    async with DenoSandbox(config) as sandbox:
        attacked, clean = [await sandbox.load(typescript(SHELL), Limits()) for _ in range(2)]
        driver = DenoDriver(sandbox, attacked, clean, "")
        await driver.settle()
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await driver.answer(json.loads(line))), flush=True)
    print(json.dumps(left_behind()), flush=True)


if __name__ == "__main__":
    hold()
    asyncio.run(main(*sys.argv[1:]))
