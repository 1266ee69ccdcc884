"""What a node of a cluster can do, looked at by a task there."""

from __future__ import annotations

import os

from sandboxes.cluster.facts import Facts, facts
from sandboxes.errors import SandboxError
from sandboxes.registry import backends, find


def node_facts() -> Facts:
    """Versions, room in /dev/shm, and of each sandbox whether it works and how; data alone."""
    found: Facts = {**facts(), "shm": None, "works": {}, "fails": {}}
    if hasattr(os, "statvfs") and os.path.isdir("/dev/shm"):
        room = os.statvfs("/dev/shm")
        found["shm"] = room.f_bavail * room.f_frsize
    for backend in backends().values():
        if not backend.elsewhere and not backend.hidden:
            try:
                found["works"][backend.name] = find(backend.name).check()
            except SandboxError as e:
                found["fails"][backend.name] = str(e)
    return found
