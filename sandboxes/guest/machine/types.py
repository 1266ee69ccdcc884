"""Types shared by several modules of the agent; not sent to machines, where nothing needs them."""

from __future__ import annotations

from _socket import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Boot = Callable[[dict[str, Any]], tuple[dict[str, Any], bytes]]
"""Makes the first message to a box and its seccomp filter from the walls that could be put up."""


class RuntimeNeeds(Protocol):
    """What boxes for one language need."""

    processes: int
    descriptors: int
    readable: list[str]

    @property
    def folders(self) -> Sequence[str]:
        """Folders of packages; whoever starts a box adds all but the last."""

    @property
    def program(self) -> str | None: ...

    @property
    def pipes(self) -> str | None: ...

    @staticmethod
    def serve(channel: socket, boot: dict[str, Any], /) -> None:
        """Do what a box does once its rights are given up."""
