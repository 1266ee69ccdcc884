"""Read /proc: a process and all below it, their memory and their threads."""

from __future__ import annotations

import contextlib
import os

from .clock import now

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from typing import Any

_PROC = "/proc"
_OWN = ("RssAnon", "RssShmem", "VmSwap", "VmPTE", "HugetlbPages")
_PATIENCE = 0.5  # seconds

_WORKER = "worker-"  # and a number that grows: how Deno names the thread of a Worker
_MANY = 1000  # threads

MOST = 1024
"""Most processes looked at."""


def descendants(pid: int) -> list[int]:
    """Return the processes below `pid`, nearest first; at most `MOST`."""
    found: list[int] = []
    level = children(pid)
    while level and len(found) < MOST:
        found += level
        level = [below for each in level for below in children(each)]
    return found[:MOST]


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in _tasks(pid):
            found += [int(word) for word in _text(f"{task}/children").split()]
    except FileNotFoundError:
        return found if not os.path.exists(f"{_PROC}/{pid}/task") else _by_parent(pid)
    except (OSError, ValueError):
        return found
    return found


def _by_parent(pid: int) -> list[int]:
    """The processes below `pid`, for kernels that do not list children: every process is asked for its parent."""
    found = []
    for other in _everybody():
        try:
            parent = int(_text(f"{_PROC}/{other}/stat").rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == pid:
            found.append(other)
    return found


def memory(pids: list[int], limit: int) -> int:
    """
    Return the bytes of memory of their own that the processes hold together, without files mapped for reading.

    Pages that a fork shares are counted once if it matters, which is when counting them twice exceeds `limit`. If a
    script makes this take too long, the result exceeds the limit.
    """
    own = {pid: sum(fields(pid, _OWN)) for pid in pids}
    together = most = sum(own.values())
    if together <= limit or len(pids) < 2:
        return together
    until = now() + _PATIENCE
    for pid in reversed(pids):  # a fork's share is mostly enough to know
        most += min(0, _proportional(pid) - own[pid])
        if most <= limit or now() > until:
            break
    return most if most <= limit else together


def processor_time(pid: int) -> float:
    """Return the seconds of the processor that a process and all below it have used, with those that have ended."""
    ticks = 0
    for each in (pid, *descendants(pid)):
        with contextlib.suppress(OSError, ValueError):
            ticks += sum(map(int, _text(f"{_PROC}/{each}/stat").rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def threads(pid: int) -> int:
    """Return the number of threads; 1 if the kernel does not tell."""
    try:
        return len(_tasks(pid))
    except OSError:
        return 1


def shared_mappings(pid: int) -> list[str]:
    """Return its mappings that forks share; read-only ones too, which can be made writable again."""
    try:
        lines = [line.split(None, 5) for line in _text(f"{_PROC}/{pid}/maps").splitlines()]
    except OSError:
        return []
    return sorted(" ".join(line[2:]) for line in lines if line[1][3:] == "s")


def descriptors(pid: int) -> dict[int, str]:
    """
    Return its open descriptors and what they lead to, but for handles on processes; empty if the kernel does not tell.
    """
    found = {}
    folder = f"{_PROC}/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                found[int(name)] = os.readlink(f"{folder}/{name}")
    return {number: place for number, place in found.items() if "pidfd" not in place}


def inner_pid(pid: int) -> int:
    """Return a process's number in its own namespace; 0 if it has ended."""
    try:
        line = next(line for line in _text(f"{_PROC}/{pid}/status").splitlines() if line.startswith("NSpid:"))
        return int(line.split()[-1])
    except (OSError, ValueError, StopIteration):
        return 0


def connections(network: int) -> dict[str, tuple[int, tuple[str, int]]]:
    """
    Return the connections of a network that begin at its 127.0.0.1, by what their descriptors lead to.

    Each as its port there, and the address and port of its other end. `network`: a process of the network.
    """
    try:
        lines = _text(f"{_PROC}/{network}/net/tcp").splitlines()[1:]
    except OSError:
        return {}
    found = {}
    for words in map(str.split, lines):
        (begin, port), (to, at) = words[1].split(":"), words[2].split(":")
        if begin == "0100007F":
            address = ".".join(map(str, bytes.fromhex(to)[::-1]))
            found[f"socket:[{words[9]}]"] = int(port, 16), (address, int(at, 16))
    return found


def content(pid: int, folder: str | None) -> tuple[Any, ...]:
    """Return what is in a private folder of it, also removed files that are held, as far as the kernel tells."""
    if folder is None:
        return ()
    path = f"{_PROC}/{pid}/root{folder}"
    try:
        about, room = os.stat(path), os.statvfs(path)
        return (room.f_bfree, room.f_ffree, about.st_mode, about.st_nlink, about.st_mtime_ns, *os.listxattr(path))
    except OSError:
        return ()


def mapped_ids(kind: str) -> list[range]:
    """Return the numbers of users (`uid`) or groups (`gid`) that are valid in this process's user namespace."""
    try:
        rows = [[int(word) for word in line.split()] for line in _text(f"{_PROC}/self/{kind}_map").splitlines()]
    except OSError:
        return [range(1 << 32)]
    return [range(first, first + count) for first, _, count in rows]


def threads_of(uid: int) -> int:
    """Return the number of threads of this user."""
    found = 0
    for pid in _everybody():
        try:
            if os.stat(f"{_PROC}/{pid}").st_uid == uid:
                found += len(_tasks(pid))
        except OSError:
            continue
    return found


def field(pid: int, name: str) -> int:
    """Return a line of the process's status, in bytes; 0 if it has ended."""
    return fields(pid, (name,))[0]


def fields(pid: int, names: tuple[str, ...]) -> list[int]:
    """Return some lines of a process's status, in bytes; zeros if it has ended."""
    found = _status(f"{_PROC}/{pid}")
    if found is not None and "VmSize" not in found:  # its first thread has ended, and others go on
        with contextlib.suppress(OSError):
            found = next((s for task in _tasks(pid) if (s := _status(task)) and "VmSize" in s), None)
    return [(found or {}).get(name, 0) for name in names]


def deno_is_quiet(pid: int) -> bool:
    """
    Say whether only the main thread and the newest Worker of a Deno process compute, and no older Worker is there.

    True if that cannot be found out.
    """
    workers: list[tuple[int, str]] = []
    try:
        tasks = _tasks(pid)
    except OSError:
        return True
    for number, task in enumerate(tasks):
        if task.endswith(f"/{pid}"):
            continue
        try:
            name, _, rest = _text(f"{task}/stat").partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        state = rest.split()[0]
        if name.startswith(_WORKER) and name.removeprefix(_WORKER).isdecimal():
            workers.append((int(name.removeprefix(_WORKER)), state))
        elif state in "RD" or number > _MANY:
            return False
    return len(workers) <= 1


class Scale:
    """Measures the memory of the process that holds a script and of all below it, also on kernels that tell less."""

    def __init__(self, inner: int) -> None:
        self._inner = inner
        self._name = "RssAnon" if field(inner, "RssAnon") else "VmRSS"  # gVisor knows the latter alone
        self._exact = self._name == "RssAnon" and _can_read(f"{_PROC}/{inner}/smaps_rollup")

    def processes(self) -> list[int]:
        return [self._inner, *descendants(self._inner)]

    def bytes(self, processes: list[int], limit: int) -> int:
        """
        Return the bytes that they hold together.

        If the kernel does not tell which pages they share, each counts with what it holds beyond the first.
        """
        if self._exact:
            return memory(processes, limit)
        first, *others = (field(pid, self._name) for pid in processes)
        return first + sum(max(0, held - first) for held in others)

    def start(self) -> list[int]:
        """Return the bytes that a fork of the first process has reserved, and those that it holds."""
        return fields(self._inner, ("VmData", self._name))

    @property
    def works(self) -> bool:
        return field(self._inner, self._name) > 0


def _can_read(path: str) -> bool:
    try:
        with open(path):
            return True
    except OSError:
        return False


def _status(folder: str) -> dict[str, int] | None:
    try:
        lines = (line.partition(":") for line in _text(f"{folder}/status").splitlines())
        return {name: int(rest.split()[0]) * 1024 for name, _, rest in lines if rest.endswith("kB")}
    except (OSError, ValueError):
        return None


def _proportional(pid: int) -> int:
    """Bytes as `_OWN` counts them, but each page divided by the number of its users."""
    try:
        lines = _text(f"{_PROC}/{pid}/smaps_rollup").splitlines()[1:]
        shares = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        own = shares["Pss_Anon"] + shares.get("Pss_Shmem", 0) + shares.get("SwapPss", 0)
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError):  # the kernel does not show it, or not for a process without first thread
        return sum(fields(pid, _OWN))
    return own * 1024 + field(pid, "VmPTE")


def _tasks(pid: int) -> list[str]:
    folder = f"{_PROC}/{pid}/task"
    return [f"{folder}/{name}" for name in os.listdir(folder)]


def _everybody() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except FileNotFoundError:
        return []


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()
