"""The workers of a run in parts: processes of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from runner.parts.crew import Crew, Worker
from runner.parts.process import ProcessWorker


@asynccontextmanager
async def workers(on: str | None, count: int) -> AsyncIterator[list[Worker]]:
    """So many workers, started by their first tasks, and ended with the context."""
    found: list[Worker] = [ProcessWorker(number) for number in range(1, count + 1)]
    crew: Crew[Any] = Crew(found)
    try:
        yield found
    finally:
        await crew.close()
