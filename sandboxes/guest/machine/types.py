"""Types that several modules of the agent name; not sent to machines, where nothing asks for them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Boot = Callable[[dict[str, Any]], tuple[dict[str, Any], bytes]]
"""From the walls that could be put up to what a box is told first, and its filter of system calls."""


class Shown(Protocol):
    """What boxes for one language are shown."""

    processes: int
    descriptors: int
    shown: list[str]

    @property
    def folders(self) -> Sequence[str]:
        """Of packages; those but the last are added by whoever starts a box."""

    @property
    def program(self) -> str | None: ...

    @property
    def pipes(self) -> str | None: ...

    @staticmethod
    def serve(channel: socket.socket, boot: dict[str, Any], /) -> None:
        """What a box does once its doors are closed."""
