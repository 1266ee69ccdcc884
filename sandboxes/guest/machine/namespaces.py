"""
Shut a script's first process off, as far as the machine allows; each protection has a word.

`mounts`: it has a file system of its own, with its Python, its packages and a private folder. `pids`: processes of its
own; others can be neither seen nor signalled, and all end with it. `network`: no network device. `ipc`, `names`:
message queues and the host's name. `uid`: a user that owns nothing. `users`: its rights are valid nowhere else.
`landlock`: only listed files, and no signals to others, by Landlock. `orphans`: a process whose parent has ended is
found, and ended with its run.
"""

from __future__ import annotations

import ctypes
import errno
import os

from ..box import confine, init
from . import host_facts

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .types import RuntimeNeeds

_libc = ctypes.CDLL(None, use_errno=True)
_pivot_root = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR, _RECURSIVE = 442, 0x8000

_NEW_MOUNTS, _NEW_NAMES, _NEW_IPC, _NEW_PIDS, _NEW_NETWORK = (
    0x2_0000, 0x400_0000, 0x800_0000, 0x2000_0000, 0x4000_0000
)  # fmt: skip
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 1 << 14, 1 << 18
_DETACH = 2
_LOCKED = 2 | 4 | 8 | 1024 | 2048
"""Options that a mount must keep if it has them: no devices, no programs with rights, no times."""

_ITSELF = "/proc/self/exe"
_ROOT_SIZE, _ROOT_FILES = 1 << 20, 1024
_ROOTS = ("/tmp", "/mnt", "/var/tmp", "/run", "/media", "/srv", "/home", "/opt")
"""Folders over which the new root may be built; one is taken from which nothing is needed."""


def put_up(
    places: list[str], tmp: list[int], network: Sequence[str] | None, bare: bool, adopts: bool, runtime: RuntimeNeeds
) -> dict[str, Any]:
    """
    Shut this process off, and what it starts. It must have one thread, and fork once before anything else.

    `places`: files and folders to be read. `bare`: only by changing the user. `adopts`: whether the kernel can give
    orphans to a process that asks for them. `runtime`: whose program may be started, and whose named pipes opened.
    Returns the words, and what the first process of the box has yet to do.
    """
    words = {"orphans"} if adopts else set()
    uid = owner = host_facts.spare_uid()
    inner_paths = host_facts.inner_paths(places) if uid is not None else {}
    direct = host_facts.may_mount()
    if uid is not None and not direct:
        confine.give_up_uid(uid, uid)
        words.add("uid")
        uid = None
    if not (direct or bare):
        confine.closed_to_others(False)  # otherwise its own files in /proc would be root's
        if confine.own_users():
            words.add("users")
    if (
        not bare
        and _unshare(_NEW_MOUNTS)
        and (direct or not inner_paths)
        and _own_root(places, uid is None, runtime.program)
    ):
        words.add("mounts")
    for flag, word in ((_NEW_PIDS, "pids"), (_NEW_IPC, "ipc"), (_NEW_NAMES, "names"), (_NEW_NETWORK, "network")):
        if not bare and (word != "network" or network is None) and _unshare(flag):
            words.add(word)
    if "names" in words:
        _libc.sethostname(b"evalcell", 8)
    if uid is not None:
        words.add("uid")
    if "mounts" in words:
        for path in inner_paths.values():
            os.close(int(os.path.basename(path)))  # otherwise a script could look around from there
        inner_paths = _displaced_paths(places)
    scope = not bare and confine.landlock_abi() >= confine.SCOPES
    view = None
    if scope and "mounts" not in words:
        words.add("landlock")
        read = [inner_paths.get(path) or os.path.realpath(path) for path in places]
        pipes = [entry.path for entry in os.scandir(runtime.pipes)] if runtime.pipes else []
        devices = [path for path in (*host_facts.DEVICES, *pipes) if os.path.exists(path)]
        execute = [init.moved_path(runtime.program, inner_paths), *host_facts.loaders()] if runtime.program else []
        view = {"read": read, "devices": devices, "execute": execute, "network": network is not None}
    return {
        "words": sorted(words),
        "uid": uid,
        "owner": owner,
        "tmp": [host_facts.TMP, *tmp, uid, uid] if "mounts" in words and host_facts.may_mount() else None,
        "view": view,
        "moved": inner_paths,
        "adopts": adopts,
        "scope": scope,
        "confined": scope or "pids" in words,
    }


def empty_root() -> None:
    """
    Leave this process, which must have one thread, no file, no device of a network, no message queues and no name.

    Raises OSError if the kernel does not allow that; some of it may then be done, and does no harm.
    """
    if not host_facts.may_mount():
        confine.own_users()
    if not _unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_NAMES | _NEW_NETWORK):
        raise OSError(errno.EPERM, "the kernel allows no namespaces here")
    _mount(None, "/", None, _REC | _PRIVATE)
    root = next(folder for folder in (*_ROOTS, "/") if os.path.isdir(folder))
    confine.mount_memory(root, "size=4096,mode=0555", 1)
    _read_only(root, True, 0)
    _enter(root)


def _displaced_paths(places: list[str]) -> dict[str, str]:
    """Paths below the future private folder -> where they are shown instead."""
    below = [path for path in places if (path + "/").startswith(host_facts.TMP + "/")]
    return {path: f"/shown/{number}" for number, path in enumerate(below)}


def _unshare(flag: int) -> bool:
    return bool(_libc.unshare(flag) == 0)


def _own_root(places: list[str], strict: bool, program: str | None) -> bool:
    """
    Whether a root of its own could be made; attempts affect this process only and do no harm.

    `strict`: it must be read-only; a user that owns nothing can change nothing anyway. `program`: it will be started,
    and may look for its own path, though there is no /proc.
    """
    try:
        _mount(None, "/", None, _REC | _PRIVATE)
        root = next(r for r in _ROOTS if os.path.isdir(r) and not any((p + "/").startswith(r + "/") for p in places))
        confine.mount_memory(root, f"size={_ROOT_SIZE},mode=0755", _ROOT_FILES)
        moved = _displaced_paths(places)
        shown = {path: moved.get(path, path) for path in (*places, *host_facts.DEVICES) if os.path.exists(path)}
        for path, place in shown.items():
            _show(os.path.realpath(path) if path in moved else path, root + place)
            if path not in host_facts.DEVICES and not os.path.islink(root + place):
                _read_only(root + place, strict, _RECURSIVE)
        if program:
            os.makedirs(root + os.path.dirname(_ITSELF), 0o755)
            os.symlink(init.moved_path(program, moved), root + _ITSELF)
        else:  # semaphores of `multiprocessing` are files there
            os.symlink(host_facts.TMP, root + "/dev/shm")
        made = [*shown.values(), *([_ITSELF] if program else [])]
        for folder in {above for place in made for above in host_facts.above(place)} - {"/dev"}:
            os.chmod(root + folder, 0o111)  # other files of the machine cannot be listed
        os.makedirs(root + host_facts.TMP, 0o755, exist_ok=True)
        _read_only(root, strict, 0)
        _enter(root)
    except (OSError, StopIteration):
        return False
    return True


def _show(path: str, place: str) -> None:
    os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), place)
        return
    if os.path.isdir(path):
        os.makedirs(place, 0o755, exist_ok=True)
    else:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    _mount(path, place, None, _BIND | _REC)


def _read_only(place: str, strict: bool, recursive: int) -> None:
    attributes = (ctypes.c_uint64 * 4)(_RDONLY | _NOSUID | _NODEV, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    if _libc.syscall(_MOUNT_SETATTR, -100, os.fsencode(place), recursive, attributes, size) == 0:
        return
    kept = os.statvfs(place).f_flag & _LOCKED
    try:
        _mount(None, place, None, _REMOUNT | _BIND | _RDONLY | kept)
    except OSError:
        if strict:
            raise


def _enter(root: str) -> None:
    os.chdir(root)
    number = _pivot_root.get(os.uname().machine)
    if number is not None and _libc.syscall(number, b".", b".") == 0:
        _check(_libc.umount2(b".", _DETACH), "umount2")
    else:  # a root that cannot be moved, such as an initial ramdisk
        os.chroot(".")
    os.chdir("/")


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    done = _libc.mount(*texts, ctypes.c_ulong(flags), None)
    _check(done, f"mount {target}")


def _check(returned: int, what: str) -> None:
    if returned:
        number = ctypes.get_errno() or errno.EIO
        raise OSError(number, f"{what}: {os.strerror(number)}")
