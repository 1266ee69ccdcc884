"""What attacks on the process sandbox have at hand, and how what they leave is found."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from sandboxes.boxes import syscalls
from tests.sandboxes.hostile.scripts import boxed_shell

NUMBERS = {"x86_64": syscalls.X86_64, "aarch64": syscalls.AARCH64}
TOOLS = Path(__file__).with_name("tools.txt")


def tools(name: str) -> str:
    """The text of `tools.txt`: `name` is what all processes that run it are called."""
    numbers = NUMBERS.get(platform.machine(), {})
    return f"NUMBERS = {numbers!r}\nNAMED = {name!r}\n{TOOLS.read_text('utf-8')}"


def boxed(name: str) -> str:
    """The shell of attacks, for the process sandbox."""
    return boxed_shell(tools(name))


def named(name: str) -> list[int]:
    """The processes of this name on the whole machine: children keep the name of their parents."""
    found = []
    for entry in os.listdir("/proc") if name else ():
        try:
            process = Path("/proc", str(int(entry)))
            if (process / "comm").read_text().strip() == name and not _ended(process):
                found.append(int(entry))
        except (OSError, ValueError):
            continue  # no process, or it ended while we looked
    return found


def _ended(process: Path) -> bool:
    """Whether it only waits to be seen by its parent: all its threads do."""
    stats = (process / "task" / task / "stat" for task in os.listdir(process / "task"))
    return all(stat.read_text().rpartition(")")[2].split()[0] in "ZX" for stat in stats)
