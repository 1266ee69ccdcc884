"""A sandbox whose scripts run in boxes: which tier works here, a stock of boxes, and programs in them."""

from __future__ import annotations

import asyncio
import platform
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from sandboxes import protocol
from sandboxes.base import Call, Execution, Limits, Program, Sandbox, SandboxConfig, Script
from sandboxes.boxes import tiers
from sandboxes.boxes.holder import Holder, LoadingBox
from sandboxes.boxes.launch import PROTECTS, Tier
from sandboxes.boxes.program import BoxedProgram
from sandboxes.boxes.tiers import Make, Started, start
from sandboxes.cores import cores
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.guest.supervisor import shortage
from sandboxes.protocol import Raw
from sandboxes.refusals import refuse_language
from sandboxes.shield import every, finish

B = TypeVar("B", bound=LoadingBox)


class TierConfig(SandboxConfig):
    """What only a sandbox of boxes can be told."""

    tier: Tier | None = None
    """None: the strongest that works here."""


class BoxedSandbox(Sandbox, Generic[B]):
    """See docs/threat-model.md for what each tier protects."""

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._tier = config.tier if isinstance(config, TierConfig) else None
        self._jobs = config.jobs or cores()
        self._started: Started[B] | None = None
        self._spare: list[B] = []
        self._boxes: set[B] = set()
        self._programs: list[BoxedProgram] = []

    @property
    def concurrency(self) -> int:
        return self._jobs

    @property
    def batch(self) -> int:
        return 256  # a fresh state costs as much as some twenty calls or more

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = {"sandbox": self.identity, "platform": platform.platform()}
        if self._started:
            tier = self._started.tier
            found |= {"tier": tier, "protects": PROTECTS[tier], "not_available": self._started.refused}
        return found | {"isolation": self.isolation}

    @classmethod
    @abstractmethod
    def _bare(cls) -> Make[B]:
        """Makes boxes in which a script would be shown nothing."""

    @abstractmethod
    async def _make(self) -> Make[B]:
        """Makes boxes with what the config asks for; what that needs is installed first."""

    @classmethod
    def check(cls) -> str:
        """Tries the tiers, strongest first."""
        tiers.refuse_platform(cls.name, weak=False)

        async def body() -> Started[B]:
            started = await start(cls.name, cls._bare(), None, weak=True)
            await started.box.close()
            return started

        with ThreadPoolExecutor(1) as aside:  # an event loop may run in this thread already
            found = aside.submit(lambda: asyncio.run(body())).result()
        if found.tier == "C":
            raise SandboxUnavailableError(tiers.none_works(cls.name, found.refused, None))
        refused = [f"tier {tier}: {why}" for tier, why in found.refused.items()]
        return "; not available: ".join([f"tier {found.tier} is active", *refused])

    async def open(self) -> None:
        weak = self.config.allow_weak_isolation
        tiers.refuse_platform(self.name, weak)
        try:
            self._started = await start(self.name, await self._make(), self._tier, weak=weak)
        except (OSError, RuntimeError) as e:
            if why := shortage.why(e):
                raise SandboxUnavailableError(f"the {self.name} sandbox cannot start: {why}") from e
            raise
        self._keep(self._started.box)
        self._spare.append(self._started.box)
        if self._started.refused and self._tier is None:
            self.warn(tiers.weaker(self._started.tier, self._started.refused))

    async def box(self) -> B:
        """A box without a script, ready for one."""
        if self._started is None:
            raise SandboxError(f"the {self.name} sandbox is not open; use it as `async with sandbox:`")
        while self._spare:
            if (box := self._spare.pop()).alive:
                return box
        box = await self._started.another()
        self._keep(box)
        return box

    async def holder(self) -> Holder:
        """What a script is loaded in."""
        return await self.box()

    def _keep(self, box: B) -> None:
        self._boxes = {kept for kept in self._boxes if not kept.closed} | {box}

    async def load(self, script: Script, limits: Limits) -> Program:
        refuse_language(self.name, self.language, script)
        program = BoxedProgram(self, script, limits)
        self._programs = [kept for kept in self._programs if not kept.closed] + [program]
        try:
            await program.load()
        except BaseException:
            await program.close()
            raise
        return program

    def request(self, call: Call, limits: Limits) -> bytes | Execution:
        """What the box is told of a call, or the call's execution where it cannot be told."""
        return protocol.call_request(call, limits)

    def told(self, raw: Raw, limits: Limits, entrypoint: str, loading: bool = False) -> Execution:
        """The execution, as it may be shown."""
        return protocol.execution(raw, limits, entrypoint, loading=loading, deaths=tiers.DEATHS_HERE)

    async def close(self) -> None:
        await finish(self._close)

    async def _close(self) -> None:
        self._started, self._spare = None, []
        try:
            await every(program.close for program in self._programs)
        finally:
            await every(box.close for box in self._boxes)
        self._programs, self._boxes = [], set()
