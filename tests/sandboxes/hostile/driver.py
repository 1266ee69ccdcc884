"""
Runs hostile scripts in a process of its own, so that one which harms its host fails a test and not the test run.

Reads one JSON object a line: `limits` and `batches`, each an isolation and the arguments of some calls, for `SHELL`
or for the script `source`. Answers with one: the executions of the load and of each batch, then of a clean call to
another program. Whatever is raised is told as `raised`. `{"together": [...]}` answers several at once, `{}` tells what
is left behind.
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
from sandboxes.wasm import WasmConfig, WasmSandbox
from sandboxes.wasm.fresh import Reset
from tests.sandboxes.hostile.scripts import CLEAN, SHELL

SEED = 7


class Driver:
    def __init__(self, sandbox: Sandbox, shell: Program, clean: Program) -> None:
        self.sandbox, self.shell, self.clean = sandbox, shell, clean

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if not asked:
            return left_behind()
        if "together" in asked:
            return {"together": await asyncio.gather(*map(self.answer, asked["together"]))}
        limits = Limits.model_validate(asked["limits"])
        told: dict[str, Any] = {}
        began = time.monotonic()
        try:
            source = asked.get("source")
            program = await self.sandbox.load(source, limits) if source is not None else self.shell
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
        told["clean"] = await run(self.clean, [CLEAN], Limits())
        return told


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
        "descriptors": len(os.listdir("/proc/self/fd")),
        "files": [str(p) for p in Path.cwd().rglob("*")],
        "threads": threading.active_count(),
    }


async def main(reset: str, jobs: str) -> None:
    async with WasmSandbox(WasmConfig(jobs=int(jobs), reset=cast(Reset, reset))) as sandbox:
        driver = Driver(sandbox, *[await sandbox.load(SHELL, Limits()) for _ in range(2)])
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await driver.answer(json.loads(line))), flush=True)
    print(json.dumps(left_behind()), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
