"""Giving up rights, as this machine's kernel does it; each piece of code runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.boxes.host_files import base_python
from sandboxes.guest.box import confine
from tests.process.boxed import ABOVE, UID, needs_root, told
from tests.process.confined import (
    either_user,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Linux only"),
    pytest.mark.rotating("process", "process"),
]


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


def test_it_imports_little() -> None:
    names = ("typing", "inspect", "dataclasses", "re", "enum", "collections", "subprocess", "pathlib")
    code = f"import sys; sys.path.insert(0, {str(ABOVE)!r}); from guest.box import confine"
    command = [str(base_python()), "-I", "-S", "-B", "-c", f"{code}; print({{*{names}}} & {{*sys.modules}})"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "set()"
