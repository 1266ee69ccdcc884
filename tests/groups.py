"""A group of processes with limits of its own, which stands for a container: `limited`, the folders to enter it by."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

MEMORY = 450
"""MB that the group may have, unless a test says otherwise."""


@contextmanager
def limited(memory: int = MEMORY, processes: int | None = None) -> Iterator[list[str]]:
    """
    The group's folders, one for memory and one for processes, or one for both: a process enters by `cgroup.procs`.

    Where it cannot be made is known by trying; then the test is skipped.
    """
    name = f"evalcell-test-{os.getpid()}"
    top = Path("/sys/fs/cgroup")
    apart = [top / "memory" / name, top / "pids" / name]  # of older systems: each kind of resource has its own
    folders = apart if (top / "memory").is_dir() else [top / name]
    limit = "memory.limit_in_bytes" if folders == apart else "memory.max"
    with ExitStack() as made:
        try:
            for folder in folders:
                folder.mkdir()
                made.callback(folder.rmdir)
            (folders[0] / limit).write_text(str(memory << 20))
            for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
                if (folders[0] / swap).exists():
                    (folders[0] / swap).write_text("0" if "max" in swap else str(memory << 20))
            (folders[-1] / "pids.max").write_text("max" if processes is None else str(processes))
        except OSError as e:
            pytest.skip(f"no group of processes with limits can be made here ({e})")
        yield [str(folder) for folder in folders]
