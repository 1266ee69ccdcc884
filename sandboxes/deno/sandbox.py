"""TypeScript in Deno: a Worker without any permission for every batch, or for every call."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from sandboxes.base import Call, Capabilities, Execution, Limits, Problem
from sandboxes.boxes.first_process import BoxError
from sandboxes.boxes.holder import Holder
from sandboxes.boxes.host_files import view
from sandboxes.boxes.launch import PROTECTS, Inner, Shown
from sandboxes.boxes.sandbox import BoxedSandbox, TierConfig
from sandboxes.boxes.tiers import Make
from sandboxes.cores import cores
from sandboxes.deno.binary import find_deno, version
from sandboxes.deno.check import CheckingBox
from sandboxes.deno.deno_box import DenoBox
from sandboxes.deno.launch import explained, seeded
from sandboxes.deno.standby_box import Turns
from sandboxes.errors import SandboxError, SandboxLostError
from sandboxes.guest.supervisor.deno_fifo import DESCRIPTORS, THREADS
from sandboxes.guest.supervisor.deno_run import START
from sandboxes.protocol import Raw


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
        return Turns(await self.box(), self.box, alternate=self.isolation == "call")

    def request(self, call: Call, limits: Limits) -> bytes | Execution:
        """With a seed that a number of JavaScript can hold."""
        return super().request(seeded(call), limits)

    def told(self, raw: Raw, limits: Limits, entrypoint: str, loading: bool = False) -> Execution:
        """With a next step where an import failed."""
        return explained(super().told(raw, limits, entrypoint, loading))

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


def _shown() -> Shown:
    program = find_deno()
    version(program)
    inner = Inner(
        "deno", "deno.exec", processes=THREADS + 3 * cores(), descriptors=DESCRIPTORS, program=program, tmp=False
    )
    return Shown(inner, view())
