"""
Decide which call caused an end, if several calls share a process.

Also sent to providers' machines.
"""

from __future__ import annotations

import json
import os


def was_killed(status: object) -> bool:
    """Say whether a process was ended by SIGKILL, by a reported status, which a script may have made up."""
    if type(status) is not int or not 0 <= status < 1 << 16:
        return False
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9


def is_well(how: str, payload: bytes) -> bool:
    """Say whether this means that a script was loaded: what is reported and what is done about it must agree."""
    try:
        reply = json.loads(payload) if how == "reply" else None
    except (ValueError, RecursionError):
        return False
    return isinstance(reply, dict) and reply.get("status") == "ok"


def is_error(payload: bytes) -> bool:
    """Say whether a reply says that the script raised."""
    return payload.startswith(b'{"status":"error"')


def is_doubtful(how: str, payload: bytes) -> bool:
    """
    Say whether earlier calls in the same process may have caused this: they may hold the memory, or have left something
    that prints, writes or kills. They may have cost time too, but time is not worth spending twice.
    """
    return how not in ("reply", "timeout", "cpu") or (how == "reply" and payload.startswith(b'{"status":"memory"'))
