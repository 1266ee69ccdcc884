"""A sandbox whose scripts run in boxes: the tier that works here, a stock of boxes, and programs in them."""

from __future__ import annotations

import asyncio
import platform
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from sandboxes import protocol
from sandboxes.base import Call, Execution, Limits, Program, Sandbox, SandboxConfig, Script
from sandboxes.boxes import landlock, tiers
from sandboxes.boxes.holder import Holder, LoadingBox
from sandboxes.boxes.launch import PROTECTS, BoxSetup, Tier
from sandboxes.boxes.program import BoxedProgram
from sandboxes.boxes.tiers import ActiveTier, Make, start
from sandboxes.errors import SandboxError, SandboxUnavailableError
from sandboxes.guest.supervisor import shortage
from sandboxes.host import event_loop
from sandboxes.host.cores import cores
from sandboxes.host.shield import every, finish
from sandboxes.judges.host_doors import WrittenHosts, written_hosts
from sandboxes.protocol import Raw
from sandboxes.refusals import refuse_language
from sandboxes.words.hints import place_of

if TYPE_CHECKING:
    import ssl

B = TypeVar("B", bound=LoadingBox)
_BOXES = 8
"""At least, for scripts whose own clients wait for judges, where a box does one run at a time."""


class TierConfig(SandboxConfig):
    """Settings of sandboxes with boxes only."""

    tier: Tier | None = None
    """None: the strongest that works here."""


class BoxedSandbox(Sandbox, Generic[B]):
    """The base of sandboxes with boxes; see docs/threat-model.md for what each tier protects."""

    has_seats: ClassVar[bool] = False
    """Whether a box can do several runs beside each other."""

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        if config.judges is not None and config.isolation is None:
            self.isolation = "call"  # a row that waits holds up no others, and what it asks is known to be its own
        self._tier = config.tier if isinstance(config, TierConfig) else None
        self._beside = bool(config.judges and config.judges.beside) and self.isolation == "call" and self.has_seats
        self._active: ActiveTier[B] | None = None
        self._spare: list[B] = []
        self._written = WrittenHosts()
        self._boxes: set[B] = set()
        self._programs: list[BoxedProgram] = []

    @property
    def boxes(self) -> int:
        config = self.config
        if config.jobs is None and config.judges is not None and config.judges.beside and not self.seats:
            return max(cores(), min(_BOXES, config.judges.in_flight))  # most of them wait
        return config.jobs or (1 if self.seats else cores())

    @property
    def seats(self) -> int:
        judges = self.config.judges
        able = self._active is None or (self._active.tier != "C" and landlock.has_scopes())
        return judges.in_flight if judges is not None and self._beside and able else 0

    @property
    def concurrency(self) -> int:
        return self.seats or self.boxes

    @property
    def queue(self) -> int:
        return 1

    @property
    def batch(self) -> int:
        return 512  # a fresh state costs as much as twenty calls or more

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = {"sandbox": self.identity, "platform": platform.platform()}
        if self._active:
            tier = self._active.tier
            found |= {"tier": tier, "protects": PROTECTS[tier], "not_available": self._active.refused}
            if tier == "B":
                found |= {"landlock": landlock.abi(), "by_the_filter": landlock.by_the_filter()}
        return found | {"isolation": self.isolation}

    @classmethod
    @abstractmethod
    def _bare(cls) -> Make[B]:
        """A maker of boxes in which a script would see no files, packages or variables of the user."""

    @abstractmethod
    async def _make(self) -> Make[B]:
        """A maker of boxes with what the config asks for; packages are installed first."""

    @classmethod
    def check(cls) -> str:
        """Try the tiers, strongest first."""
        tiers.refuse_platform(cls.name, weak=False)

        async def body() -> ActiveTier[B]:
            started = await start(cls.name, cls._bare(), None, weak=True)
            await started.box.close()
            return started

        with ThreadPoolExecutor(1) as aside:  # this thread may already run an event loop
            found = aside.submit(lambda: event_loop.run(body())).result()
        if found.tier == "C":
            raise SandboxUnavailableError(tiers.no_tier_message(cls.name, found.refused, None))
        refused = [f"tier {tier}: {why}" for tier, why in found.refused.items()]
        means = landlock.describe() if found.tier == "B" else PROTECTS[found.tier].partition(":")[0]
        return "; not available: ".join([f"tier {found.tier} is active ({means})", *refused])

    async def open(self) -> None:
        weak = self.config.allow_weak_isolation
        tiers.refuse_platform(self.name, weak)
        try:
            self._active = await start(self.name, await self._make(), self._tier, weak=weak)
        except (OSError, RuntimeError) as e:
            if why := shortage.why(e):
                raise SandboxUnavailableError(f"the {self.name} sandbox cannot start: {why}") from e
            raise
        self._keep(self._active.box)
        self._spare.append(self._active.box)
        if self._active.refused and self._tier is None:
            self.warn(tiers.weak_tier_warning(self._active.tier, self._active.refused))

    async def box(self) -> B:
        """Return a box without a script, ready for one."""
        if self._active is None:
            raise SandboxError(f"the {self.name} sandbox is not open; use it as `async with sandbox:`")
        while self._spare:
            if (box := self._spare.pop()).alive:
                return await self._with_door(box)
        box = await self._active.new_box()
        self._keep(box)
        return await self._with_door(box)

    async def _with_door(self, box: B) -> B:
        if box.listeners and (broker := self.broker) is not None:
            hosts: list[tuple[str, ssl.SSLContext | None]] = [(host, None) for host in broker.judges.ports().values()]
            await box.open_door(broker, [*hosts, *self._written.hosts()])
        return box

    async def with_ports(self, setup: BoxSetup) -> BoxSetup:
        """Return the setup with the hosts of the judges that the config grants, if it grants any."""
        if (judges := self.config.judges) is None:
            return setup
        if judges.door:
            self._written = await asyncio.to_thread(written_hosts, judges)
        variables = setup.variables | judges.box_variables()
        return replace(setup, ports=tuple(judges.ports()), written=self._written, variables=variables)

    async def holder(self) -> Holder:
        """Return what a script is loaded in."""
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
        """Return the request for a call, or the call's execution if it cannot be sent."""
        return protocol.call_request(call, limits)

    def execution(self, raw: Raw, limits: Limits, entrypoint: str, loading: bool = False) -> Execution:
        """Return the execution, ready for the user."""
        place = place_of(self.language, self.config.network, self.config.env)
        return protocol.execution(raw, limits, entrypoint, loading=loading, deaths=tiers.DEATHS_HERE, place=place)

    async def close(self) -> None:
        await finish(self._close)

    async def _close(self) -> None:
        self._active, self._spare = None, []
        try:
            await every(program.close for program in self._programs)
        finally:
            await every(box.close for box in self._boxes)
        self._programs, self._boxes = [], set()
