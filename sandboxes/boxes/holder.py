"""What can hold a script: a box, or several that are used as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence

from sandboxes.base import Limits, Script
from sandboxes.boxes.box import Box
from sandboxes.guest.supervisor.driver import Bounds, Told


class Holder(ABC):
    """What can hold a script: a box, or several that are used as one."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it can be used."""

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    left: frozenset[str] = frozenset()
    """What loading leaves that runs would share, so that each loads the script anew; by the words of `tiers.LEFT`."""

    @abstractmethod
    async def load(self, script: Script, limits: Limits) -> Told:
        """How loading went. It is of no more use where that was not well. Raises SandboxLostError."""

    @abstractmethod
    def run(self, payloads: Sequence[bytes], bounds: Bounds, shared: bool) -> AsyncGenerator[Told]:
        """
        What became of each request, in their order, as soon as it is known; `shared`: with one state, while it lives.

        Ends early when it is no longer `alive`; the rest is for another one. What is told as `lost` is so for a reason
        that is not the script's. Raises SandboxLostError.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends every process of it; safe twice."""


class LoadingBox(Box, Holder):
    """A box that can hold a script."""
