"""Become Deno, with the rights given up; this closes the control channel."""

from __future__ import annotations

import os

from .. import wire
from ..box import confine

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any


def serve(channel: socket, boot: dict[str, Any]) -> None:
    """Replace this process by Deno. Raises if nothing was started."""
    message, _, fds = wire.receive(channel)
    os.dup2(fds[0], 1)
    os.dup2(fds[0], 2)
    confine.set_limits({"DATA": message["memory"]})
    if boot.get("mute"):
        confine.no_processes()
    os.execve(boot["program"], message["arguments"], message["variables"])
