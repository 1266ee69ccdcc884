"""
The first process of a test machine: starts programs, signals them, opens files. It needs the standard library alone.

Asked over the socket whose number is its argument: one packet a request, with a descriptor that holds the request as
JSON and those that it is about. It answers in packets of JSON. When the socket ends it ends, and all others with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

_DESCRIPTORS = 8
_NEW_NET, _NEW_USER = 0x40000000, 0x10000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1

Answer = tuple[dict[str, Any], list[int]]


class Agent:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._started: set[int] = set()
        self._waiting: set[int] = set()
        self._asked: dict[str, Callable[[dict[str, Any], list[int]], Answer]] = {
            "start": self._start,
            "kill": self._kill,
            "open": _open,
            "mkdir": _mkdir,
            "count": _count,
            "signal": _signal,
        }

    def serve(self) -> None:
        """Returns when nobody can ask any more."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the first process of a namespace never gets
        heard, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._link.fileno(), heard], [], [])
            if heard in ready:
                os.read(heard, 4096)
            self._reap()
            if self._link.fileno() in ready and not self._request():
                return

    def _request(self) -> bool:
        try:
            packet, given, _, _ = socket.recv_fds(self._link, 64, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:  # who asked left without waiting for the answer
            return False
        if not packet:
            return False
        try:
            with os.fdopen(given[0], "rb") as body:
                asked = json.load(body)
            try:
                answer, passed = self._asked[asked["do"]](asked, given[1:])
            except OSError as e:
                answer, passed = {"errno": e.errno, "path": e.filename}, []
            self._tell({"n": asked["n"], **answer}, passed)
        finally:
            for descriptor in given[1:]:
                os.close(descriptor)
        return True

    def _tell(self, message: dict[str, Any], passed: list[int]) -> None:
        socket.send_fds(self._link, [json.dumps(message).encode()], passed)
        for descriptor in passed:
            os.close(descriptor)

    def _reap(self) -> None:
        """Of all that ended, also what its parent left behind; tells of those that were started here."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._waiting:
                self._waiting.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                self._tell({"ended": pid, "code": code if code >= 0 else 128 - code}, [])

    def _start(self, asked: dict[str, Any], given: list[int]) -> Answer:
        failed, tell = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if not pid:
            _become(asked, given, tell)
        os.close(tell)
        with os.fdopen(failed, "rb") as pipe:
            said = pipe.read()
        if said:
            os.waitpid(pid, 0)
            return json.loads(said), []
        self._started.add(pid)
        self._waiting.add(pid)
        return {"pid": pid}, []

    def _kill(self, asked: dict[str, Any], given: list[int]) -> Answer:
        pid: int = asked["pid"]
        if pid not in (self._started if asked["group"] else self._waiting):
            raise ProcessLookupError(3, "no such process")
        (os.killpg if asked["group"] else os.kill)(pid, asked["number"])
        return {}, []


def _become(asked: dict[str, Any], given: list[int], tell: int) -> NoReturn:
    """The program asked for, in this process; or the reason to `tell`."""
    about: str | None = None
    try:
        os.setsid()
        for handled in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(handled, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        if not asked["network"]:
            _without_network()
        uid = asked["uid"]
        for number, descriptor in enumerate(given):
            if uid is not None and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.fchown(descriptor, uid, uid)  # else the program could not open its own /dev/stdout
            os.dup2(descriptor, number)
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        os.umask(0o022)
        about = asked["cwd"]
        os.chdir(asked["cwd"])
        about = asked["argv"][0]
        os.execvpe(asked["argv"][0], asked["argv"], asked["env"])
    except OSError as e:
        os.write(tell, json.dumps({"errno": e.errno, "path": about}).encode())
    finally:
        os._exit(127)


def _without_network() -> None:
    uid, gid = os.getuid(), os.getgid()
    _unshare(_NEW_NET if not uid else _NEW_NET | _NEW_USER)
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        flags = bytearray(fcntl.ioctl(some, _GET_FLAGS, struct.pack("16sH22x", b"lo", 0)))
        struct.pack_into("H", flags, 16, struct.unpack_from("H", flags, 16)[0] | _UP)
        fcntl.ioctl(some, _SET_FLAGS, bytes(flags))


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")


def _open(asked: dict[str, Any], given: list[int]) -> Answer:
    """A descriptor of the file: the machine's own view of its links and mounts decides what that is."""
    path, write, uid = asked["path"], asked["write"], asked["uid"]
    if not write:
        if os.path.isdir(path):
            raise IsADirectoryError(21, "a folder", path)
        return {}, [os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)]
    _folders(os.path.dirname(path) or "/", uid)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    if uid is not None:
        os.fchown(opened, uid, uid)
    return {}, [opened]


def _mkdir(asked: dict[str, Any], given: list[int]) -> Answer:
    _folders(asked["path"], asked["uid"])
    return {}, []


def _folders(path: str, uid: int | None) -> None:
    missing: list[str] = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder)
        if uid is not None:
            os.chown(folder, uid, uid)


def _count(asked: dict[str, Any], given: list[int]) -> Answer:
    """Processes besides this one; those that ended and wait for their parent are none."""
    alive = 0
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                alive += file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return {"count": alive}, []


def _signal(asked: dict[str, Any], given: list[int]) -> Answer:
    """Signals all processes but this one, which the kernel spares."""
    if os.getpid() != 1:
        raise PermissionError(1, "this is no machine: all processes of the host would be signalled")
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, asked["number"])
    return {}, []


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as link:
        link.set_inheritable(False)
        Agent(link).serve()
    os._exit(0)  # at once: as the first process it takes all others with it
