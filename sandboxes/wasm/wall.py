"""
The kernel's wall around a worker: what is left to code that gets out of WebAssembly.

A worker puts it up itself, once it has imported and opened all that it needs: `enclose` before it starts threads, as
namespaces and Landlock hold for what is started later, and `shut` after that. See docs/decisions/0076.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, Literal

Tier = Literal["A", "B"]

PROTECTS: dict[Tier, str] = {
    "A": "around each worker: namespaces (an empty root, no network), Landlock where it is; seccomp, resource limits",
    "B": "around each worker: Landlock where it is; seccomp, resource limits",
}
NOTHING = "nothing of the kernel's around a worker: WebAssembly alone"

_LINUX = sys.platform.startswith("linux")
_KILL = 5  # a capability
_LIMITS = ("CORE", "MEMLOCK", "MSGQUEUE")


class Wall:
    """The wall around this process, in steps."""

    def __init__(self) -> None:
        """Import what it takes, and make the filter, while the worker waits to be told what to open."""
        self._parts: list[str] = []
        self._refused: dict[Tier, str] = {}
        self._wanted: Tier | None = None
        if not _LINUX:
            self._refused = {"A": "it needs Linux", "B": "it needs Linux"}
            return
        from sandboxes.boxes import seccomp  # what is imported here only works on Linux
        from sandboxes.guest.machine import namespaces as namespaces
        from sandboxes.wasm import restore as restore

        self._filter = seccomp.worker_program(os.uname().machine, os.getpid())

    def enclose(self, tier: Tier | None) -> None:
        """
        Take the files, the network and the rights from this process, which must have one thread.

        `tier`: the one to put up. None: the strongest that works here.
        """
        self._wanted = tier
        if not _LINUX:
            return
        from sandboxes.guest.box import confine
        from sandboxes.guest.machine import host_facts, namespaces
        from sandboxes.wasm.restore import keep_page_map

        keep_page_map()
        uid = host_facts.spare_uid() if host_facts.may(_KILL) else None  # who may not kill others must remain the same
        if tier != "B":
            try:
                namespaces.empty_root()
                self._parts.append("namespaces")
            except OSError as e:
                self._refused["A"] = _words(e)
        try:
            confine.no_new_privs()
            if abi := confine.landlock_all():
                self._parts.append(f"Landlock {abi}")
            if uid is not None:
                confine.give_up_uid(uid, uid)
            confine.drop_capabilities()
        except OSError as e:
            self._refused["B"] = _words(e)
        for name in _LIMITS:
            with contextlib.suppress(OSError, ValueError):  # gVisor knows some of them not
                confine.set_limits({name: 0})

    def shut(self) -> dict[str, Any]:
        """
        Leave all threads of this process the system calls that a worker needs. What stands now, for the manifest.

        Raises OSError if that is not the tier that was wanted.
        """
        if "B" not in self._refused:
            from sandboxes.guest.box import confine

            try:
                if self._filter is None:
                    raise OSError(f"no system calls of {os.uname().machine} are known")
                confine.seccomp_of_threads(self._filter)
                self._parts.append("seccomp")
            except OSError as e:
                self._refused["B"] = _words(e)
        tier: Tier | None = None if "B" in self._refused else "A" if "namespaces" in self._parts else "B"
        if self._wanted not in (None, tier):
            raise OSError(f"no tier {self._wanted} around it: {'; '.join(self._refused.values())}")
        return {"tier": tier, "protects": protects(self._parts), "not_available": self._refused}


def protects(parts: list[str]) -> str:
    return f"around each worker: {', '.join(parts)}" if parts else NOTHING


def _words(error: OSError) -> str:
    return error.strerror or str(error)


def main(requests: int, replies: int) -> None:
    """Put it up around this process, and tell what stands."""
    wall = Wall()
    wall.enclose(None)
    os.write(replies, json.dumps(wall.shut()).encode())
    os._exit(0)
