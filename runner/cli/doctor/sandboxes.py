"""Each sandbox of this machine runs a short script; of the providers', whether their keys are there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from runner.cli.doctor.finding import Finding, ok, problem, warning
from runner.inputs.evaluators.entrypoint import script
from sandboxes.base import Call, Language, Limits, Sandbox, SandboxConfig
from sandboxes.errors import SandboxError
from sandboxes.host import event_loop
from sandboxes.registry import backends, create, find

HERE = ("wasm", "process", "deno")
_SCRIPTS: dict[Language, str] = {
    "python": "def evaluate(output):\n    return output\n",
    "typescript": "function evaluate({ output }) { return output; }\n",
}
_SECONDS = 60.0
_LIMITS = Limits(timeout=15, load_timeout=30)


def here() -> Iterator[Finding]:
    """Yield a finding for each sandbox of this machine, by a run of one row."""
    for name in HERE:
        began = time.monotonic()
        try:
            said = _tried(name)
        except SandboxError as error:
            why, _, step = str(error).rpartition("; ")
            # Other scripts than Python without packages need these; many users have none.
            yield (problem if name == "wasm" else warning)(
                name, why or step, step if why else "report it with all findings"
            )
        except TimeoutError:
            yield warning(name, f"a script of one row was not done in {_SECONDS:g} s", "the machine is very busy")
        else:
            yield ok(name, f"{said}; opened, loaded and ran a script in {time.monotonic() - began:.1f} s")


def _tried(name: str) -> str:
    """Run one row in the sandbox. Raises SandboxError, TimeoutError."""
    language = find(name).capabilities.languages[0]
    sandbox = create(SandboxConfig(backend=name, jobs=1, language=language))
    sandbox.warn = sandbox.progress = lambda line: None

    async def body() -> str:
        async with asyncio.timeout(_SECONDS), sandbox:
            return await _run(sandbox, language)

    return event_loop.run(body())


async def _run(sandbox: Sandbox, language: Language) -> str:
    program = await sandbox.load(script(_SCRIPTS[language], language), _LIMITS)
    try:
        found = [each async for each in program.run([Call(id=0, arguments={"output": "é"})], _LIMITS)]
    finally:
        await program.close()
    if [(each.status, each.value) for each in found] != [("ok", "é")]:
        why = found[0].error.message if found and found[0].error else "it returned something else"
        raise SandboxError(f"a script of one row failed ({why}); report it with all findings")
    manifest = sandbox.manifest
    protects, version, rest = (manifest.get(key) for key in ("protects", "landlock", "by_the_filter"))
    filtered = f"; by the filter of system calls: {', '.join(rest)}" if rest else ""
    details = ", ".join([*([protects] if protects else []), *([f"Landlock {version}{filtered}"] if version else [])])
    return f"{sandbox.identity} ({details})" if details else sandbox.identity


def providers() -> Iterator[Finding]:
    """Yield the providers that can be used, without a call to any of them."""
    usable, others = [], []
    for backend in backends().values():
        if backend.elsewhere and not backend.hidden:
            try:
                find(backend.name).check()
            except SandboxError:
                others.append(backend.name)
            else:
                usable.append(backend.name)
    found = f"keys are set for {', '.join(usable)}" if usable else "no keys are set"
    yield ok("providers", f"{found}; `evalcell sandboxes` says what {', '.join(others) or 'none'} would need")
