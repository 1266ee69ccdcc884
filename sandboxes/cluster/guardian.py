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
"""The variable that all processes of the cluster have, with its folder; who began meanwhile has it, too."""
_RAYLET = b"RAY_RAYLET_PID="
"""Ray's own variable, which all have that its raylet starts, and what those start."""
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
    until = time.monotonic() + _MOST
    while (left := _cluster(folder)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def _cluster(folder: str) -> list[int]:
    """
    The processes of the cluster that are no zombies, which have no variables.

    Besides the mark they have the folder in their command, or the number of a raylet that has it, or is dead.
    """
    mark, name = f"{MARK}={folder}".encode(), os.path.basename(folder).encode()
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        variables = _read(pid, "environ").split(b"\0")
        if mark not in variables:
            continue
        raylets = [one.removeprefix(_RAYLET).decode(errors="replace") for one in variables if one.startswith(_RAYLET)]
        commands = [_read(raylet, "cmdline") for raylet in raylets if raylet.isdecimal()]
        if name in _read(pid, "cmdline") or any(name in command or not command for command in commands):
            found.append(int(pid))
    return found


def _read(pid: str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    main(sys.argv[1])
