"""The program of a run, loaded before the first row, or when the first row needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from runner.core.types import Evaluator
from runner.engine.aggregate import AbstainingProgram
from runner.engine.batch_program import BatchedProgram, is_batched
from runner.engine.subcalls import with_apart
from runner.inputs.evaluators.judges import with_clients
from runner.inputs.evaluators.program import program
from sandboxes.base import Limits, Program, Sandbox
from sandboxes.host.shield import finish

if TYPE_CHECKING:
    from sandboxes.judges.broker import Broker


async def load_evaluator(
    evaluator: Evaluator, sandbox: Sandbox, limits: Limits, broker: Broker | None = None
) -> Program:
    """
    Return the evaluator's program, in the way in which its function is called. Raises what `Sandbox.load` does.

    With a `broker` it may ask judges.
    """
    if not evaluator.evaluates:
        return AbstainingProgram()
    loaded = await sandbox.load(with_clients(program(evaluator), sandbox.config.judges), limits)
    if is_batched(evaluator):
        return BatchedProgram(loaded)
    whole = with_apart(evaluator, sandbox, loaded)
    if broker is None:
        return whole
    from runner.engine.asks import asking_program  # here: few scripts ask

    return asking_program(evaluator, whole, broker, sandbox)


class Loading:
    """
    Loads a script once. `open`, if there is one, opens the sandbox first.

    What is opened is opened and closed in the caller's task, never in that of a worker.
    """

    def __init__(self, load: Callable[[], Awaitable[Program]], open: Callable[[], Awaitable[None]] | None) -> None:
        self.program: Program | None = None
        self.wanted = False
        """True once a worker waits for the program."""
        self._load, self._open = load, open
        self._done = asyncio.Event()

    async def load(self) -> None:
        """Load the script. Raises UnsupportedConfigError, SandboxError, and what `open` does."""
        if self._open is not None:
            await self._open()
        self.program = await self._load()
        self._done.set()

    async def wait(self, tell: Callable[[], object]) -> Program:
        """Return the program; `tell` is called if it must be loaded first."""
        if self.program is None:
            self.wanted = True
            tell()
            await self._done.wait()
        assert self.program is not None
        return self.program

    async def close(self) -> None:
        """Close the program, if it was loaded. Safe twice."""
        if self.program is not None:
            await finish(self.program.close)
