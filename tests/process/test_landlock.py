"""What a box sees of files and other processes by Landlock, as this machine's kernel does it."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
import tempfile
from pathlib import Path

import pytest

from tests.process.boxed import told
from tests.process.confined import (
    either_user,
    known_machine,
    program,
    with_landlock,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.rotating("process", "process"),
]


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
