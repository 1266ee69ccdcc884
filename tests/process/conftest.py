"""The process sandbox on this machine: the tiers that work here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sandboxes import Call, Execution, Limits, SandboxUnavailableError
from sandboxes.boxes.launch import Tier
from sandboxes.process import ProcessConfig, ProcessSandbox
from tests.scripts import python

LIMITS = Limits(timeout=30, load_timeout=30, memory=256 << 20)

Evaluate = Callable[..., Execution]


def run(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(what)


async def once(config: ProcessConfig, source: str, limits: Limits = LIMITS, **arguments: Any) -> Execution:
    async with ProcessSandbox(config.model_copy(update={"jobs": 1})) as sandbox:
        program = await sandbox.load(python(source), limits)
        (found,) = [e async for e in program.run([Call(id=0, arguments=arguments)], limits)]
        return found


@pytest.fixture(params=["A", "B"])
def tier(request: pytest.FixtureRequest) -> Tier:
    chosen: Tier = request.param

    async def body() -> None:
        async with ProcessSandbox(ProcessConfig(tier=chosen, jobs=1)):
            pass

    try:
        run(body())
    except SandboxUnavailableError as e:
        pytest.skip(str(e))
    return chosen


@pytest.fixture
def evaluate(tier: Tier) -> Evaluate:
    """Loads a script and calls it once; keywords beyond `limits` and `arguments` go into the config."""

    def body(source: str, *, limits: Limits = LIMITS, arguments: dict[str, Any] | None = None, **config: Any) -> Any:
        return run(once(ProcessConfig(tier=tier, **config), source, limits, **(arguments or {})))

    return body
