"""`evalcell sandboxes --try NAME`: whether a sandbox really works, a provider's with your key, step by step."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.text import Text

from runner.cli import signals
from runner.cli.exit_codes import DONE, INTERRUPTED
from runner.cli.views import render
from runner.core.text import printable, whole
from runner.inputs.evaluators.entrypoint import script
from sandboxes.base import Call, Language, Limits, Program, Sandbox, SandboxConfig, Script
from sandboxes.errors import SandboxError
from sandboxes.registry import create, find
from sandboxes.remote.credentials import Account, accounts, provider_of
from sandboxes.remote.ledger import Ledger, own_tags
from sandboxes.remote.reaper import survey
from sandboxes.remote.sandbox import RemoteSandbox

_SCRIPTS: dict[Language, str] = {
    "python": "def evaluate(output, reference):\n    return output == reference\n",
    "typescript": "function evaluate({ output, reference }) { return output === reference; }\n",
}
_OFFLINE = """
import socket
def evaluate(output, reference):
    try:
        socket.create_connection(("127.0.0.1", 9), 1).close()
    except ConnectionRefusedError:
        return "a script reaches the network"
    except OSError:
        return output == reference
    return "a script reaches the network"
"""
"""For sandboxes that can give a network: whom nobody listens to refuses a connection only where it was let through."""

_IMPORTS = """
import importlib, re
from importlib import metadata
def plain(name):
    return re.sub("[-_.]+", "-", name).lower()
offered = metadata.packages_distributions()
for name in {names}:
    print(name, metadata.version(name))
    modules = [module for module, of in offered.items() if plain(name) in map(plain, of) and module[0] != "_"]
    for module in modules[:1]:
        importlib.import_module(module)
"""
_ROW = {"output": "é", "reference": "é"}
_LIMITS = Limits(timeout=10, load_timeout=15)
_LONGEST = 60.0
"""Seconds of one step, besides those for installing."""
_LOOKS, _PAUSE = 4, 1.0
"""How often a provider's list is looked at: it may show a machine for a moment after its end."""


def try_sandbox(name: str, env_file: str | None, packages: tuple[str, ...], language: Language | None) -> int:
    """
    Open it with one job, load and run a short script, close it; print each step and its seconds.

    Raises:
        SandboxError: When a step fails, once all is closed again.
        UnsupportedConfigError: For what it does not have.
    """
    name = whole(name)
    trial = _Trial(create(_config(name, env_file, packages, language)))
    account = accounts(env_file, name).usable[0] if provider_of(name) else None
    return INTERRUPTED if signals.run(_tried(trial, account)) else DONE


def _config(name: str, env_file: str | None, packages: tuple[str, ...], language: Language | None) -> SandboxConfig:
    settings: dict[str, Any] = {"backend": name, "jobs": 1, "env_file": env_file}
    settings |= {"packages": packages, "language": language or find(name).capabilities.languages[0]}
    if provider_of(name) is None:
        return SandboxConfig(**settings)
    from sandboxes.remote.config import RemoteConfig
    from sandboxes.remote.retry import Pauses

    # What does not work is told soon, rather than asked for minutes.
    pauses = Pauses(total=8)
    return RemoteConfig(**settings, start_timeout=30, wait=10, pauses=pauses)


async def _tried(trial: _Trial, account: Account | None) -> None:
    begun = time.monotonic()
    try:
        config = trial.sandbox.config
        installs = bool(config.packages) or (account is not None and config.language == "typescript")
        await _step("open", trial.open(), config.install_timeout * installs)
        await _step("load", trial.load())
        await _step("run", trial.run())
    finally:
        await _step("close", trial.close())
    if account:
        await _step("look", _nothing_left(account))
    render.out().say(Text(f"it works, {time.monotonic() - begun:.1f} s in all"))


class _Trial:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.program: Program | None = None
        if isinstance(sandbox, RemoteSandbox):
            sandbox.step = _part

    async def open(self) -> str:
        await self.sandbox.open()
        return self.sandbox.identity

    async def load(self) -> str:
        self.program = await self.sandbox.load(self._script(), _LIMITS)
        if (loaded := self.program.loaded).status != "ok":
            raise SandboxError(f"a short script does not load there ({_why(loaded)}); try again, or report it")
        about = self.sandbox.manifest
        there = [f"Python {about['python']}"] if about.get("python") else []
        there += [f"Deno {about['deno']}"] if about.get("deno") else []
        protects = about.get("protects") or ()
        if words := protects if isinstance(protects, str) else ", ".join(protects):
            there.append(f"protected there by {words}")
        return "; ".join(there) or "a short script"

    @property
    def _offline(self) -> bool:
        return self.sandbox.config.language == "python" and self.sandbox.capabilities.network

    def _script(self) -> Script:
        config = self.sandbox.config
        assert config.language
        names = [re.split(r"[^A-Za-z0-9._-]", one.strip(), maxsplit=1)[0] for one in config.packages]
        source = _OFFLINE if self._offline else _SCRIPTS[config.language]
        imports = _IMPORTS.replace("{names}", repr(names)) if names else ""
        return script(imports + source, config.language)

    async def run(self) -> str:
        assert self.program is not None
        done = [one async for one in self.program.run([Call(id=0, arguments=_ROW)], _LIMITS)]
        if [(one.status, one.value) for one in done] != [("ok", True)]:
            raise SandboxError(f"its one row came back wrong ({'; '.join(map(_why, done))}); try again, or report it")
        found = ", ".join(self.program.loaded.output.splitlines())
        words = f"one row, and the right result{f' with {printable(found, 100)}' if found else ''}"
        return words + ("; the script reaches no network" if self._offline else "")

    async def close(self) -> str:
        if self.program:
            await self.program.close()
        await self.sandbox.close()
        return "all is ended"


def _why(done: object) -> str:
    return printable(str(done), 300)


async def _step(name: str, work: Awaitable[str], more: float = 0) -> None:
    with _part(name) as said:
        try:
            async with asyncio.timeout(_LONGEST + more):
                said.append(await work)
        except TimeoutError:
            raise SandboxError(f"{name} has not ended after {_LONGEST + more:.0f} s; try again later") from None


@contextmanager
def _part(name: str) -> Iterator[list[str]]:
    """A step, or a part of one, which is told at its end."""
    begun, said, failed = time.monotonic(), list[str](), True
    try:
        yield said
        failed = False
    finally:
        out = Text(f"{name:<7} {time.monotonic() - begun:6.2f} s  ")
        render.out().say(out.append(render.text("failed" if failed else "; ".join(said) or "done")))


async def _nothing_left(account: Account) -> str:
    """Raise SandboxError if the provider, or the ledger, still has a machine that this process made."""
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
