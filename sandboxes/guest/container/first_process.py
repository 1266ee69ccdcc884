"""
The first process of a container: runs one command after the other for the host, on its standard input and output.

It is sent as text, to any Python from 3.7 on. The container ends with it: when the host closes its input, has not been
heard for the seconds that it named, or asks for it. Nothing that a command started is left when another one begins.

The host sends a line of JSON, and as many bytes as it names in `size`: `{"life": seconds}`, a command, or `{"more":
true}` with more input for a command that stays: one that does not end with its answer, but says on a descriptor of its
own that it is complete. Back come frames: a letter, a length, a payload: h what the container is, o and e a command's
output and errors, x its exit code, or that it stays, or that what more was sent for is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import select
import signal
import stat
import struct
import sys
import time

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PIECE = 65536
_DUMPABLE = 4
_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock")


def status() -> dict[str, str]:
    """Read the lines of this process's status, as the kernel tells them; fewer where it is another kernel."""
    try:
        with open("/proc/self/status") as lines:
            return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}
    except OSError:
        return {}


def interfaces() -> list[str] | None:
    """Network devices that are up, other than the loopback; None if nothing tells."""
    try:
        with open("/proc/net/dev") as lines:
            names = [line.partition(":")[0].strip() for line in lines if ":" in line]
    except OSError:
        return None
    return [name for name in names if name != "lo" and is_up(name)]


def is_up(name: str) -> bool:
    """Say whether a device is up. Some kernels give every network a few devices, which are down."""
    try:
        with open(f"/sys/class/net/{name}/flags") as file:
            return bool(int(file.read(), 16) & 1)
    except (OSError, ValueError):
        return True


def writable() -> list[str]:
    """Return the folders of the image in which this process can make a file."""
    found = []
    for folder in ("/", "/etc", "/usr", "/usr/bin", "/root", "/var", "/home", "/opt"):
        path = os.path.join(folder, f".evalcell-{os.urandom(8).hex()}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except OSError as error:
            if not (error.errno == 30 or os.geteuid()):  # read-only, which root too must be told
                found.append(folder)
        else:
            os.unlink(path)
            found.append(folder)
    return found


def read_only() -> bool | None:
    """Say whether the root is mounted read-only; None if nothing tells."""
    try:
        return bool(os.statvfs("/").f_flag & os.ST_RDONLY)
    except OSError:
        return None


def users() -> bool | None:
    """Say whether this process is in a user namespace, in which its root is another user of the machine."""
    try:
        with open("/proc/self/uid_map") as lines:
            return [line.split() for line in lines] != [["0", "0", "4294967295"]]
    except OSError:
        return None


def is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def facts(folder: str) -> dict[str, Any]:
    """Tell what keeps this container apart, as far as can be seen from inside."""
    told = status()
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "machine": os.uname()[4],
        "system": "{0} {2}".format(*os.uname())[:90],
        "libc": platform.libc_ver()[0],
        "uid": os.geteuid(),
        "groups": [group for group in os.getgroups() if group != os.getegid()],
        "capabilities": [told[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb") if name in told],
        "no_new_privs": told.get("NoNewPrivs"),
        "seccomp": told.get("Seccomp"),
        "interfaces": interfaces(),
        "read_only": read_only(),
        "writable": writable(),
        "users": users(),
        "first": os.getpid() == 1,
        "sockets": [path for path in _SOCKETS if is_socket(path)],
        "packages": os.path.isdir(folder),
    }


class Link:
    """The host, on standard input and output."""

    def __init__(self) -> None:
        self.held = bytearray()

    def more(self) -> None:
        piece = os.read(0, _PIECE)
        if not piece:
            os._exit(0)  # the host is gone, and everything here with it
        self.held += piece

    def line(self) -> dict[str, Any]:
        while b"\n" not in self.held:
            self.more()
        text, _, rest = bytes(self.held).partition(b"\n")
        self.held = bytearray(rest)
        found: dict[str, Any] = json.loads(text.decode())
        return found

    def take(self, size: int) -> bytes:
        while len(self.held) < size:
            self.more()
        data = bytes(self.held[:size])
        del self.held[:size]
        return data

    def say(self, kind: str, payload: bytes) -> None:
        data = memoryview(struct.pack(">BI", ord(kind), len(payload)) + payload)
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            os._exit(0)

    def serve(self, asked: dict[str, Any]) -> None:
        """Do what may be asked at any time."""
        if "life" in asked:
            signal.alarm(int(asked["life"]))
        if asked.get("end"):
            os._exit(0)


class Running:
    """A command, a child with a session of its own, and the pipes to it."""

    def __init__(self, asked: dict[str, Any]) -> None:
        pipes = [os.pipe() for _ in range(4 if asked.get("stays") else 3)]
        self.pid = os.fork()
        if self.pid == 0:
            begin(asked, [ends[number > 0] for number, ends in enumerate(pipes)])
        for number, ends in enumerate(pipes):
            os.close(ends[number > 0])
        self.given, self.output, self.errors = pipes[0][1], pipes[1][0], pipes[2][0]
        self.done = pipes[3][0] if len(pipes) > 3 else -1
        self.open = [self.given, *(ends[0] for ends in pipes[1:])]
        for fd in self.open:
            os.set_blocking(fd, False)

    def close(self, *fds: int) -> None:
        for fd in fds or tuple(self.open):
            self.open.remove(fd)
            os.close(fd)

    def end(self) -> None:
        """End it, if it stays, and every other process of the container."""
        end_others(self.pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        reap(0)
        self.close()


def begin(asked: dict[str, Any], fds: list[int]) -> NoReturn:
    """Become the command."""
    try:
        os.setsid()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
            os.set_inheritable(number, True)
        os.closerange(len(fds), 256)
        os.chdir("/")
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(asked["argv"][0], asked["argv"], dict(os.environ, **asked["env"]))
    except BaseException as error:
        os.write(2, ("{}: {}\n".format(asked["argv"][0], error)).encode())
    finally:
        os._exit(127)


def reap(pid: int) -> int | None:
    """Reap all that have ended; return the status of the child, if it is among them."""
    found = None
    while True:
        try:
            ended, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not ended:
            return found
        if ended == pid:
            found = how


def run(link: Link, running: Running, seconds: float, data: bytes, woken: int) -> dict[str, Any]:
    """
    Give a command its input, and run it to its end, or to the end of its answer if it stays; what the host is told.

    The code is 128 + n for signal n, None if it took too long.
    """
    rest = memoryview(data)
    ports = select.poll()
    names = {running.output: "o", running.errors: "e"}
    for fd in (*names, woken, 0, *([running.done] if running.done >= 0 else [])):
        ports.register(fd, select.POLLIN)
    ports.register(running.given, select.POLLOUT)
    until, how, late = time.monotonic() + seconds, None, False
    while how is None:
        left = until - time.monotonic()
        if left <= 0 and not late:
            late = True
            end_others(running.pid)
        for fd, _ in ports.poll(1000 * max(0.01, min(left, 60.0)) if not late else 100):
            if fd == 0:
                link.serve(link.line())
            elif fd == woken:
                os.read(woken, 4096)
            elif fd == running.done:
                if os.read(fd, 1) and not late:
                    for stream, kind in names.items():
                        drain(link, kind, stream)
                    return {"code": 0, "stays": True}
                ports.unregister(fd)
            elif fd == running.given:
                try:
                    rest = rest[os.write(fd, rest[:_PIECE]) :]
                except BlockingIOError:
                    pass
                except OSError:
                    rest = rest[:0]
                if not rest:
                    ports.unregister(fd)
                    if running.done < 0:
                        running.close(fd)
            elif forward(link, names[fd], fd) == 0:
                ports.unregister(fd)
        how = reap(running.pid)
    end_others(running.pid)
    for fd, kind in names.items():
        drain(link, kind, fd)
    running.close()
    code = os.WEXITSTATUS(how) if os.WIFEXITED(how) else 128 + os.WTERMSIG(how)
    return {"code": None if late else code}


def drain(link: Link, kind: str, fd: int) -> None:
    while (forward(link, kind, fd) or 0) > 0:
        pass


def forward(link: Link, kind: str, fd: int) -> int | None:
    """Pass on what there is; return the number of bytes: 0 at the end, None if there is nothing yet."""
    try:
        piece = os.read(fd, _PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return 0
    if piece:
        link.say(kind, piece)
    return len(piece)


def end_others(pid: int) -> None:
    """End every other process of the container, or else the command's own."""
    for target in (-1,) if os.getpid() == 1 else (-pid,):
        with contextlib.suppress(OSError):
            os.kill(target, signal.SIGKILL)


def main(folder: str) -> NoReturn:
    # No process of the same user may look in: what passes here is no script's business.
    ctypes.CDLL(None).prctl(_DUMPABLE, *(ctypes.c_ulong(0),) * 4)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(0))
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    woken, wakes = os.pipe()
    for fd in (woken, wakes):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wakes)
    link = Link()
    link.serve(link.line())  # the seconds that it may live
    link.say("h", json.dumps(facts(folder)).encode())
    running: Running | None = None
    while True:
        asked = link.line()
        if "size" not in asked:
            link.serve(asked)
            continue
        data = link.take(asked["size"])
        if running is not None and ("more" not in asked or reap(running.pid) is not None):
            running.end()
            running = None
        if running is None and "more" in asked:
            link.say("x", b'{"gone": true}')
            continue
        running = running or Running(asked)
        told = run(link, running, asked["timeout"], data, woken)
        if not told.get("stays"):
            running = None
        link.say("x", json.dumps(told).encode())


if __name__ == "__main__":
    main(sys.argv[1])
