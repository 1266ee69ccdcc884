"""Becomes Deno, with the doors closed behind it; the control channel closes with that."""

import os

from .. import wire
from ..box import confine


def serve(channel, boot):
    """Returns never, but for an exception: then nothing was started."""
    message, _, fds = wire.receive(channel)
    os.dup2(fds[0], 1)
    os.dup2(fds[0], 2)
    confine.set_limits({"DATA": message["memory"]})
    os.execve(boot["program"], message["arguments"], message["variables"])
