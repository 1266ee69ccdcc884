"""What stands around workers, as the host is told."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.supervisor.shortage import why
from sandboxes.host.own_python import module_command

_TRIED = 60.0  # seconds


def read_wall(payload: bytes) -> dict[str, Any]:
    """Read what `shut` returned, as a worker sends it before it takes a script. Raises EOFError if it is not that."""
    try:
        wall = json.loads(payload)
        return {name: wall[name] for name in ("tier", "protects", "not_available")}
    except (ValueError, KeyError, TypeError) as e:
        raise EOFError("it does not say what confines it") from e


def wall_words(wall: dict[str, Any]) -> str:
    """Say in one line the tier, what stands, and why there is no stronger one."""
    tier = f"tier {wall['tier']}, " if wall["tier"] else ""
    refused = "; ".join(f"tier {tier}: {words}" for tier, words in wall["not_available"].items())
    return f"{tier}{wall['protects']}" + (f" (not available: {refused})" if refused else "")


def wall_here() -> dict[str, Any]:
    """Try what stands around a worker on this machine, in a process. Raises SandboxUnavailableError."""
    try:
        tried = subprocess.run(
            module_command("sandboxes.wasm.wall"), stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIED
        )
        return read_wall(tried.stdout)
    except (OSError, EOFError, subprocess.TimeoutExpired) as e:
        raise SandboxUnavailableError(f"no process of the wasm sandbox can be started: {why(e) or e}") from e
