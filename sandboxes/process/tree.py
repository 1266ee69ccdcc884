"""A process and all below it, as the host sees them: who they are and what memory they hold."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")

MOST = 1024
"""Processes looked at; a tree with more is over any limit."""


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, nearest first; at most `MOST`."""
    found: list[int] = []
    level = children(pid)
    while level and len(found) < MOST:
        found += level
        level = [below for each in level for below in children(each)]
    return found[:MOST]


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in (_PROC / str(pid) / "task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    except FileNotFoundError:
        return found if not _PROC.joinpath(str(pid), "task").exists() else _by_parent(pid)
    except (OSError, ValueError):
        return found
    return found


def _by_parent(pid: int) -> list[int]:
    """For kernels that do not list children: everybody is asked for the parent."""
    found = []
    for entry in _PROC.glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid:
            found.append(int(entry.name))
    return found


def memory(pids: list[int], limit: int) -> int:
    """
    Bytes of memory of their own that the processes hold together; files mapped for reading are not counted.

    Pages that a fork shares are counted once where it matters, that is where counting them twice is over `limit`.
    """
    held = [field(pid, "RssAnon") + field(pid, "RssShmem") for pid in pids]
    together = sum(held)
    if together <= limit or len(pids) < 2:
        return together
    exact = [_proportional(pid) for pid in pids]
    if None not in exact:
        return sum(share for share in exact if share is not None)
    # They cannot be told apart from outside: what every fork may share with the smallest is taken off.
    alive = [each for each in held if each]
    return together - (len(alive) - 1) * min(alive)


def threads_of(uid: int) -> int:
    """How many threads of this user there are."""
    found = 0
    for entry in _PROC.glob("[0-9]*"):
        try:
            if entry.stat().st_uid == uid:
                found += len(list((entry / "task").iterdir()))
        except OSError:
            continue
    return found


def field(pid: int, name: str) -> int:
    """A line of the process's status, in bytes; 0 when it has ended."""
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except (OSError, ValueError):
        return 0
    for line in status.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _proportional(pid: int) -> int | None:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return None
    shares = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:] if line.endswith("kB")}
    if "Pss_Anon" not in shares:
        return None
    return (shares["Pss_Anon"] + shares.get("Pss_Shmem", 0)) * 1024
