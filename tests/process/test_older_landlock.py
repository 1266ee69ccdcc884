"""What an older Landlock cannot forbid is refused by the filter: each rule with the version held down."""

from __future__ import annotations

import errno
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from sandboxes.boxes import landlock, seccomp
from sandboxes.guest.box import confine
from tests.process.boxed import told
from tests.process.confined import LANDLOCK, MACHINE, either_user, known_machine
from tests.process.test_filter import HEADERS
from tests.process.test_landlock import VIEW, files

__all__ = ["files"]

pytestmark = [
    pytest.mark.skipif(LANDLOCK < 1, reason="needs Landlock"),
    known_machine,
    pytest.mark.rotating("process", "process"),
]
without_and_with = pytest.mark.parametrize("filtered", [False, True], ids=["Landlock alone", "with the filter"])

SHUT_IN = (
    VIEW
    + """
def attempt(*what, **named):
    "What was done, or the name of the error"
    return error(*what, **named) or "done"
def shut_in(**more):
    go(abi=given["abi"], **more)
    if given["program"]:
        confine.seccomp(bytes.fromhex(given["program"]))
        confine.own_signals(None)
"""
)


def shut(code: str, abi: int, filtered: bool, ordinary: bool, **given: Any) -> Any:
    """What the code tells in a box that this version of Landlock shuts in, with the filter that belongs to it."""
    if abi > LANDLOCK:
        pytest.skip(f"needs Landlock {abi}")
    program = seccomp.program(MACHINE, network=False, metadata=True, landlock=abi).hex() if filtered else ""
    return told(SHUT_IN + code, ordinary=ordinary, abi=abi, program=program, **given)


@either_user
@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5])
@without_and_with
def test_no_file_is_truncated(filtered: bool, abi: int, ordinary: bool, files: Path) -> None:
    for path in (shown := files / "open/inner/file", hidden := files / "two"):
        path.chmod(0o666)  # as a user's own
    code = """
shut_in(devices=["/dev/null"])
write("/dev/null")
tries = []
for path in given["paths"]:
    tries += [attempt(os.truncate, path, 0), attempt(os.open, path, os.O_RDONLY | os.O_TRUNC),
        attempt(os.open, path, 3 | os.O_TRUNC), attempt(os.open, path, os.O_RDWR | os.O_TRUNC),
        attempt(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)]
print(json.dumps([tries, attempt(read, "open/inner/file")]))
"""
    tries, reads = shut(code, abi, filtered, ordinary, root=str(files), paths=[str(shown), str(hidden)])
    if filtered or abi >= 3:
        assert tries == ["EACCES"] * 10
        assert (shown.read_text(), hidden.read_text()) == ("open/inner", "two")
    else:
        assert tries[:3] == ["done"] * 3  # which the filter is there for
        assert shown.read_text() == hidden.read_text() == ""
    assert reads == "done"


@either_user
@pytest.mark.parametrize("abi", [1, 2, 3])
@without_and_with
def test_nothing_is_linked_or_moved(filtered: bool, abi: int, ordinary: bool, files: Path) -> None:
    for path in (files, files / "open", files / "closed"):
        path.chmod(0o777)
    code = """
shut_in()
root = given["root"]
print(json.dumps([attempt(os.link, root + "/one", root + "/open/one"), attempt(os.link, root + "/one", root + "/1"),
    attempt(os.rename, root + "/one", root + "/open/one"), attempt(os.rename, root + "/one", root + "/1"),
    attempt(os.rename, root + "/open/inner", root + "/closed/inner")]))
"""
    before = sorted(files.rglob("*"))
    tries = shut(code, abi, filtered, ordinary, root=str(files))
    assert "done" not in tries
    if filtered and abi == 1:
        assert tries == ["EACCES"] * 5
    assert sorted(files.rglob("*")) == before


@either_user
@pytest.mark.parametrize("abi", [1, 4, 5])
@without_and_with
def test_no_device_is_asked_for_more_than_to_read_and_write(
    filtered: bool, abi: int, ordinary: bool, files: Path
) -> None:
    """By a terminal that is not shown, opened neither to read nor to write; and by a device that is shown."""
    ours, theirs = os.openpty()
    path = os.ttyname(theirs)
    os.chmod(path, 0o666)
    code = """
shut_in(devices=["/dev/random"])
def ask(path, flags, request):
    fd = os.open(path, flags)
    fcntl.ioctl(fd, request, bytes(8))
def open_by_memory():
    how = struct.pack("QQQ", 3, 0, 0)
    return errno.errorcode.get(call_memory(how), "done")
def call_memory(how):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(437), -100, given["terminal"].encode(), how, ctypes.c_long(len(how)))
    return ctypes.get_errno() if done < 0 else 0
print(json.dumps([attempt(ask, given["terminal"], 3, termios.TIOCGWINSZ), open_by_memory(),
    attempt(ask, "/dev/random", os.O_RDONLY, 0x80045200)]))
"""
    try:
        terminal, by_memory, shown = shut(code, abi, filtered, ordinary, root=str(files), terminal=path)
    finally:
        os.close(ours)
        os.close(theirs)
    if filtered and abi < 5:
        assert (terminal, by_memory, shown) == ("EACCES", "ENOSYS", "EPERM")
    elif abi < 5:
        assert (terminal, by_memory, shown) == ("done", "done", "done")  # which the filter is there for
    else:
        assert (terminal, shown) == ("EACCES", "EPERM" if filtered else "EACCES")


REACH = """
shut_in()
def connect(family, place):
    with socket.socket(family) as there:
        there.connect(place)
def signal_by(number, *arguments):
    return errno.errorcode.get(call(number, *arguments), "done")
them, numbers = os.getppid(), given["numbers"]
group = os.getpgid(0)
own = os.pidfd_open(os.getpid())
r, w = os.pipe()
print(json.dumps({
    "tcp": attempt(connect, socket.AF_INET, ("127.0.0.1", given["port"])),
    "bind": attempt(lambda: socket.socket().bind(("127.0.0.1", 0))),
    "abstract": attempt(connect, socket.AF_UNIX, given["abstract"]),
    "named": attempt(connect, socket.AF_UNIX, given["named"]),
    "kill": attempt(os.kill, them, 0),
    "all": [attempt(os.kill, who, 0) for who in (0, -1, -group)],
    "thread": [signal_by(numbers[1], them, 0) if given["x86"] else signal_by(130, them, 0),
               signal_by(numbers[2], them, them, 0) if given["x86"] else signal_by(131, them, them, 0)],
    "pidfd": attempt(signal.pidfd_send_signal, os.pidfd_open(them), 0),
    "owner": attempt(fcntl.fcntl, r, fcntl.F_SETOWN, them),
}))
"""


@either_user
@pytest.mark.parametrize("abi", [1, 3, 4, 5, 6])
@without_and_with
def test_nobody_else_is_reached(filtered: bool, abi: int, ordinary: bool, files: Path, tmp_path: Path) -> None:
    name = f"evalcell-test-older-{os.getpid()}"
    named = str(files / "s")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as path,
    ):
        abstract.bind("\0" + name)
        path.bind(named)
        os.chmod(named, 0o777)
        for one in (abstract, path):
            one.listen()
        found = shut(
            REACH, abi, filtered, ordinary, root=str(files), abstract="\0" + name, named=named,
            port=server.getsockname()[1], numbers=[62, 200, 234], x86=MACHINE == "x86_64",
        )  # fmt: skip
    if filtered:
        assert (found["tcp"], found["bind"], found["abstract"], found["named"]) == ("EACCES",) * 4
        assert (found["kill"], found["all"], found["thread"], found["pidfd"]) == (
            *("EPERM", ["EPERM"] * 3, ["EPERM"] * 2, "EPERM"),
        )
        assert found["owner"] == ("done" if abi >= 6 else "EPERM")
    else:  # which the filter is there for
        assert found["tcp"] == ("done" if abi < 4 else "EACCES")
        assert found["abstract"] == ("done" if abi < 6 else "EPERM")
        if os.geteuid() or not ordinary:
            assert found["kill"] == ("done" if abi < 6 else "EPERM")


@either_user
def test_one_process_can_be_left_to_signal_itself(ordinary: bool) -> None:
    code = """
confine.no_new_privs()
confine.own_signals(os.getpid())
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
heard, own, out = [], os.getpid(), os.pipe()
os.kill(own, signal.SIGUSR1), signal.raise_signal(signal.SIGUSR1), signal.pthread_kill(threading.get_ident(), 10)
if (pid := os.fork()) == 0:
    os.write(out[1], json.dumps([error(os.kill, os.getpid(), 0), error(os.kill, own, 0)]).encode())
    os._exit(0)
os.waitpid(pid, 0)
print(json.dumps([len(heard), error(os.kill, os.getppid(), 0), error(os.kill, 0, 0), error(os.kill, -own, 0),
    error(os.kill, -1, 0), error(os.kill, 1, 0), json.loads(os.read(out[0], 99))]))
"""
    assert told(code, ordinary=ordinary) == [3, "EPERM", "EPERM", "EPERM", "EPERM", "EPERM", ["EPERM", None]]


@pytest.mark.parametrize("machine", HEADERS)
def test_the_calls_that_send_signals_have_the_numbers_of_the_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    found = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)$", HEADERS[machine].read_text(), re.MULTILINE))
    names = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
    assert sorted(int(found[name]) for name in names) == sorted(confine._SIGNALLING[machine])
    assert int(found["pidfd_send_signal"]) == confine._PIDFD_SEND_SIGNAL


def test_where_nothing_is_held_down_the_newest_is_asked_for(files: Path) -> None:
    """A caller that does not name a version, and so has no filter for it, is refused an older one."""
    code = (
        VIEW + "confine.landlock_abi = lambda: 5; print(json.dumps([error(go), error(confine.landlock_scope, False)]))"
    )
    assert told(code, root=str(files)) == ["ENOSYS", "ENOSYS"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSYS, "Linux 5.13"), (errno.EOPNOTSUPP, "lsm="), (errno.EPERM, "filter of system calls")],
)
def test_why_there_is_no_landlock_is_told(number: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "landlock_error", lambda: number)
    assert words in landlock.why_none()


def test_what_the_filter_does_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = ["ioctls of devices", "signals to others and their sockets"]
    monkeypatch.setattr(landlock, "abi", lambda: 4)
    assert landlock.by_the_filter() == rest
    assert landlock.describe() == f"Landlock 4, and by the filter of system calls {', '.join(rest)}"
    monkeypatch.setattr(landlock, "abi", lambda: 6)
    assert landlock.describe() == "Landlock 6"
