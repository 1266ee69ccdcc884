"""Giving up rights, as this machine's kernel does it; each piece of code runs in a process of its own."""

from __future__ import annotations

import errno
import os
import platform
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sandboxes.boxes import seccomp
from sandboxes.boxes.host_files import base_python
from sandboxes.boxes.syscalls import AARCH64, NEWEST, X86_64
from sandboxes.guest.box import confine
from tests.process.boxed import ABOVE, UID, needs_root, told

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.rotating("process", "process"),
]

MACHINE = platform.machine()
NUMBERS = AARCH64 if MACHINE == "aarch64" else X86_64
LANDLOCK = confine.landlock_abi() if sys.platform == "linux" else 0

known_machine = pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason="no filter for this machine")
with_landlock = pytest.mark.skipif(LANDLOCK < confine.SCOPES, reason="needs Landlock 6")
either_user = pytest.mark.parametrize("ordinary", [False, True], ids=["as it is", "ordinary user"])

HARDEN = """
confine.no_new_privs()
confine.seccomp(bytes.fromhex(given["program"]))
"""


def program(network: bool = False, metadata: bool = False) -> str:
    return seccomp.program(MACHINE, network=network, metadata=metadata).hex()


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


def test_no_new_privs_and_subreaper() -> None:
    code = """
confine.no_new_privs()
confine.subreaper()
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.05)
        os.write(write, str(os.getppid()).encode())
    os._exit(0)
os.wait(), os.wait()
print(json.dumps([status("NoNewPrivs"), int(os.read(read, 20)) == os.getpid()]))
"""
    assert told(code) == ["1", True]


def test_giving_up_the_uid() -> None:
    needs_root()
    code = """
os.setgroups([7, 8])
confine.give_up_uid(given["new"], given["new"])
back = [error(os.setuid, 0), error(os.setgid, 0), error(os.setgroups, [0])]
print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), status("Groups"), back,
                  status("CapEff"), status("CapPrm"), status("CapBnd")]))
"""
    none = "0" * 16
    assert told(code, new=UID) == [[UID] * 3, [UID] * 3, [], "", ["EPERM"] * 3, none, none, none]


@pytest.mark.parametrize("to", [UID + 1, 0])
def test_only_root_can_give_up_its_uid(to: int) -> None:
    assert (
        told("print(json.dumps(error(confine.give_up_uid, given['to'], given['to'])))", ordinary=True, to=to) == "EPERM"
    )


def test_dropping_capabilities_keeps_the_user() -> None:
    code = """
before = os.getresuid()
confine.drop_capabilities()
confine.drop_capabilities()
sets = [status(name) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")]
print(json.dumps([sets, before == os.getresuid(), status("CapBnd"), error(os.chroot, "/")]))
"""
    none = "0" * 16
    sets, same, bounding, chroot = told(code)
    assert (sets, same, chroot) == ([none] * 4, True, "EPERM")
    assert bounding == none or os.geteuid() != 0
    assert told(code, ordinary=True)[0] == [none] * 4


MOUNT = """
def mounted():
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(0x20000 if uid == 0 else 0x10020000):
        return None
    if uid:
        for name, text in ("uid_map", f"{uid} {uid} 1"), ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1"):
            with open("/proc/self/" + name, "w") as file:
                file.write(text)
    libc.mount(None, b"/", None, 0x44000, None)  # what is mounted here stays here
    owner = (61235, 61236) if given["owned"] else (None, None)
    confine.mount_tmp(given["path"], 1 << 20, 20, *owner)
    confine.drop_capabilities()
    found, room = os.stat(given["path"]), os.statvfs(given["path"])
    answer = [stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid]
    answer += [room.f_blocks * room.f_frsize, room.f_files]
    answer += [bool(room.f_flag & flag) for flag in (os.ST_NOSUID, os.ST_NODEV)]
    if not given["owned"]:
        os.chdir(given["path"])
        def fill():
            with open("big", "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
        answer.append(error(fill))
        os.unlink("big")
        def many():
            for n in range(30):
                open(str(n), "x").close()
        answer.append(error(many))
        answer.append(len(os.listdir(".")) < 21)
    return answer
print(json.dumps(mounted()))
"""


@either_user
def test_the_private_folder_is_bounded(ordinary: bool, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    found = told(MOUNT, ordinary=ordinary, path="/var/tmp" if ordinary else str(tmp_path), owned=False)
    if found is None:
        pytest.skip("no namespaces here")
    assert found[0] == 0o700
    assert found[3:] == [1 << 20, 20, True, True, "ENOSPC", "ENOSPC", True]


def test_the_private_folder_belongs_to_who_is_named(tmp_path: Path) -> None:
    needs_root()
    found = told(MOUNT, path=str(tmp_path), owned=True)
    if found is None:
        pytest.skip("no namespaces here")
    assert found == [0o700, 61235, 61236, 1 << 20, 20, True, True]


@pytest.mark.parametrize(("size", "inodes"), [(0, 10), (10, 0), (-1, 5)])
def test_a_mount_without_bounds_is_refused(size: int, inodes: int) -> None:
    with pytest.raises(ValueError, match="above 0"):
        confine.mount_tmp("/nowhere", size, inodes)


def test_limits() -> None:
    code = """
confine.set_limits({"NOFILE": 50, "CORE": 0})
confine.set_limits({"NOFILE": 70, "FSIZE": 1 << 20})
kinds = resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE
print(json.dumps([resource.getrlimit(kind) for kind in kinds]))
"""
    assert told(code, ordinary=True) == [[50, 50], [0, 0], [1 << 20, 1 << 20]]
    with pytest.raises(AttributeError, match="RLIMIT_NOTHING"):
        confine.set_limits({"NOTHING": 1})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Readable by all: only Landlock stands between."""
    for folder in (tmp_path, *tmp_path.parents):  # what pytest made, and closed to others
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    for name in ("open/inner", "closed", "names"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "one").write_text("one")
    (tmp_path / "two").write_text("two")
    return tmp_path


VIEW = """
confine.no_new_privs()
root = given["root"]
def go(network=False, **more):
    return confine.landlock_view([root + "/open", root + "/one"], network=network, **more)
def read(name):
    with open(root + "/" + name) as file:
        return file.read()
def write(path, mode="w"):
    with open(path, mode) as file:
        file.write("x")
"""


@with_landlock
@either_user
def test_a_view_shows_what_is_named_and_nothing_else(ordinary: bool, files: Path) -> None:
    code = (
        VIEW
        + """
abi = go(listed=[root + "/names"], devices=["/dev/null"])
write("/dev/null"), write("/dev/null", "a")
print(json.dumps([abi == confine.landlock_abi(), read("open/inner/file"), read("one"), os.listdir(root + "/open"),
    os.listdir(root + "/names"), [error(read, n) for n in ("two", "closed/file", "names/file")],
    [error(os.listdir, p) for p in (root, root + "/closed", "/", "/proc")],
    [error(write, root + p) for p in ("/one", "/open/inner/file", "/open/new", "/new")],
    [error(os.unlink, root + "/open/inner/file"), error(os.mkdir, root + "/open/x")],
    [error(os.truncate, root + "/one", 0), error(os.symlink, "one", root + "/open/l"),
     error(os.rename, root + "/open/inner", root + "/open/other")],
    error(write, "/dev/zero"), error(os.execv, "/bin/true", ["true"])]))
"""
    )
    no = "EACCES"
    assert told(code, ordinary=ordinary, root=str(files)) == [
        True, "open/inner", "one", ["inner"], ["file"], [no] * 3, [no] * 4, [no] * 4, [no] * 2, [no] * 3, no, no,
    ]  # fmt: skip


@with_landlock
def test_a_program_may_be_started_where_that_is_asked(files: Path) -> None:
    code = VIEW + "go(execute=['/']); print(json.dumps(subprocess.run(['/bin/true']).returncode))"
    assert told(code, root=str(files)) == 0


@with_landlock
def test_a_missing_path_is_an_error(files: Path) -> None:
    code = VIEW + "print(json.dumps(error(go, listed=[root + '/nowhere'])))"
    assert told(code, root=str(files)) == "ENOENT"


OTHERS = """
answer = [error(os.kill, os.getppid(), 0)]
with socket.socket(socket.AF_UNIX) as there:
    answer.append(error(there.connect, given["abstract"]))
with socket.socket() as there:
    answer.append(error(there.connect, ("127.0.0.1", given["port"])))
pid = os.fork()
if pid == 0:
    time.sleep(60)
os.kill(pid, 9)
answer.append(os.WTERMSIG(os.waitpid(pid, 0)[1]))
print(json.dumps(answer))
"""


@with_landlock
@either_user
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("how", ["go(given['network'])", "confine.landlock_scope(given['network'])"])
def test_others_cannot_be_reached(how: str, network: bool, ordinary: bool, files: Path) -> None:
    name = f"evalcell-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        port = server.getsockname()[1]
        given = {"root": str(files), "network": network, "abstract": "\0" + name, "port": port}
        assert told(VIEW + OTHERS, **given)[:3] == [None] * 3
        found = told(VIEW + how + OTHERS, ordinary=ordinary, **given)
    assert found == ["EPERM", "EPERM", None if network else "EACCES", 9]


@with_landlock
@known_machine
def test_a_child_can_be_kept_from_its_parent(files: Path) -> None:
    """As in the box: a view around all, the filter, and a domain for each child within."""
    code = (
        VIEW
        + """
go(network=False)
confine.seccomp(bytes.fromhex(given["program"]))
heard, says = os.pipe()
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        before = error(os.kill, os.getppid(), 0)
        confine.landlock_scope(False)
        told = [before, error(os.kill, os.getppid(), 0), error(os.kill, os.getpid(), 0)]
        os.write(says, (json.dumps(told) + "\\n").encode())
        os._exit(0)
    os.kill(pid, 0)
    os.waitpid(pid, 0)
os.close(says)
with open(heard) as file:
    print(json.dumps([json.loads(line) for line in file]))
"""
    )
    assert told(code, root=str(files), program=program()) == [[None, "EPERM", None]] * 3


@known_machine
@with_landlock
def test_without_landlock_it_fails_rather_than_go_on(files: Path) -> None:
    no_landlock = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, 0x50000 | errno.ENOSYS), (6, 0, 0, 0x7FFF0000)]
    code = (
        VIEW
        + """
confine.seccomp(bytes.fromhex(given["program"]))
print(json.dumps([confine.landlock_abi(), error(go), error(confine.landlock_scope, False)]))
"""
    )
    blob = b"".join(struct.pack("<HBBI", *i) for i in no_landlock).hex()
    assert told(code, root=str(files), program=blob) == [0, "ENOSYS", "ENOSYS"]


def test_it_imports_little() -> None:
    names = ("typing", "inspect", "dataclasses", "re", "enum", "collections", "subprocess", "pathlib")
    code = f"import sys; sys.path.insert(0, {str(ABOVE)!r}); from guest.box import confine"
    command = [str(base_python()), "-I", "-S", "-B", "-c", f"{code}; print({{*{names}}} & {{*sys.modules}})"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "set()"
