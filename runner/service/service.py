"""The service: what a server can do, each operation once."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Self

from anyio import to_thread

from runner.evaluators.load import parse_evaluator
from runner.service import scripts
from runner.service.settings import Settings
from runner.service.types import Checked, CheckRequest, EvaluatorInput, Recognised, SandboxFit, Template


class Service:
    """
    Every operation of the server. Used by HTTP, pages and MCP alike; open it with `async with`.

    Raises ServiceError, or an exception that `runner.service.errors.translated` makes one of.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._machine = scripts.Machine()
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._opened.aclose()

    async def check(self, request: CheckRequest) -> Checked:
        """Read a script without running it."""
        return await to_thread.run_sync(scripts.check, request.source, request.language, request.file_name)

    async def fits(self, script: EvaluatorInput) -> list[SandboxFit]:
        """Each sandbox with whether it can run the evaluator here. Raises EvaluatorError."""
        name = script.name or scripts.stem_of(script.file_name)
        language = scripts.language_of(script.file_name, script.language)
        evaluator = await to_thread.run_sync(lambda: parse_evaluator(script.source, name, language=language))
        return await to_thread.run_sync(self._machine.fits, evaluator, self.settings.refused())

    async def ready(self) -> dict[str, Any]:
        """Whether scripts can be run, and what is active in each sandbox of this machine that is allowed."""
        found = await to_thread.run_sync(self._machine.tiers, self.settings.refused())
        return {"ready": True, "sandboxes": found}

    async def templates(self) -> list[Template]:
        """The evaluators that come with evalcell."""
        return await to_thread.run_sync(scripts.all_templates)

    async def recognise(self, head: bytes, file_name: str) -> Recognised:
        """Tell what a file is by its name and its first bytes."""
        return scripts.recognise(head, file_name)
