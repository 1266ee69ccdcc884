"""The first process of a box: it gives up rights, starts the process that runs scripts, and ends all processes."""

from __future__ import annotations

import os
import select
import signal
import sys
from _socket import SCM_RIGHTS, SOL_SOCKET, socket

from .. import wire
from . import confine, reap

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Boot = dict[str, Any]
    """The first message to a box."""
    Serve = Callable[[socket, Boot], None]
    """What the inner process does once the rights are given up."""

INNER_ENDED, INNER_KILLED = 70, 71
"""
Exit statuses: the process that holds the script has ended; it was killed.

Only the script can have caused that, or a kernel without memory.
"""

_KEPT = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LD_BIND_NOW", "JOBLIB_MULTIPROCESSING")
"""Variables that libraries read, but that scripts need not see."""


def main(control: int, life: int, serve: Serve, host: int | None = None) -> NoReturn:
    """
    Run the box; never returns. `control` is a socket to the host, `life` one that the host shuts to end the box.

    The kernel shuts it too when the host has ended, unless a child forked from the host holds the other end; so `host`
    is a handle on the host's process. The inner process calls `serve` with the channel and the boot message.
    """
    channel = socket(fileno=control)
    if host is not None and control not in _ready(None, control, host):
        os._exit(0)
    boot, parts, _ = wire.receive(channel)
    _empty_environment()
    os.chdir("/")
    if boot.get("listen"):
        _listen(boot["listen"], life, boot["own_network"])
    children = _give_up_rights(boot)
    _move(boot["moved"])
    guardian = os.getpid()
    child = os.fork()
    if child == 0:
        for fd in (life, host, children):
            if fd is not None:
                os.close(fd)
        _inner(channel, boot, parts[0], guardian, serve)
    channel.close()
    if sys.platform.startswith("linux"):
        confine.closed_to_others()
    _watch(life, host, child, boot["confined"], children)


def _inner(channel: socket, boot: Boot, program: bytes, guardian: int, serve: Serve) -> NoReturn:
    """Run the inner process; never returns."""
    try:
        status = 0
        _harden(boot, program, guardian, channel.fileno())
        wire.send(channel, {"hello": os.getpid()})
        serve(channel, boot)
    except EOFError:
        pass  # the host is gone
    except BaseException as error:
        status = 1
        said = f"{type(error).__name__}: {error}"
        try:
            wire.send(channel, {"failed": said})
        except OSError:  # the host reads what is printed, too
            os.write(2, said.encode())
    finally:
        os._exit(status)


def _harden(boot: Boot, program: bytes, guardian: int, control: int) -> None:
    """Give up rights. Fails rather than leave something open that the host believes closed."""
    if sys.platform.startswith("linux"):
        if boot["adopts"]:
            confine.subreaper()
        if boot["scope"]:
            confine.landlock_scope(boot["network"], sorted({port for _, port in boot.get("listen", ())}))
        if boot.get("rows"):
            # Beyond the limit of open files, so that no script puts another one in their place.
            above, count = boot["rows"]
            network, least = boot["network"] or "listen" in boot, boot["limits"]["NOFILE"]
            if least <= control < least + count:  # which has its number from the host, who may have many open
                least = control + 1
            boot["rules"] = [confine.rules_of_folder(f"{above}/{row}", network, least + row) for row in range(count)]
        if program:
            confine.seccomp(program)
        if boot.get("mute"):
            confine.own_signals(os.getpid() if boot["program"] else None)
    confine.set_limits(boot["limits"])
    if (boot["confined"] or boot.get("mute")) and guardian != 1:
        try:
            os.kill(guardian, 0)
        except PermissionError:
            return  # kill(-1) stays within the box, or is refused
        raise RuntimeError("processes outside of the box can be signalled from inside")


def _empty_environment() -> None:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    os.environ.clear()
    for name, value in kept.items():
        os.putenv(name, value)  # for C's getenv alone


def _listen(places: list[tuple[str, int]], life: int, own: bool) -> None:
    """Open ports on this box's own loopback, and hand them to the host; no process of the box keeps one."""
    if own:
        confine.own_network()
    listeners, packed = [], b""
    for address, port in places:
        listener = socket()
        listener.bind((address, port))
        listener.listen(256)
        listeners.append(listener)
        packed += listener.fileno().to_bytes(4, sys.byteorder)
    way = socket(fileno=life)
    way.sendmsg([b"l"], [(SOL_SOCKET, SCM_RIGHTS, packed)])
    way.detach()
    for listener in listeners:
        listener.close()


def _give_up_rights(boot: Boot) -> int | None:
    """
    Give up what all processes of the box do without.

    Where the box is `mute`, so that none that runs a script sends a signal, returns what `reap.open_children` opened:
    this process ends them one by one.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    if not sys.platform.startswith("linux"):
        return None
    if boot["tmp"]:
        confine.mount_tmp(*boot["tmp"])
        if boot.get("rows"):
            above, count = boot["rows"]
            confine.mount_memory(above, "size=4096,mode=0755", count + 1)
            for row in range(count):
                os.mkdir(f"{above}/{row}")
                confine.mount_tmp(f"{above}/{row}", *boot["tmp"][1:])
    confine.no_new_privs()
    if boot["users"] and confine.own_users():
        boot["limits"]["NPROC"], boot["forks"] = boot["users"], not boot.get("mute")
    children = reap.open_children() if boot.get("mute") else None
    if boot["view"] is not None:
        confine.landlock_view(**boot["view"])
    if boot["uid"] is not None:
        confine.give_up_uid(boot["uid"], boot["uid"])
    confine.drop_capabilities()
    if boot["adopts"]:
        confine.subreaper()
    return children


def _move(moved: dict[str, str]) -> None:
    """Let Python find modules where this uid may read them; the folders' own paths lead through closed ones."""
    if not moved:
        return
    sys.path[:] = [moved_path(path, moved) for path in sys.path]
    sys.path_importer_cache.clear()
    for module in list(sys.modules.values()):
        if isinstance(places := getattr(module, "__path__", None), list):
            places[:] = [moved_path(path, moved) for path in places]


def moved_path(path: str, moved: dict[str, str]) -> str:
    for folder, place in moved.items():
        if path == folder or path.startswith(folder + "/"):
            return place + path[len(folder) :]
    return path


def _watch(life: int, host: int | None, child: int, confined: bool, children: int | None) -> NoReturn:
    """Wait until the host lets go or has ended, or the inner process ends; then end everything in the box."""
    pidfd = reap.open_pidfd(child)
    status = None
    while status is None:
        ready = _ready(1000 if pidfd is not None else 20, life, host, pidfd)
        status = _reap().get(child)
        if ready & {life, host}:
            break
    reap.end_all(child, confined, children)
    if status is None:
        os._exit(0)
    os._exit(INNER_KILLED if os.waitstatus_to_exitcode(status) == -signal.SIGKILL else INNER_ENDED)


def _ready(longest: int | None, *fds: int | None) -> set[int]:
    """The descriptors that can be read; waits at most so many milliseconds for one."""
    waiting = select.poll()
    for fd in fds:
        if fd is not None:
            waiting.register(fd, select.POLLIN | select.POLLHUP)
    return {fd for fd, _ in waiting.poll(longest)}


def _reap() -> dict[int, int]:
    """The processes that have ended, with their status."""
    found: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found[pid] = status
