"""The calls that a box is refused, as this machine's kernel does it."""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

import pytest

from sandboxes.boxes import seccomp
from sandboxes.boxes.syscalls import NEWEST
from tests.process.boxed import told
from tests.process.confined import (
    HARDEN,
    NUMBERS,
    either_user,
    known_machine,
    program,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.rotating("process", "process"),
]


@known_machine
@either_user
def test_refused_calls_are_refused_by_this_kernel(ordinary: bool) -> None:
    names = set(seccomp._REFUSED.split() + seccomp._METADATA.split()) & set(NUMBERS)
    code = HARDEN + "print(json.dumps({name: call(n, *[-1] * 6) for name, n in given['numbers'].items()}))"
    numbers = {name: NUMBERS[name] for name in sorted(names)}
    found = told(code, ordinary=ordinary, program=program(metadata=True), numbers=numbers)
    assert found == dict.fromkeys(names, errno.EPERM)


@known_machine
@either_user
def test_doors_are_shut(ordinary: bool) -> None:
    code = (
        HARDEN
        + """
own = os.getpid()
print(json.dumps({
    "program": error(os.execv, "/bin/true", ["true"]),
    "subprocess": error(subprocess.run, ["/bin/true"]),
    "memfd": error(os.memfd_create, "hidden"),
    "family": [error(socket.socket, f, socket.SOCK_STREAM) for f in (1, 2, 10, 16, 17, 38, 40)],
    "datagrams": error(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM),
    "type": error(fcntl.ioctl, 0, termios.TIOCSTI, b"x"),
    "limits of others": error(resource.prlimit, os.getppid(), resource.RLIMIT_NOFILE, (9, 9)),
    "own limits": error(resource.setrlimit, resource.RLIMIT_CORE, (0, 0)),
    "renice others": error(os.setpriority, os.PRIO_PROCESS, os.getppid(), 5),
    "renice all": error(os.setpriority, os.PRIO_USER, 0, 5),
    "nice": error(os.nice, 1),
    "pin others": error(os.sched_setaffinity, os.getppid(), {0}),
    "pin": error(os.sched_setaffinity, 0, os.sched_getaffinity(0)),
    "death signal": libc.prctl(1, 9), "dumpable": libc.prctl(4, 1), "reaper": libc.prctl(36, 1),
    "clone3": call(435, 0, 0), "newest": call(given["newest"] + 1), "far": call(10_000),
    "user namespace": call(given["clone"], 0x10000011, 0, 0, 0, 0),
}))
"""
    )
    found = told(code, ordinary=ordinary, program=program(), newest=NEWEST, clone=NUMBERS["clone"])
    assert found == {
        "program": "EPERM",
        "subprocess": "EPERM",
        "memfd": "EPERM",
        "family": ["EACCES"] * 7,
        "datagrams": "EACCES",
        "type": "EPERM",
        "limits of others": "EPERM",
        "own limits": None,
        "renice others": "EPERM",
        "renice all": "EPERM",
        "nice": None,
        "pin others": "EPERM",
        "pin": None,
        "death signal": -1,
        "dumpable": -1,
        "reaper": -1,
        "clone3": errno.ENOSYS,
        "newest": errno.ENOSYS,
        "far": errno.ENOSYS,
        "user namespace": errno.EPERM,
    }


@known_machine
@either_user
def test_ordinary_work_goes_on(ordinary: bool) -> None:
    code = (
        HARDEN
        + """
def work():
    done = []
    thread = threading.Thread(target=done.append, args=(1,)); thread.start(); thread.join()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with open(path, "wb") as file:
            file.write(b"x" * 5000)
        os.chmod(path, 0o600); os.utime(path, (1, 1)); os.rename(path, path + "2"); shutil.copy2(path + "2", path)
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            done.append(len(mapped))
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    done.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    mine, theirs = socket.socketpair()
    mine.send(b"ab"); done.append(theirs.recv(9).decode())
    async def main():
        return await asyncio.to_thread(lambda: "async")
    done.append(asyncio.run(main()))
    signal.signal(signal.SIGALRM, lambda *_: done.append("alarm")); signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(0.05)
    done.append(len(os.urandom(4)))
    done.append(os.isatty(0))
    with open(os.devnull, "w") as null:
        null.write("x")
    return done
print(json.dumps(work()))
"""
    )
    assert told(code, ordinary=ordinary, program=program()) == [1, 5000, 3, "ab", "async", "alarm", 4, False]


@known_machine
def test_a_stream_cannot_be_turned_into_a_way_out(tmp_path: Path) -> None:
    """As a pair of datagram sockets could: each datagram may name another receiver."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "s"))
        tmp_path.chmod(0o755)
        code = """
attempts = {}
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    mine, theirs = socket.socketpair(socket.AF_UNIX, kind)
    error(mine.sendto, b"out", given["path"]), error(mine.sendmsg, [b"out"], [], 0, given["path"])
    attempts[kind] = error(mine.connect, given["path"])
print(json.dumps(list(attempts.values())))
"""
        assert told(HARDEN + code, program=program(), path=str(tmp_path / "s")) == ["EACCES", "EACCES"]
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recv(9)


@known_machine
def test_the_network_opens_tcp_and_udp_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        code = (
            HARDEN
            + """
with socket.create_connection(("127.0.0.1", given["port"])) as there:
    there.sendall(b"hello")
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
print(json.dumps([error(socket.socket, f, k) for f, k in ((1, 1), (2, 3), (16, 3), (17, 3), (38, 5), (40, 1))]))
"""
        )
        assert told(code, program=program(network=True), port=server.getsockname()[1]) == ["EACCES"] * 6
        with server.accept()[0] as heard:
            assert heard.recv(9) == b"hello"


@known_machine
def test_a_filter_that_the_kernel_refuses_is_an_error() -> None:
    assert told("confine.no_new_privs(); print(json.dumps(error(confine.seccomp, bytes(8))))") == "EINVAL"
    code = "print(json.dumps(error(confine.seccomp, bytes.fromhex(given['program']))))"
    assert told(code, ordinary=True, program=program()) == "EACCES"  # no_new_privs comes first
