"""
Remove a run's containers once the run is no more: a process of its own, started as a program with this file.

A run that is killed between making a container and starting it leaves one that hears nothing and would stay for ever.
It reads lines on standard input, `+name` before a container is asked for and `-name` when it has ended, until the run
has closed it or is gone. Arguments: `socket` and a path, or `command` and the words before the container's name.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time

LATE, PATIENCE = 30.0, 90.0
"""Seconds in which a container may still appear; in which an engine may refuse."""
PAUSE, LONGEST = 0.2, 8.0
"""Seconds between two attempts, which grow."""


def remove(way: str, words: list[str], name: str) -> None:
    """Remove a container, if there is one."""
    if way == "command":
        subprocess.run([*words, name], capture_output=True, timeout=30)
        return
    with socket.socket(socket.AF_UNIX) as engine:
        engine.settimeout(30)
        engine.connect(words[0])
        engine.sendall(f"DELETE /containers/{name}?force=1&v=1 HTTP/1.0\r\nHost: engine\r\n\r\n".encode())
        engine.recv(4096)


def main(way: str, *words: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a terminal's are for the run, which ends its containers itself
    names = []
    for line in sys.stdin:
        sign, name = line[:1], line[1:].strip()
        if sign == "+":
            names.append(name)
        elif name in names:
            names.remove(name)
    since, pause = time.monotonic(), PAUSE
    while names and time.monotonic() < since + PATIENCE:
        for name in list(names):
            try:
                # Once is not enough: one that an engine was making meanwhile is there a moment later.
                remove(way, list(words), name)
                if time.monotonic() > since + LATE:
                    names.remove(name)
            except (OSError, subprocess.SubprocessError):
                continue
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)


if __name__ == "__main__":
    main(*sys.argv[1:])
