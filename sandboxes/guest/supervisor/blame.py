"""
Whose doing an end is, where several calls share a process.

Also sent to machines of others.
"""

from __future__ import annotations

import json
import os


def was_killed(status: object) -> bool:
    """Whether a process was ended by SIGKILL, by the status that is told of it, which may be a script's invention."""
    if type(status) is not int or not 0 <= status < 1 << 16:
        return False
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9


def is_well(how: str, payload: bytes) -> bool:
    """Whether this says that a script has loaded: what is said of it and what follows from it must be the same."""
    try:
        reply = json.loads(payload) if how == "reply" else None
    except (ValueError, RecursionError):
        return False
    return isinstance(reply, dict) and reply.get("status") == "ok"


def is_error(payload: bytes) -> bool:
    """Whether a reply says that the script raised."""
    return payload.startswith(b'{"status":"error"')


def is_doubtful(how: str, payload: bytes) -> bool:
    """
    Whether this may be the doing of calls before it in the same process: they may hold the memory, or have left what
    prints, writes or kills. Time may be theirs too, but is not worth being spent twice.
    """
    return how not in ("reply", "timeout") or (how == "reply" and payload.startswith(b'{"status":"memory"'))
