"""The memory that the worker and everything below it hold."""

from __future__ import annotations

import os

from sandboxes.guest.supervisor import procfs


def held(limit: int) -> int:
    """
    Bytes of their own, files that are mapped for reading not counted; 0 where the system does not tell.

    Pages that processes share are counted once, if counting them twice would exceed `limit`.
    """
    own = os.getpid()
    return procfs.memory([own, *procfs.descendants(own)], limit)
