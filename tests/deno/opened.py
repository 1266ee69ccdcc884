"""A Deno sandbox that stays open while a file of tests uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from sandboxes import Call, Execution, Isolation, Limits
from sandboxes.base import Problem
from sandboxes.deno import DenoConfig, DenoSandbox
from tests.scripts import typescript

T = TypeVar("T")

LIMITS = Limits(timeout=30, load_timeout=30, memory=128 << 20)


class Opened:
    """One sandbox for each isolation, opened when it is first used; for tests that are not asynchronous."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._sandboxes: dict[Isolation, DenoSandbox] = {}

    def sandbox(self, isolation: Isolation = "batch") -> DenoSandbox:
        """Raises SandboxUnavailableError."""
        if isolation not in self._sandboxes:
            made = DenoSandbox(DenoConfig(isolation=isolation, jobs=1))
            self._runner.run(made.open())
            self._sandboxes[isolation] = made
        return self._sandboxes[isolation]

    def evaluate(
        self,
        source: str,
        batch: Sequence[Call | Mapping[str, Any]],
        isolation: Isolation = "batch",
        **limits: Any,
    ) -> list[Execution]:
        """Loads the script and runs the calls, each may be its arguments alone; in their order."""
        sandbox, chosen = self.sandbox(isolation), LIMITS.model_copy(update=limits)
        numbered = [c if isinstance(c, Call) else Call(id=n, arguments=dict(c)) for n, c in enumerate(batch)]

        async def body() -> list[Execution]:
            program = await sandbox.load(typescript(source), chosen)
            found = [e async for e in program.run(numbered, chosen)]
            await program.close()
            return sorted(found, key=lambda e: e.call)

        return self._runner.run(body())

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(what)

    def each(self, expressions: Sequence[str], isolation: Isolation = "batch", **limits: Any) -> list[Execution]:
        """What becomes of a call that returns each of these."""
        made = ",\n".join(f"  () => ({e})" for e in expressions)
        source = f"const made = [\n{made}\n];\nexport const evaluate = ({{n}}) => made[n]();\n"
        return self.evaluate(source, [{"n": n} for n in range(len(expressions))], isolation, **limits)

    def problems(self, source: str) -> list[Problem]:
        return self._runner.run(self.sandbox().problems(source))

    def close(self) -> None:
        for sandbox in self._sandboxes.values():
            self._runner.run(sandbox.close())
        self._runner.close()
