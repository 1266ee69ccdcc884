"""Becomes Deno, with the doors closed behind it; the control channel closes with that."""

from __future__ import annotations

import os

from .. import wire
from ..box import confine

TYPE_CHECKING = False  # as typing's, whose import takes long
if TYPE_CHECKING:
    import socket
    from typing import Any


def serve(channel: socket.socket, boot: dict[str, Any]) -> None:
    """Returns never, but for an exception: then nothing was started."""
    message, _, fds = wire.receive(channel)
    os.dup2(fds[0], 1)
    os.dup2(fds[0], 2)
    confine.set_limits({"DATA": message["memory"]})
    os.execve(boot["program"], message["arguments"], message["variables"])
