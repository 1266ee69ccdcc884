"""What a node of a cluster can do, looked at by a task there."""

from __future__ import annotations

import os
import platform
import socket
from importlib.metadata import version
from typing import Any

from sandboxes.cores import cores
from sandboxes.errors import SandboxError
from sandboxes.registry import backends, find


def node_facts() -> dict[str, Any]:
    """Versions, processors, room in /dev/shm, and of each sandbox whether it works and how; data alone."""
    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "evalcell": version("evalcell"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": cores(),
        "shm": None,
        "works": {},
        "fails": {},
    }
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
