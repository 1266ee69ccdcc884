"""The threads of a Deno process, as the host sees them."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
_WORKER = "worker-"  # and a number that grows: how Deno names the thread of a Worker
_MOST = 1000


def quiet(pid: int) -> bool:
    """
    Whether nothing computes in it but its main thread and its newest Worker, and no older Worker is there.

    True where that cannot be told.
    """
    workers: list[tuple[int, str]] = []
    for number, path in enumerate((_PROC / str(pid) / "task").glob("*")):
        if path.name == str(pid):
            continue
        try:
            name, _, rest = (path / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        state = rest.split()[0]
        if name.startswith(_WORKER) and name.removeprefix(_WORKER).isdecimal():
            workers.append((int(name.removeprefix(_WORKER)), state))
        elif state in "RD" or number > _MOST:
            return False
    return len(workers) <= 1
