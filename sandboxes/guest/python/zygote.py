"""
The process that forks a child for each run, and cleans up after it. It holds the loaded script, or only packages.

It holds the script if loading leaves nothing that forks would share: see `leftovers`. Otherwise the host lets another
box import what the script imported, and no more, and each child loads the script again.

The host does not trust it, as scripts or packages run here. It only saves time: what it does not do in time, the host
does by ending the whole box.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import stat
import sys
import time
from _imp import acquire_lock as _acquire_lock
from _imp import release_lock as _release_lock
from io import TextIOWrapper

from .. import harness, wire
from ..box import confine, reap
from . import child, fork_pages, leftovers, no_programs, warm_clients

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterable
    from typing import Any, NoReturn

    Message = dict[str, Any]

harness.hidden_files.add(__file__)

_END = signal.SIGKILL
_LOOK = 3
"""Milliseconds between two looks for children that have ended, where several run."""
_TRIES, _PAUSE = 20, 0.05
"""Of forks, where there is no room, and seconds between two of them."""
_LOOKS = round(1000 * _TRIES * _PAUSE / _LOOK)
_MOST_ASKED = 12
"""Runs that may wait for room: each has three descriptors, and this process has few."""
_plain_fork, _after_fork = ctypes.PyDLL(None).fork, ctypes.pythonapi.PyOS_AfterFork_Child
_STOPS_THREADS = "free-threading" in sys.version  # before a fork, which nothing else may do


def serve(channel: socket, boot: Message) -> NoReturn:
    """Serve the host until it is gone, which raises EOFError."""
    function: harness.Function | None = None
    while True:
        message, parts, fds = wire.receive(channel)
        if message["do"] in ("load", "import"):
            function = _begin(channel, message, parts, fds, boot)
        elif message["do"] == "run":  # a `stop` that came too late is ignored
            (_seats if "seat" in message else _runs)(channel, function, message, fds, boot)


def _begin(
    channel: socket, message: Message, parts: list[bytes], fds: list[int], boot: Message
) -> harness.Function | None:
    """Load the script, or import modules; report the result, what is left, and what was imported."""
    _prepare(message, fds, boot)
    if message["do"] == "load":
        child.carry(parts[0].decode("utf-8", "surrogatepass"))  # what it sets is ours, and none of the script's
    before = leftovers.Snapshot(
        boot["tmp"] and boot["tmp"][0], (vars(child), vars(fork_pages), vars(warm_clients), globals())
    )
    function, loaded = (_load if message["do"] == "load" else _import)(parts[0].decode("utf-8", "surrogatepass"), boot)
    if boot.get("beside") is not None:
        warm_clients.warm(boot["listen"][0][1])
    child.flush()
    os.dup2(0, 1)  # /dev/null, as the host opened it
    os.dup2(0, 2)
    try:
        left = before.changes()
        modules = before.new_modules()
    except BaseException:  # a script can also break what was bound before it ran
        left, modules = ["patches"], []
    _end_all(0, boot)
    _wipe(boot["tmp"])
    if boot["tmp"] and before.holds_removed_files() and "descriptors" not in left:
        left.append("memory")
    parts = [loaded, "\n".join(modules).encode("utf-8", "replace")]
    wire.send(channel, {"loaded": len(loaded), "left": left}, parts)
    return function


def _prepare(message: Message, fds: list[int], boot: Message) -> None:
    os.dup2(fds[0], 1)
    os.dup2(fds[0], 2)
    os.close(fds[0])
    os.environ.update(_own_home(boot["tmp"]) | boot["variables"])
    confine.set_limits({"DATA": message["memory"]})
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, TextIOWrapper)
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    child.seed(message["seed"])
    no_programs.install()
    if boot["packages"]:
        import site

        site.addsitedir(boot["packages"])


def _own_home(tmp: list[Any] | None) -> dict[str, str]:
    """
    The variables of a user whose home is the private folder: many packages look for one when they are imported.

    Where there is no folder of the box's own, nothing can be kept, and home is where there is nothing.
    """
    home = tmp[0] if tmp else "/nonexistent"
    caches = {"CACHE": ".cache", "CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state"}
    below = {f"XDG_{kind}_HOME": f"{home}/{place}" for kind, place in caches.items()}
    return {"HOME": home, "USER": "evalcell", "LOGNAME": "evalcell"} | below


def _load(request: str, boot: Message) -> tuple[harness.Function | None, bytes]:
    function, loaded = child.load(request)
    if function is not None and boot["packages"] and sys.platform.startswith("linux"):
        fork_pages.collapse()
    return function, loaded


def _import(names: str, boot: Message) -> tuple[harness.Function | None, bytes]:
    """Import the modules as far as possible; a child that lacks one imports it itself."""
    for name in names.split("\n"):
        try:
            __import__(name)
        except BaseException:
            continue
    gc.collect()
    gc.freeze()
    if boot["packages"] and sys.platform.startswith("linux"):
        fork_pages.collapse()
    return None, child.reply(harness.reply_of(lambda: "null"))


def _runs(
    channel: socket, function: harness.Function | None, message: Message, pipes: list[int], boot: Message
) -> None:
    """
    Run a child of its own, and the runs that the host announces before it has ended.

    Such a run's child is forked while the one before ends, which takes as long, and gets its requests when nothing is
    left of that one.
    """
    pid = _start(channel, function, message, pipes, boot)
    _close(pipes)
    if pid is None:
        wire.send(channel, {"refused": True})
    while pid:
        status, announced = _wait(channel, pid, boot)
        ahead = None
        if announced:
            os.kill(-1, _END)
            ahead = _start(channel, function, *announced, boot)
            _close(announced[1])
            status = os.waitpid(pid, 0)[1]
            _reap()
        else:
            _end_all(pid, boot)
        _wipe(boot["tmp"])
        wire.send(channel, {"ended": status})
        pid = ahead
        if announced and pid is None:
            wire.send(channel, {"refused": True})


def _seats(
    channel: socket, function: harness.Function | None, message: Message, pipes: list[int], boot: Message
) -> None:
    """
    Run children beside each other, each in a seat of the host's, until there is none.

    They start no processes, and make files in a folder of their own alone (see `child.run`), which is then emptied.
    """
    seats: dict[int, int] = {}
    asked: list[tuple[Message, list[int], int]] = []
    waiting = select.poll()
    waiting.register(channel.fileno(), select.POLLIN | select.POLLHUP)
    while True:
        seat: int = message.get("seat", -1)
        if message["do"] == "run":
            asked = [(run, fds, 1 if len(asked) >= _MOST_ASKED else left) for run, fds, left in asked]
            asked.append((message, pipes, _LOOKS))
        elif message["do"] == "stop":
            for pid in (pid for pid, taken in seats.items() if taken == seat):
                os.kill(pid, _END)
            asked = [(run, fds, 1 if run["seat"] == seat else left) for run, fds, left in asked]
        heard = False
        while (seats or asked) and not heard:
            asked = _sit(channel, function, asked, seats, boot)
            heard = bool(waiting.poll(_LOOK))
            while seats and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in seats:
                    free = seats.pop(ended[0])
                    _wipe([f"{boot['rows'][0]}/{free}"] if boot["rows"] else None)
                    wire.send(channel, {"seat": free, "ended": ended[1]})
        if not seats and not asked:
            return
        message, _, pipes = wire.receive(channel)


def _sit(
    channel: socket,
    function: harness.Function | None,
    asked: list[tuple[Message, list[int], int]],
    seats: dict[int, int],
    boot: Message,
) -> list[tuple[Message, list[int], int]]:
    """
    Begin runs, or refuse those that were at their last try; return the others.

    Nothing is waited for: what fills the box must be stopped meanwhile.
    """
    left = []
    every = [fd for _, pipes, _ in asked for fd in pipes]
    for message, pipes, tries in asked:
        pid = _start(channel, function, message, pipes, boot, tries=1, others=set(every) - set(pipes))
        if pid is None and tries > 1:
            left.append((message, pipes, tries - 1))
            continue
        _close(pipes)
        every = [fd for fd in every if fd not in pipes]
        seat: int = message["seat"]
        if pid is None:  # nothing of it has to be ended
            wire.send(channel, {"seat": seat, "refused": True, "ended": 0})
        else:
            seats[pid] = seat
            wire.send(channel, {"seat": seat, "began": pid})
    return left


def _close(pipes: Iterable[int]) -> None:
    for fd in pipes:
        os.close(fd)


def _start(
    channel: socket,
    function: harness.Function | None,
    message: Message,
    pipes: list[int],
    boot: Message,
    tries: int = _TRIES,
    others: Iterable[int] = (),
) -> int | None:
    """The child of a run, or None if there is no room for one. `others` are the pipes of runs that are to begin."""
    pid = _fork(function is not None and not _STOPS_THREADS, tries)
    if pid == 0:
        _close(others)
        requests, results, output = pipes
        child.run(channel, function, message, requests, results, output, boot)
    return pid


def _fork(alone: bool, tries: int) -> int | None:
    """
    Fork; None if the machine has had no room for a process, or no memory for one, at so many tries.

    `alone`: a script has run here, and has left no thread. Then no hook of `os.register_at_fork` runs in this process:
    some call what a script can replace, such as the lock of `logging`.
    """
    for left in reversed(range(tries)):
        try:
            pid = _fork_alone() if alone else os.fork()
        except OSError:
            pid = -1
        if pid >= 0:
            return pid
        if left:
            time.sleep(_PAUSE)
    return None


def _fork_alone() -> int:
    """Fork without the hooks of the parent's side; -1 if that fails. Those of the child's side need the import lock."""
    _acquire_lock()
    pid: int = _plain_fork()
    if pid == 0:
        _after_fork()  # releases it
    else:
        _release_lock()
    return pid


def _wait(channel: socket, pid: int, boot: Message) -> tuple[int, None] | tuple[None, tuple[Message, list[int]]]:
    """Wait for the child's end, also by the host's `stop`; its status, or the run that was announced."""
    pidfd = reap.open_pidfd(pid)
    waiting = select.poll()
    for fd in (channel.fileno(), pidfd):
        if fd is not None:
            waiting.register(fd, select.POLLIN | select.POLLHUP)
    try:
        while True:
            ready = {fd for fd, _ in waiting.poll(None if pidfd is not None else 5)}
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return status, None
            if channel.fileno() not in ready:
                continue
            message, _, fds = wire.receive(channel)
            if message["do"] == "run":
                return None, (message, fds)
            if message["do"] == "stop":
                if not boot.get("mute"):  # otherwise the host ends it
                    os.kill(pid, _END)
                return os.waitpid(pid, 0)[1], None
            _reap()
            _wipe(boot["tmp"])
            wire.send(channel, {"reaped": True})
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _end_all(pid: int, boot: Message) -> None:
    """End what the child has left. Where no signal can be sent, none can start processes, but while it loads here."""
    if not boot.get("mute"):
        reap.end_all(pid, boot["confined"])
        return
    try:
        _reap()
    except ChildProcessError:
        return


def _reap() -> None:
    while os.waitpid(-1, os.WNOHANG)[0]:
        pass


def _wipe(tmp: list[Any] | None) -> None:
    """Empty the private folder, however deep and closed its content; raises OSError if that fails."""
    if not tmp:
        return
    root = tmp[0]
    os.chmod(root, 0o700)
    for name in os.listxattr(root):
        os.removexattr(root, name)
    while names := os.listdir(root):
        for name in names:
            path = f"{root}/{name}"
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
                continue
            os.chmod(path, 0o700)
            for inner in os.scandir(path):
                if inner.is_dir(follow_symlinks=False):  # up one level, so that paths stay short
                    os.rename(inner.path, f"{root}/{_name()}")
                else:
                    os.unlink(inner.path)
            os.rmdir(path)
    os.utime(root, (0, 0))


def _name() -> str:
    return os.getrandom(16).hex()  # os.urandom may be the script's by now
