"""A run against a local server while things go wrong, and what must hold after every one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.core.types import Evaluator, Result
from runner.engine.local import score
from runner.inputs.datasets.rows import cases_from_rows
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes import Limits, Sandbox, SandboxError
from sandboxes.registry import find
from sandboxes.remote.config import RemoteConfig
from sandboxes.remote.ledger import Ledger, LedgerEntry
from sandboxes.remote.retry import Pauses
from sandboxes.remote.sandbox import RemoteSandbox
from tests.remote.room import bubblewrap
from tests.remote.serving import Server, State

PROVIDERS = ("e2b", "modal")
"""Those that every fault is tried with."""

LIMITS = Limits(timeout=5, load_timeout=10)
QUICK = Pauses(first=0.02, longest=0.1, total=10)
SCRIPT = "import time\ndef evaluate(output):\n    time.sleep(0.01)\n    return len(output)\n"
"""Each row takes a moment, so that what is said of it travels by itself."""

_TOGETHER = 60.0


@dataclass
class Tried:
    """What came of a run."""

    results: list[Result] = field(default_factory=list)
    error: SandboxError | None = None
    said: list[str] = field(default_factory=list)

    @property
    def scores(self) -> dict[str, float | None]:
        """By row; None where it has no score."""
        return {result.id: result.score for result in self.results}

    @property
    def outcomes(self) -> dict[str, str]:
        return {result.id: result.outcome for result in self.results}


class Trying:
    """Runs at one server; `state` is a folder of this test alone."""

    def __init__(self, name: str, server: Server, folder: Path) -> None:
        self.name = name
        self.server = server
        self.env_file = folder / "env"
        self.env_file.write_text("".join(f"{key}='{value}'\n" for key, value in server.environment.items()))

    def sandbox(self, lifetime: int | None = None, **options: Any) -> RemoteSandbox:
        """One machine, and pauses that are short; its `lifetime` may be shorter than a user is allowed to ask for."""
        short: dict[str, Any] = {"start_timeout": 30, "wait": 30, "slack": 20, "close_timeout": 30, "pauses": QUICK}
        config = RemoteConfig(backend=self.name, env_file=str(self.env_file), **{"jobs": 1} | short | options)
        found = find(self.name)(config)
        assert isinstance(found, RemoteSandbox)
        if lifetime is not None:
            found.remote = found.remote.model_copy(update={"lifetime": lifetime})
        return found

    def run(self, rows: int = 6, *, source: str = SCRIPT, limits: Limits = LIMITS, **options: Any) -> Tried:
        """Scores texts of the lengths 0, 1, 2 and so on. A sandbox that fails is told; any other failure raises."""
        tried = Tried()

        async def body() -> None:
            await scored(self.sandbox(**options), tried, rows, script(source), limits)

        try:
            asyncio.run(asyncio.wait_for(body(), _TOGETHER))
        except SandboxError as e:
            tried.error = e
        return tried

    def after(self, tried: Tried) -> State:
        """What must hold whatever went wrong: nothing runs, nothing is owed, no score is false."""
        state = self.server.state()
        assert state.machines == [], tried.said
        assert state.processes == 0
        assert owed() == []
        assert all(wrong is None or wrong == int(id) for id, wrong in tried.scores.items()), tried.scores
        return state

    def recovered(self, rows: int = 6, **options: Any) -> State:
        """Runs, and all is as if nothing had gone wrong."""
        tried = self.run(rows, **options)
        state = self.after(tried)
        assert state.pending == [], f"these never took effect: {state.pending}; asked: {state.log}"
        assert tried.error is None, f"{tried.error!r}; asked: {state.log}"
        assert tried.scores == {str(n): n for n in range(rows)}, [r for r in tried.results if r.score is None]
        return state


def script(source: str) -> Evaluator:
    return parse_evaluator(source, name="tried")


async def scored(sandbox: Sandbox, tried: Tried, rows: int, evaluator: Evaluator, limits: Limits = LIMITS) -> None:
    """Opens it, scores the rows, closes it."""
    sandbox.progress = sandbox.warn = tried.said.append
    cases = cases_from_rows([{"id": str(n), "output": "x" * n} for n in range(rows)])
    async with sandbox, aclosing(score(evaluator, cases, sandbox, limits=limits)) as found:
        async for result in found:
            tried.results.append(result)


def owed() -> list[LedgerEntry]:
    """Machines that the ledger says may still run."""
    return Ledger().open_entries()


def served(name: str) -> Iterator[Server]:
    """A provider's local server; skips where there can be none."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    if name == "modal":
        pytest.importorskip("grpclib", reason="Modal's SDK is not here; run: pip install 'evalcell[modal]'")
    with Server.start(f"tests.remote.{name}_server") as server:
        yield server


def at(name: str, server: Server, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Trying]:
    """Runs at a server that is as new, with a ledger of their own, and machines created as fast as they are wanted."""
    server.clear()
    patch.setenv("EVALCELL_STATE_DIR", str(folder / "state"))
    patch.setattr(find(name).provider, "pace", 1000.0)  # type: ignore[attr-defined]
    yield Trying(name, server, folder)
    server.clear()
