"""Whether a container is as closed as it was ordered: judged by what its first process sees, not by what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OWN_KERNEL = ("runsc", "kata", "io.containerd.runsc", "io.containerd.kata")
"""Runtimes whose containers have a kernel of their own, which need not filter system calls."""


def has_own_kernel(runtime: str) -> bool:
    """Say whether containers of the OCI runtime do not share the machine's kernel."""
    return runtime.rpartition("/")[2].startswith(_OWN_KERNEL)


def walls(facts: Mapping[str, Any], *, network: bool, runtime: str) -> tuple[list[str], list[str]]:
    """Return what protects here, and what is missing, in words."""
    sets = facts.get("capabilities")
    checks = (
        ("another user", bool(facts.get("uid")) and not facts.get("groups")),
        ("no capabilities", isinstance(sets, list) and bool(sets) and not any(int(one, 16) for one in sets)),
        ("no new privileges", facts.get("no_new_privs") == "1" or has_own_kernel(runtime)),
        ("a read-only root", facts.get("read_only") is True and facts.get("writable") == []),
        ("the engine's filter of system calls", facts.get("seccomp") == "2" or has_own_kernel(runtime)),
        ("processes of its own", facts.get("first") is True),
        ("no socket of an engine", facts.get("sockets") == []),
        *([] if network else [("no network", facts.get("interfaces") == [])]),
    )
    there = [words for words, holds in checks if holds]
    there += ["a user namespace"] if facts.get("users") is True else []
    there += ["a kernel of its own"] if has_own_kernel(runtime) else []
    return there, [words for words, holds in checks if not holds]
