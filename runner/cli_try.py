"""`evalcell sandboxes --try NAME`: whether a sandbox really works, a provider's with your key, step by step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from rich.text import Text

from runner import interrupt, tables
from runner.cli import DONE, INTERRUPTED
from runner.shown import printable, whole
from sandboxes.base import Call, Limits, Program, Sandbox, SandboxConfig
from sandboxes.errors import SandboxError
from sandboxes.registry import create
from sandboxes.remote.accounts import Account, accounts, remote
from sandboxes.remote.ledger import Ledger, own_tags
from sandboxes.remote.reaping import survey

_SCRIPTS = {
    "python": "def evaluate(output, reference):\n    return output == reference\n",
    "typescript": "function evaluate({ output, reference }) { return output === reference; }\n",
}
_ROW = {"output": "é", "reference": "é"}
_LIMITS = Limits(timeout=10, load_timeout=15)
_LONGEST = 60.0
"""Seconds of one step."""
_LOOKS, _PAUSE = 4, 1.0
"""How often a provider's list is looked at: it may show a machine for a moment after its end."""


def try_sandbox(name: str, env_file: str | None) -> int:
    """
    Opens it with one job, loads and runs a script of two lines, closes it; tells each step and its seconds.

    Raises SandboxError when a step fails, once all is closed again.
    """
    name = whole(name)
    trial = _Trial(create(_config(name, env_file)))
    account = accounts(env_file, name).found[0] if remote(name) else None
    return INTERRUPTED if interrupt.run(_tried(trial, account)) else DONE


def _config(name: str, env_file: str | None) -> SandboxConfig:
    if remote(name) is None:
        return SandboxConfig(backend=name, jobs=1, env_file=env_file)
    from sandboxes.remote.again import Pauses
    from sandboxes.remote.sandbox import RemoteConfig

    # What does not work is told soon, rather than asked for minutes.
    pauses = Pauses(altogether=8)
    return RemoteConfig(backend=name, jobs=1, env_file=env_file, start_timeout=30, wait=10, pauses=pauses)


async def _tried(trial: _Trial, account: Account | None) -> None:
    begun = time.monotonic()
    try:
        await _step("open", trial.open())
        await _step("load", trial.load())
        await _step("run", trial.run())
    finally:
        await _step("close", trial.close())
    if account:
        await _step("look", _nothing_left(account))
    tables.out().say(Text(f"it works, {time.monotonic() - begun:.1f} s in all"))


class _Trial:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.program: Program | None = None

    async def open(self) -> str:
        await self.sandbox.open()
        return self.sandbox.identity

    async def load(self) -> str:
        self.program = await self.sandbox.load(_SCRIPTS[self.sandbox.capabilities.languages[0]], _LIMITS)
        if (loaded := self.program.loaded).status != "ok":
            raise SandboxError(f"a script of two lines does not load there ({_why(loaded)}); try again, or report it")
        about = self.sandbox.manifest
        there = [f"Python {about['python']}"] if about.get("python") else []
        protects = about.get("protects") or ()
        if words := protects if isinstance(protects, str) else ", ".join(protects):
            there.append(f"protected there by {words}")
        return "; ".join(there) or "a script of two lines"

    async def run(self) -> str:
        assert self.program is not None
        done = [one async for one in self.program.run([Call(id=0, arguments=_ROW)], _LIMITS)]
        if [(one.status, one.value) for one in done] != [("ok", True)]:
            raise SandboxError(f"its one row came back wrong ({'; '.join(map(_why, done))}); try again, or report it")
        return "one row, and the right result"

    async def close(self) -> str:
        if self.program:
            await self.program.close()
        await self.sandbox.close()
        return "all is ended"


def _why(done: object) -> str:
    return printable(str(done), 300)


async def _step(name: str, work: Awaitable[str]) -> None:
    begun = time.monotonic()
    said = "failed"
    try:
        async with asyncio.timeout(_LONGEST):
            said = await work
    except TimeoutError:
        raise SandboxError(f"{name} has not ended after {_LONGEST:.0f} s; try again later") from None
    finally:
        out = Text(f"{name:<5} {time.monotonic() - begun:6.2f} s  ")
        tables.out().say(out.append(tables.text(said)))


async def _nothing_left(account: Account) -> str:
    """Raises SandboxError where the provider, or the ledger, still has a machine that this process made."""
    provider = account.provider
    try:
        await provider.open()
        for look in range(_LOOKS):
            known = await survey(provider, Ledger())
            ours = [one.id or one.key for one in known if one.owner and one.owner.tags() == own_tags()]
            if not ours:
                return f"{provider.name} lists no machine of this try"
            if look < _LOOKS - 1:
                await asyncio.sleep(_PAUSE)
        raise SandboxError(
            f"{', '.join(ours)} may still run at {provider.name}; run: evalcell reap --provider {provider.name}"
        )
    except SandboxError as e:
        raise SandboxError(account.masks.text(str(e))) from None
    finally:
        await provider.close()
