"""
The guardian of a cluster of this machine: it ends the cluster's processes when the program that started it is gone.

`guardian.py FOLDER` is a program whose standard input ends with the one that it watches. Ray's own agents would stay
for over a minute.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

MARK = "RAY_FOLDER_OF_EVALCELL"
"""The variable that all processes of the cluster have, with its folder."""
_MOST = 10.0  # seconds


class Guardian:
    """A process that outlives this one. On Linux alone, as it needs /proc."""

    def __init__(self, folder: str) -> None:
        """Start it. Raises OSError."""
        self._life, life = socket.socketpair()
        with life:
            self._process = subprocess.Popen(
                (sys.executable, "-I", "-S", __file__, folder),
                stdin=life.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def end(self) -> None:
        """Let it end what is left of the cluster, and return when that is gone."""
        with self._life, contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_RDWR)  # closing has no effect while a child that was forked holds it
        try:
            self._process.wait(2 * _MOST)
        except subprocess.TimeoutExpired:  # a process that the kernel cannot end
            self._process.kill()
            self._process.wait()


def main(folder: str) -> None:
    """Wait for the end of standard input; then end the cluster, and delete its folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    mark, until = f"{MARK}={folder}".encode(), time.monotonic() + _MOST
    while (left := _marked(mark)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def _marked(mark: bytes) -> list[int]:
    """The processes that have the mark and are no zombies, which have no variables."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and mark in open(f"/proc/{name}/environ", "rb").read().split(b"\0"):  # noqa: SIM115
                found.append(int(name))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
