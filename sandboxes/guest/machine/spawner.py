"""
The process that starts boxes. It is forked before the agent has read a row or its mark, and never learns of them.

    agent -> spawner -> a waiting process -> guardian -> the process that holds the script -> one for each run
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import struct
import sys
import time

from .. import wire
from ..box import confine, init
from ..supervisor import procfs
from ..supervisor.clock import now
from . import namespaces

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    import _socket
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from .types import RuntimeNeeds

    Wanted = tuple[list[str], list[int], Sequence[str] | None, bool, bool, RuntimeNeeds]

_PID = struct.Struct("<i")
_MOST = 10.0  # seconds


class AgentError(Exception):
    """The agent cannot go on; the text is for a person."""


class Spawner:
    """The agent's side of the spawner."""

    def __init__(
        self,
        places: list[str],
        tmp: list[int],
        network: Sequence[str] | None,
        runtime: RuntimeNeeds,
        own: Sequence[int] = (),
    ) -> None:
        """`own`: descriptors of the agent alone."""
        self._ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            for fd in own:
                os.close(fd)
            _serve(theirs, places, tmp, network, runtime)
        theirs.close()

    @property
    def fd(self) -> int:
        return self._ours.fileno()

    def spawn(self, channel: socket.socket, life: socket.socket, bare: bool) -> int:
        """Begin a box; its outermost process. Both sockets belong to the box, and are closed here."""
        with channel, life:
            try:
                socket.send_fds(self._ours, [b"b" if bare else b"w"], [channel.fileno(), life.fileno()])
                told = self._ours.recv(_PID.size, socket.MSG_WAITALL)
            except OSError:
                told = b""
        if len(told) < _PID.size:
            raise AgentError("the process that starts boxes has ended")
        pid: int = _PID.unpack(told)[0]
        if pid < 0:
            raise AgentError("the machine has no room for another process")
        return pid

    def end_boxes(self, seconds: float) -> None:
        """Wait so long until no process of a box is left, then end them from outside."""
        until = now() + seconds
        while left := procfs.descendants(self.pid):
            over = now() - until
            if over > _MOST:
                raise AgentError("the machine does not end processes as requested")
            for pid in left if over > 0 else ():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    def end(self) -> None:
        """End everything that was started."""
        with contextlib.suppress(AgentError):
            self.end_boxes(0)
        self._ours.close()
        os.waitpid(self.pid, 0)


def _serve(
    asked: socket.socket, places: list[str], tmp: list[int], network: Sequence[str] | None, runtime: RuntimeNeeds
) -> None:
    """Serve the agent; never returns."""
    try:
        adopts = _adopts()
        _quiet()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            got, fds, _, _ = socket.recv_fds(asked, 1, 2)
            if not got:
                return
            try:
                pid = os.fork()
            except OSError:
                pid = -1
            if pid == 0:
                asked.close()
                control, life = fds
                _box(control, life, runtime, (places, tmp, network, got == b"b", adopts, runtime))
            for fd in fds:
                os.close(fd)
            asked.sendall(_PID.pack(pid))
    finally:
        os._exit(0)


def _adopts() -> bool:
    """Whether orphans become this process's children, so that processes of a broken box are found below it."""
    try:
        confine.subreaper()
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False  # a kernel that knows no such thing, such as gVisor's before July 2023
    return True


def _quiet() -> None:
    """
    Close everything that the agent reads or writes, so that processes started from here cannot use it.

    The streams are made again, on pipes as a script's will be: they check once whether they are files.
    """
    null = os.open("/dev/null", os.O_RDWR)
    read, write = os.pipe()
    os.dup2(null, 0)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(write, fd)
        stream = open(fd, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  (for good)
        stream.buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        os.dup2(null, fd)
    for fd in (null, read, write):
        os.close(fd)


def _box(control: int, life: int, runtime: RuntimeNeeds, wanted: Wanted) -> NoReturn:
    """Start a box; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = socket.socket(fileno=control)
    try:
        put_up = namespaces.put_up(*wanted)
        # The watcher must look in to see which memory is shared. Where a script could do so too, nobody may.
        confine.closed_to_others(not {"mounts", "landlock"} & set(put_up["words"]))
        wire.send(channel, put_up)
        pid = os.fork()
        if pid == 0:
            _guard(control, life, runtime)
        confine.closed_to_others()
        channel.close()
        os.close(life)
        os.waitpid(pid, 0)
    except BaseException as error:
        wire.send(channel, {"failed": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _guard(control: int, life: int, runtime: RuntimeNeeds) -> NoReturn:
    """Run the guardian; never returns."""
    try:
        init.main(control, life, lambda channel, boot: _hold(channel, boot, runtime))
    except BaseException as error:
        wire.send(socket.socket(fileno=control), {"failed": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(1)


def _hold(channel: _socket.socket, boot: dict[str, Any], runtime: RuntimeNeeds) -> None:
    """Serve a script once the rights are given up. `serve` itself adds the last of the folders."""
    if runtime.folders[:-1]:
        import site

        for folder in runtime.folders[:-1]:
            site.addsitedir(init.moved_path(folder, boot["moved"]))
    runtime.serve(channel, boot)
