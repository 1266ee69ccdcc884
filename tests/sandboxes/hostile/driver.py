"""
Runs hostile scripts in a process of its own, so that one which harms its host fails a test and not the test run.

Reads one JSON object a line: `limits` and `batches`, each an isolation and the arguments of some calls, for `SHELL`
or for the script `source`. Answers with one: the executions of the load and of each batch, then of a clean call to
another program. Whatever is raised is told as `raised`. `{"together": [...]}` answers several at once, `{}` tells what
is left behind.

Started with a way to reset a wasm guest and the number of jobs; or with a tier of the process sandbox, the number of
jobs, and the folder that its scripts are shown as their packages. Then all that runs in the sandbox bears a name, and
each answer tells how many processes of that name there are when it has become quiet.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from sandboxes import Call, Execution, Limits, Program, Sandbox
from sandboxes.boxes.host_files import View
from sandboxes.boxes.launch import Tier
from sandboxes.process import ProcessConfig, ProcessSandbox
from sandboxes.wasm.reset import Reset
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox
from tests.descriptors import held
from tests.landlock_abi import hold
from tests.sandboxes.hostile.boxed import boxed, named, tools
from tests.sandboxes.hostile.scripts import CLEAN, SHELL
from tests.scripts import python

SEED = 7
QUIET = 15.0
"""Seconds that ended processes have to be gone, on a busy machine."""
LONG = 8.0
"""Seconds in which a clean call is done on any machine."""


class Driver:
    script = staticmethod(python)
    """Makes a script of its source."""

    def __init__(self, sandbox: Sandbox, shell: Program, clean: Program, name: str) -> None:
        self.sandbox, self.shell, self.clean, self.name = sandbox, shell, clean, name
        self.expected = len(named(name))
        self.descriptors = 0

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if not asked:
            return left_behind()
        if "together" in asked:
            return {"together": await asyncio.gather(*map(self.answer, asked["together"]))}
        limits = Limits.model_validate(asked["limits"])
        told = await self._attempt(asked, limits)
        if asked.get("source") is None and limits.timeout < LONG and _clean_is_late(asked, told):
            # The time is meant for the attack. That a clean call did not get it done says how busy the machine is.
            told = await self._attempt(asked, limits.model_copy(update={"timeout": LONG}))
        told["clean"] = await run(self.clean, [CLEAN], Limits())
        if self.name:
            told["named"] = await self.quiet()
        return told

    async def _attempt(self, asked: dict[str, Any], limits: Limits) -> dict[str, Any]:
        told: dict[str, Any] = {}
        began = time.monotonic()
        try:
            source = asked.get("source")
            if source is not None and self.name:
                source = f"{tools(self.name)}\n{source}"
            program = await self.sandbox.load(self.script(source), limits) if source is not None else self.shell
            told["loaded"] = shown(program.loaded)
            told["batches"] = []
            for isolation, batch in asked["batches"]:
                self.sandbox.isolation = isolation  # one sandbox serves both
                told["batches"].append(await run(program, batch, limits))
            if source is not None:
                await program.close()
        except Exception:
            told["raised"] = traceback.format_exc()
        told["seconds"] = time.monotonic() - began
        return told

    async def quiet(self) -> list[int]:
        """How many named processes there are, and how many there should be; descriptors, then and at first."""
        until = time.monotonic() + QUIET
        self.descriptors = self.descriptors or held()
        while True:
            found, descriptors = len(named(self.name)), held()
            quiet = found <= self.expected and descriptors <= self.descriptors
            if quiet or time.monotonic() > until:
                return [found, self.expected, descriptors, self.descriptors]
            await asyncio.sleep(0.01)


def _clean_is_late(asked: dict[str, Any], told: dict[str, Any]) -> bool:
    """Whether a call that no attack may have spoilt ran out of time."""
    for (isolation, batch), executions in zip(asked["batches"], told.get("batches", ()), strict=False):
        for call, execution in zip(batch, executions, strict=False):
            if tuple(call) == CLEAN and execution["status"] == "timeout":
                return True
            if tuple(call) != CLEAN and isolation == "batch" and asked["lasting"]:
                break
    return False


async def run(program: Program, batch: Sequence[Sequence[Any]], limits: Limits) -> list[dict[str, Any]]:
    calls = [
        Call(id=n, arguments={"output": output, "reference": reference}, seed=SEED)
        for n, (output, reference) in enumerate(batch)
    ]
    return [shown(execution) async for execution in program.run(calls, limits)]


def shown(execution: Execution) -> dict[str, Any]:
    told = {name: getattr(execution, name) for name in Execution.model_fields}
    told["error"] = execution.error.model_dump() if execution.error else None
    try:
        json.dumps([told] * 2)
    except RecursionError:
        told["value"] = "(nested too deeply to be told)"
    return told


def left_behind() -> dict[str, Any]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {
        "children": [pid for task in tasks for pid in task.read_text().split()],
        "descriptors": held(),
        "files": [str(p) for p in Path.cwd().rglob("*")],
        "threads": threading.active_count(),
    }


class BoxedSandbox(ProcessSandbox):
    """With packages that are installed already."""

    def __init__(self, tier: str, jobs: int, packages: str) -> None:
        super().__init__(ProcessConfig(tier=cast(Tier, tier), jobs=jobs))
        self._packages, self._folder = ("installed",), Path(packages)

    async def _install(self, host: View) -> Path:
        return self._folder


async def main(way: str, jobs: str, packages: str = "") -> None:
    name = f"box{os.getpid()}" if packages else ""
    sandbox: Sandbox
    if packages:
        sandbox, shell = BoxedSandbox(way, int(jobs), packages), boxed(name)
    else:
        sandbox, shell = WasmSandbox(WasmConfig(jobs=int(jobs), reset=cast(Reset, way))), SHELL
    async with sandbox:
        attacked, clean = [await sandbox.load(python(shell), Limits()) for _ in range(2)]
        driver = Driver(sandbox, attacked, clean, name)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await driver.answer(json.loads(line))), flush=True)
    print(json.dumps(left_behind() | {"named": named(name)}), flush=True)


if __name__ == "__main__":
    hold()
    asyncio.run(main(*sys.argv[1:]))
