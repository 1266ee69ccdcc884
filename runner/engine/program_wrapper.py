"""Programs around another program."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from sandboxes.base import Call, Execution, Limits, Program


class OuterProgram(Program):
    """A program that has another one run its calls, and closes it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.loaded = program.loaded

    async def _run(self, calls: Sequence[Call], limits: Limits) -> AsyncGenerator[Execution, None]:
        executions = self._program.run(calls, limits)
        try:
            async for execution in executions:
                yield execution
        finally:
            if (close := getattr(executions, "aclose", None)) is not None:
                await close()

    async def close(self) -> None:
        """Close the program. Safe twice."""
        await self._program.close()
