"""
Whose doing an end is, where several calls share a process.

Also sent to machines of others.
"""

from __future__ import annotations


def is_doubtful(how: str, payload: bytes) -> bool:
    """
    Whether this may be the doing of calls before it in the same process: they may hold the memory, or have left what
    prints, writes or kills. Time may be theirs too, but is not worth being spent twice.
    """
    return how not in ("reply", "timeout") or (how == "reply" and payload.startswith(b'{"status":"memory"'))
