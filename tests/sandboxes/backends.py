"""Every registered backend, in every mode that must keep the same promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sandboxes import Call, Execution, Isolation, Limits, Sandbox, SandboxConfig
from sandboxes.fake import FakeSandbox
from sandboxes.wasm import WasmConfig, WasmSandbox

T = TypeVar("T")

LIMITS = Limits(timeout=5, load_timeout=10, memory=128 << 20)

QUICK = LIMITS.model_copy(update={"timeout": 0.3, "load_timeout": 0.5})


@dataclass(frozen=True)
class Backend:
    """One way to run a script."""

    id: str
    make: Callable[[Isolation], Sandbox]
    gaps: dict[str, str]
    """Promises that it cannot keep, each with the reason; docs/backends.md shows them."""


def _wasm(**options: Any) -> Callable[[Isolation], Sandbox]:
    return lambda isolation: WasmSandbox(WasmConfig(isolation=isolation, **options))


PLAYS = "it runs no script, it plays executions"

BACKENDS = (
    Backend("wasm-restore", _wasm(jobs=1, reset="restore"), {}),
    Backend("wasm-instance", _wasm(jobs=1, reset="instance"), {}),
    Backend("wasm-workers", _wasm(jobs=2), {}),
    Backend(
        "fake",
        lambda isolation: FakeSandbox(SandboxConfig(backend="fake", isolation=isolation)),
        dict.fromkeys(("runs", "isolates", "stops", "bounds", "closed", "channel"), PLAYS),
    ),
)


def run(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(what)


def calls(count: int = 1, **arguments: Any) -> list[Call]:
    return [Call(id=number, arguments=arguments) for number in range(count)]


def evaluate(
    backend: Backend,
    source: str,
    batch: Sequence[Call],
    *,
    isolation: Isolation = "call",
    limits: Limits = LIMITS,
) -> list[Execution]:
    """Loads the script and runs the calls as one batch; the executions in the order of their calls."""

    async def body() -> list[Execution]:
        async with backend.make(isolation) as sandbox:
            program = await sandbox.load(source, limits)
            found = [e async for e in program.run(batch, limits)]
            await program.close()
            return sorted(found, key=lambda e: e.call)

    return run(body())
