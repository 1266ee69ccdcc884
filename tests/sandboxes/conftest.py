"""Looking at what is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def child_processes() -> Callable[[], list[str]]:
    """Command lines of this process's children that were not there when the test began."""
    if not Path("/proc/self").exists():
        pytest.skip("there is no /proc")
    before = _children()
    return lambda: [line for pid, line in _children().items() if pid not in before]


def _children() -> dict[int, str]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                found[int(stat.parent.name)] = (stat.parent / "cmdline").read_text().replace("\0", " ")
        except (OSError, ValueError):
            continue  # it ended while we looked
    return found
