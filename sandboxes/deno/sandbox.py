"""TypeScript in Deno: a Worker without any permission for every batch, or for every call."""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Any, ClassVar

from sandboxes.base import Call, Capabilities, Execution, Limits, Problem, Program
from sandboxes.cores import cores
from sandboxes.deno.binary import find_deno, version
from sandboxes.deno.box import START, DenoBox
from sandboxes.deno.check import CheckingBox
from sandboxes.deno.turns import Turns
from sandboxes.errors import SandboxError, SandboxLostError
from sandboxes.kernel.plan import PROTECTS, Inner, Shown
from sandboxes.kernel.program import Holder
from sandboxes.kernel.sandbox import BoxedSandbox, TierConfig
from sandboxes.kernel.spawned import BoxError
from sandboxes.kernel.tiers import Make
from sandboxes.kernel.view import view
from sandboxes.replies import Raw

_CLOSED = re.compile(r'^Unsupported scheme "closed" for module "closed:(node:[\w/]+)"')
_PURE = "modules that only compute are: node:assert, buffer, crypto, events, path, stream, url, util, zlib"
_FOREIGN = re.compile(
    r'^(npm specifiers were|JSR package|A remote specifier was|Requires import access|Import ".*" not a dependency)'
)
_FLAG = re.compile(r", run again with the --allow-\w+ flag|; but --no-\w+ is specified|, but --no-\w+ is specified")
_NO_PACKAGES = "npm packages and other modules are not available to TypeScript evaluators yet; put it into the script"

THREADS = 48
"""What Deno and V8 start besides a thread for each core; a thread is a process to the kernel. Nested Workers too."""


class DenoConfig(TierConfig):
    """What only the deno sandbox can be told."""

    backend: str = "deno"


class DenoSandbox(BoxedSandbox[DenoBox]):
    """See docs/threat-model.md for what each tier protects."""

    name: ClassVar[str] = "deno"
    capabilities: ClassVar[Capabilities] = Capabilities(
        languages=("typescript",),
        isolation=("batch", "call"),
        checks=True,
        enforced=("timeout", "memory of the process", "threads", "output", "result size", "no network", "no files"),
        tiers=tuple(f"{tier}: {protects}" for tier, protects in PROTECTS.items()),
    )

    @property
    def identity(self) -> str:
        parts = [f"deno/{version(find_deno())}"]
        parts += [f"tier-{self._started.tier}"] if self._started else []
        return "/".join(parts)

    @property
    def manifest(self) -> dict[str, Any]:
        return super().manifest | {"deno": version(find_deno())}

    @classmethod
    def _bare(cls) -> Make[DenoBox]:
        shown = _shown()
        return lambda tier, bwrap: DenoBox(tier, shown, bwrap)

    async def _make(self) -> Make[DenoBox]:
        return await asyncio.to_thread(self._bare)

    async def holder(self) -> Holder:
        box = await self.box()
        return box if self.isolation == "batch" else Turns(box, self.box)

    def request(self, call: Call, limits: Limits) -> bytes | Execution:
        """With a seed that a number of JavaScript can hold."""
        if call.seed is not None:
            digest = hashlib.blake2b(str(call.seed).encode(), digest_size=6).digest()
            call = call.model_copy(update={"seed": int.from_bytes(digest, "big")})
        return super().request(call, limits)

    def told(self, raw: Raw, limits: Limits, loading: bool = False) -> Execution:
        """With a next step where an import failed."""
        execution = super().told(raw, limits, loading)
        error = execution.error
        if error is None or execution.status != "error":
            return execution
        if closed := _CLOSED.search(error.message):
            said = f"{closed[1]} is not available in the sandbox"
            error = error.model_copy(update={"message": said, "traceback": "", "hint": _PURE})
        elif _FOREIGN.search(error.message):
            error = error.model_copy(update={"hint": _NO_PACKAGES})
        told = _FLAG.sub(", which no script may", error.message)
        error = error.model_copy(update={"message": told, "traceback": _FLAG.sub("", error.traceback)})
        return execution.model_copy(update={"error": error})

    async def problems(self, source: str, seconds: float = 60) -> list[Problem]:
        """Type errors, by strict rules."""
        if self._started is None:
            raise SandboxError("the deno sandbox is not open; use it as `async with sandbox:`")
        shown = await asyncio.to_thread(_shown)
        box = CheckingBox(self._started.tier, shown, self._started.bwrap, source)
        try:
            await box.start(START)
        except BoxError as e:
            raise SandboxLostError(f"the type check could not be started: {e}") from e
        return await box.problems(seconds)

    async def load(self, source: str, limits: Limits) -> Program:
        return await super().load(_exporting(source), limits)


def _shown() -> Shown:
    program = find_deno()
    version(program)
    inner = Inner("deno", processes=THREADS + 3 * cores(), descriptors=256, program=program, tmp=False)
    return Shown(inner, view())


def _exporting(source: str) -> str:
    """The script with its `evaluate` exported."""
    from sandboxes.deno.syntax import how_exported  # here: it takes time to import

    return source + "\nexport { evaluate };\n" if how_exported(source) == "local" else source
