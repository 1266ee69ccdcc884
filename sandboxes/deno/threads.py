"""
The threads of a Deno process, as who watches it sees them.

Also sent to machines of others.
"""

from __future__ import annotations

import os

_PROC = "/proc"
_WORKER = "worker-"  # and a number that grows: how Deno names the thread of a Worker
_MOST = 1000


def quiet(pid: int) -> bool:
    """
    Whether nothing computes in it but its main thread and its newest Worker, and no older Worker is there.

    True where that cannot be told.
    """
    workers: list[tuple[int, str]] = []
    for number, task in enumerate(_tasks(pid)):
        if task == str(pid):
            continue
        try:
            with open(f"{_PROC}/{pid}/task/{task}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        state = rest.split()[0]
        if name.startswith(_WORKER) and name.removeprefix(_WORKER).isdecimal():
            workers.append((int(name.removeprefix(_WORKER)), state))
        elif state in "RD" or number > _MOST:
            return False
    return len(workers) <= 1


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"{_PROC}/{pid}/task")
    except OSError:
        return []
