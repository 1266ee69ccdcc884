"""The memory that the worker and everything below it hold."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sandboxes.guest.supervisor import procfs


def held(limit: int) -> int:
    """
    Bytes of their own, files that are mapped for reading not counted; 0 where the system does not tell.

    What processes share is counted once if counting it more often would exceed `limit`, as that takes longer.
    """
    own = os.getpid()
    pids = [own, *procfs.descendants(own)]
    rough = procfs.memory(pids, 1 << 62)
    return rough if rough <= limit else min(rough, sum(map(_proportional, pids)) or rough)


def _proportional(pid: int) -> int:
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss:", "SwapPss:")))
    return 0
