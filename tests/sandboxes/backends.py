"""Every registered backend, in every mode that must keep the same promises."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sandboxes import Call, Execution, Isolation, Limits, Sandbox, SandboxConfig, SandboxUnavailableError, Script
from sandboxes.base import Language
from sandboxes.boxes import landlock
from sandboxes.boxes.launch import Tier
from sandboxes.deno import DenoConfig, DenoSandbox
from sandboxes.fake import FakeSandbox
from sandboxes.process import ProcessConfig, ProcessSandbox
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox
from tests.sandboxes.languages import Source
from tests.scripts import script

T = TypeVar("T")

LIMITS = Limits(timeout=30, load_timeout=30, memory=128 << 20)

QUICK = LIMITS.model_copy(update={"timeout": 0.3})
"""For a script that never ends. Any other may find a busy machine."""
SOON_LOADED = LIMITS.model_copy(update={"load_timeout": 0.5})


@dataclass(frozen=True, eq=False)
class Backend:
    """One way to run a script."""

    id: str
    make: Callable[[Isolation], Sandbox]
    gaps: dict[str, str]
    """Promises that it cannot keep, each with the reason; docs/backends.md shows them."""
    isolation: Isolation = "call"
    """Where a test does not ask for one."""
    language: Language = "python"
    """Of the scripts that it is given."""
    paired: bool = False
    """Whether the other isolation is tried elsewhere, as on another one; so tests of both need not try both on each."""
    shares: frozenset[str] = frozenset()
    """Promises that are kept by what it shares with others, which try them: each test here takes half a second."""
    light: bool = False
    """Whether both its tier and its isolation have another one each, which try what does not depend on them."""

    def script(self, source: Source | str, entrypoint: str = "evaluate") -> Script:
        """As it is loaded."""
        return script(source if isinstance(source, str) else source[self.language], self.language, entrypoint)


_LIGHT = (("A", "call"), ("B", "batch"))


def _wasm(**options: Any) -> Callable[[Isolation], Sandbox]:
    return lambda isolation: WasmSandbox(WasmConfig(isolation=isolation, **options))


def _process(tier: Tier, isolation: Isolation) -> Backend:
    def make(isolation: Isolation) -> Sandbox:
        return ProcessSandbox(ProcessConfig(isolation=isolation, tier=tier, jobs=2))

    gaps = {"nothing": "it is a process: it may start threads, and look around in what it is shown"}
    light = (tier, isolation) in _LIGHT
    return Backend(f"process-{tier}-{isolation}", make, gaps, isolation, paired=True, light=light)


def no_processes(backend: Backend) -> str:
    """Why a script of this backend may start no processes on this machine: a gap of tier B alone."""
    return no_processes_in_tier_b() if backend.id.startswith("process-B") else ""


@functools.cache
def may_make_users() -> bool:
    """Whether this user may make a namespace of users, in which the kernel counts its processes apart."""
    return os.geteuid() == 0 or not subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode


def no_processes_in_tier_b() -> str:
    """Why a call in tier B may start none on this machine."""
    if not landlock.has_scopes():
        return "before Landlock 6 the filter refuses all signals, also those that would end its processes"
    if not may_make_users():
        return "without a user namespace no number bounds its processes alone"
    return ""


def _deno(tier: Tier, isolation: Isolation) -> Backend:
    def make(isolation: Isolation) -> Sandbox:
        return DenoSandbox(DenoConfig(isolation=isolation, tier=tier, jobs=2))

    light = (tier, isolation) in _LIGHT
    return Backend(f"deno-{tier}-{isolation}", make, {}, isolation, "typescript", paired=True, light=light)


def _remote(name: str, language: Language = "python") -> Backend:
    """Both isolations are told apart by the tests that ask for them; a machine of the local server runs each script."""

    def make(isolation: Isolation) -> Sandbox:
        from tests.remote.served import sandbox

        jobs = 1 if language == "typescript" else 2  # each machine has Deno installed, which takes a second
        return sandbox(name, isolation=isolation, language=language, jobs=jobs)

    if language == "typescript":
        # The Worker is that of `deno`, the walls are those of Python there.
        shares = frozenset({"runs", "closed", "channel"})
        return Backend(f"{name}-{language}", make, {}, language=language, paired=True, shares=shares)
    gaps = {"nothing": "it is a process: it may start threads, and look around in what it is shown"}
    return Backend(name, make, gaps)


def _docker(language: Language = "python") -> Backend:
    """In containers of an engine of this machine, by its API."""

    def make(isolation: Isolation) -> Sandbox:
        from tests.containers import local

        if why := local.missing():
            raise SandboxUnavailableError(why)
        return local.sandbox(isolation=isolation, language=language, jobs=1 if language == "typescript" else 2)

    if language == "typescript":
        shares = frozenset({"runs", "closed", "channel"})
        return Backend(f"docker-{language}", make, {}, language=language, paired=True, shares=shares)
    gaps = {"nothing": "it is a process: it may start threads, and look around in what it is shown"}
    return Backend("docker", make, gaps)


REMOTE = ("e2b", "modal", "vercel", "daytona")
"""Their local servers count the machines."""

PLAYS = "it runs no script, it plays executions"

BACKENDS = (
    Backend("wasm-restore", _wasm(jobs=1, reset="restore"), {}),
    Backend("wasm-instance", _wasm(jobs=1, reset="instance"), {}),
    Backend("wasm-workers", _wasm(jobs=2), {}),
    _process("A", "batch"),
    _process("A", "call"),
    _process("B", "batch"),
    _process("B", "call"),
    _deno("A", "batch"),
    _deno("A", "call"),
    _deno("B", "batch"),
    _deno("B", "call"),
    _docker(),
    _docker("typescript"),
    *(_remote(name) for name in REMOTE),
    _remote("modal", "typescript"),
    Backend(
        "fake",
        lambda isolation: FakeSandbox(SandboxConfig(backend="fake", isolation=isolation)),
        dict.fromkeys(("runs", "names", "isolates", "stops", "bounds", "closed", "nothing", "channel"), PLAYS),
    ),
)


@functools.cache
def unavailable(backend: Backend) -> str:
    """Why it cannot be tried on this machine; empty where it can."""

    async def body() -> None:
        async with backend.make(backend.isolation):
            pass

    try:
        run(body())
    except SandboxUnavailableError as e:
        return str(e)
    return ""


def run(what: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(what)


def calls(count: int = 1, **arguments: Any) -> list[Call]:
    return [Call(id=number, arguments=arguments) for number in range(count)]


def evaluate(
    backend: Backend,
    script: Source | Script | str,
    batch: Sequence[Call],
    *,
    isolation: Isolation | None = None,
    limits: Limits = LIMITS,
) -> list[Execution]:
    """Loads the script and runs the calls as one batch; the executions in the order of their calls."""

    async def body() -> list[Execution]:
        async with backend.make(isolation or backend.isolation) as sandbox:
            return await executed(sandbox, backend, script, batch, limits)

    return run(body())


async def executed(
    sandbox: Sandbox, backend: Backend, script: Source | Script | str, batch: Sequence[Call], limits: Limits
) -> list[Execution]:
    """As `evaluate`, in a sandbox that is open."""
    program = await sandbox.load(script if isinstance(script, Script) else backend.script(script), limits)
    try:
        return sorted([e async for e in program.run(batch, limits)], key=lambda e: e.call)
    finally:
        await program.close()
