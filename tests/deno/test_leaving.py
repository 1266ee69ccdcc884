"""Who stops reading a run leaves nothing running."""

from __future__ import annotations

import time

import pytest

from sandboxes import Call, Limits, SandboxUnavailableError
from sandboxes.deno import DenoConfig, DenoSandbox
from tests.scripts import typescript

HANGS = "export function evaluate({ x }: { x: number }) { while (x) {} return x; }"


async def test_a_run_that_is_left_early_ends_its_process_at_once() -> None:
    try:
        async with DenoSandbox(DenoConfig(isolation="batch", jobs=1)) as sandbox:
            program = await sandbox.load(typescript(HANGS), Limits())
            (box,) = sandbox._boxes
            found = program.run([Call(id=n, arguments={"x": n}) for n in range(2)], Limits())
            first = await anext(found)
            began = time.monotonic()
            await found.aclose()  # type: ignore[attr-defined]
            value, closed, took = first.value, box.closed, time.monotonic() - began
    except SandboxUnavailableError as e:
        pytest.skip(str(e))
    assert value == 0
    assert closed
    assert took < 30, "the script would go on for ever"
