"""
Find out whether this machine, or its container, has run out of memory or of processes.

The kernel then ends an innocent process, or refuses to start one, and nothing that the process reports is the script's
fault. It counts both for the control group of the processes.

Also sent to providers' machines, where it must import little.
"""

from __future__ import annotations

import errno
import functools
import os

MEMORY = (
    "the machine, or its container, ran out of memory and ended a process of the sandbox; "
    "lower the memory limit or the number of jobs, or give it more memory"
)
PROCESSES = (
    "the machine, or its container, has no room for another process; "
    "stop some, raise its limit of processes (pids.max, ulimit -u), or use fewer jobs"
)
_NULL = "/dev/null"
NULL_DEVICE = (
    "/dev/null cannot be opened on this machine, and no process starts without it; "
    "as root, run: rm -f /dev/null; mknod -m 666 /dev/null c 1 3"
)
DESCRIPTORS = "too many files are open; raise the limit of open files (ulimit -n), or use fewer jobs"

_NUMBERS = {
    errno.EAGAIN: PROCESSES,
    errno.ENOMEM: MEMORY,
    errno.EMFILE: DESCRIPTORS,
    errno.ENFILE: DESCRIPTORS,
}


class Shortage:
    """The kernel's counts since they were last read."""

    def __init__(self) -> None:
        self._seen = _read_counts()

    def since(self, killed: bool) -> str:
        """
        Return why something that has just ended or failed may not be a script's fault, with the next step; or nothing.

        `killed`: SIGKILL ended it, which the kernel uses when it runs out of memory. A count that has grown since the
        last time may be due to another box, so that a script may be doubted once too often, but never too rarely: when
        it is tried again and ends in the same way, the counts have not grown.
        """
        before, self._seen = self._seen, _read_counts()
        memory, processes = (self._seen[place] > before[place] for place in range(2))
        return MEMORY if memory and killed else PROCESSES if processes else ""


def why(error: Exception) -> str:
    """Return what ran short, or is missing, when a call failed with this error, or nothing."""
    if isinstance(error, OSError):
        if error.filename == _NULL:
            return NULL_DEVICE
        return _NUMBERS.get(error.errno or 0, "")
    return PROCESSES if isinstance(error, RuntimeError) and "start new thread" in str(error) else ""


def why_said(line: str) -> str:
    """Return what ran short, or is missing, by the last line that a program printed."""
    if _NULL in line:
        return NULL_DEVICE
    return next((words for number, words in _NUMBERS.items() if os.strerror(number) in line), "")


def first_to_go(pid: int) -> None:
    """
    Let the kernel end this process, and what it starts, before any other when memory runs out.

    Otherwise it would often end the one that manages the run.
    """
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # it has ended, or the kernel lacks this


def _read_counts() -> tuple[int, int]:
    """How many processes were ended for lack of memory, and how many refused."""
    memory, processes = _count_files()
    return sum(_count(*each) for each in memory), sum(_count(*each) for each in processes)


@functools.cache
def _count_files() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Files of this process's own control group, each with the name of its count."""
    memory: list[tuple[str, str]] = []
    processes: list[tuple[str, str]] = []
    for folder, top in control_groups():
        # The second is for older systems, where each kind of resource has its own groups.
        memory += [(f"{folder}/memory.events", "oom_kill"), (f"{folder}/memory.oom_control", "oom_kill")]
        while True:  # a limit of a group above is counted in one or the other group, depending on the kernel
            processes.append((f"{folder}/pids.events", "max"))
            if folder == top:
                break
            folder = os.path.dirname(folder)
    memory = [each for each in memory if _count(*each) >= 0]
    return memory or [("/proc/vmstat", "oom_kill")], [each for each in processes if _count(*each) >= 0]


def control_groups() -> list[tuple[str, str]]:
    """Return the folders of this process's control groups, each with the topmost that can be seen."""
    own: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for line in _lines("/proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        own |= dict.fromkeys(kinds.split(","), path)
    for line in _lines("/proc/self/mountinfo"):
        place, _, kind = line.partition(" - ")
        if kind.startswith("cgroup"):
            root, top = place.split()[3:5]
            names = [""] if kind.startswith("cgroup2 ") else kind.split()[-1].split(",")
            found += [(_below(top, root, own[name]), top) for name in names if name in own]
    return list(dict.fromkeys(found))


def _below(top: str, root: str, path: str) -> str:
    """Where `path` lies when `root` is mounted at `top`; `top` if it is not below."""
    root = root.rstrip("/")
    inside = path == root or path.startswith(root + "/")
    return (top + path[len(root) :]).rstrip("/") if inside and ".." not in path else top


def _count(path: str, name: str) -> int:
    """A line of a file of counts; -1 if there is none."""
    words = (line.split() for line in _lines(path))
    return next((int(each[1]) for each in words if each[0] == name), -1)


def _lines(path: str) -> list[str]:
    try:
        fd = os.open(path, os.O_RDONLY)  # read often, and twice as fast as with a file object
    except OSError:
        return []
    try:
        got = b""
        while piece := os.read(fd, 1 << 16):
            got += piece
        return os.fsdecode(got).splitlines()
    except OSError:
        return []
    finally:
        os.close(fd)
