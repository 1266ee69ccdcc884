"""A backend that runs nothing: it returns executions that a test prepared, for testing everything above a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import ClassVar

from sandboxes.base import Call, Capabilities, Execution, Limits, Program, Sandbox, SandboxConfig, Script

Answer = Callable[[Call], Execution]
"""Makes the execution of a call. May raise SandboxLostError, as a sandbox that dies does."""


def ok(call: Call) -> Execution:
    """Return the default: a score of 1.0."""
    return Execution(call=call.id, status="ok", value=1.0)


class FakeProgram(Program):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.loaded = Execution(call=-1, status="ok")
        self.runs: list[tuple[int, ...]] = []
        """The ids of each run's calls, in the order in which the runs began."""

    async def run(self, calls: Sequence[Call], limits: Limits) -> AsyncIterator[Execution]:
        self.runs.append(tuple(c.id for c in calls))
        for call in calls:
            yield self.answer(call)


class FakeSandbox(Sandbox):
    name: ClassVar[str] = "fake"
    capabilities: ClassVar[Capabilities] = Capabilities(languages=("python",), isolation=("call", "batch"))

    def __init__(self, config: SandboxConfig, answer: Answer = ok) -> None:
        super().__init__(config)
        self.answer = answer
        self.opened = self.closed = 0
        self.programs: list[FakeProgram] = []

    @property
    def concurrency(self) -> int:
        return self.config.jobs or 1

    async def open(self) -> None:
        self.opened += 1

    async def load(self, script: Script, limits: Limits) -> Program:
        self.programs.append(FakeProgram(self.answer))
        return self.programs[-1]

    async def close(self) -> None:
        self.closed += 1
