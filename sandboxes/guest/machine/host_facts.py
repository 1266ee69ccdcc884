"""Find out what a script's process needs of the machine: its Python's folders, and the limits that the kernel knows."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys

from ..box import confine
from ..supervisor import procfs

TYPE_CHECKING = False  # typing's, whose import is slow
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .types import RuntimeNeeds

TMP = "/tmp"
DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")

_LIBRARIES = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/nix/store")
_OTHERS = ("/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/alternatives")
_SPARE = range(61184, 65520)
"""Uids that systemd gives to transient services; no user has them."""

_OF_SEED_0 = 7297672633642751649
"""The hash of `evalcell`."""

_SETGID, _SETUID, _SYS_ADMIN = 6, 7, 21
_GET_SECCOMP = 21


def packages(asked: str | None) -> list[str]:
    """Return folders of packages, the last of which was asked for; `site` asks for those of this Python."""
    if asked != "site":
        return [asked] if asked else []
    import site

    virtual = _virtual()
    prefixes = [virtual] if virtual else [sys.prefix, sys.exec_prefix]
    return [folder for folder in site.getsitepackages(prefixes) if os.path.isdir(folder)]


def program(name: str, folders: Sequence[str]) -> str | None:
    """
    Return the path of a program that was installed with packages, in one of the folders or with this Python; or None.
    """
    prefixes = [*folders, _virtual() or sys.prefix]
    found = (os.path.join(prefix, "bin", name) for prefix in prefixes)
    return next((os.path.realpath(path) for path in found if os.access(path, os.X_OK)), None)


def loaders() -> list[str]:
    """Return the dynamic loaders, which start programs that use shared libraries."""
    found = (os.path.join(top, name) for top in _LIBRARIES[:2] if os.path.isdir(top) for name in os.listdir(top))
    return list(dict.fromkeys(os.path.realpath(path) for path in found if os.path.basename(path).startswith("ld-")))


def _virtual() -> str | None:
    """The virtual environment that this Python was started from, which it does not look for without `site`."""
    for folder in (os.path.dirname(sys.executable), os.path.dirname(os.path.dirname(sys.executable))):
        if os.path.isfile(os.path.join(folder, "pyvenv.cfg")):
            return folder
    return None


def files(folders: Iterable[str], network: Sequence[str] | None) -> list[str]:
    """
    Return the paths that may be read: the standard library, shared libraries, packages; for a `network` also its files.

    The paths as they will be asked for, without those inside another.
    """
    found = [*_LIBRARIES, *sys.path, *folders, *_OTHERS, *(network or ())]
    found += [os.path.join(sys.base_prefix, "lib"), *_mapped()]
    found = [os.path.normpath(path) for path in found if os.path.isabs(path) and os.path.exists(path)]
    found += [os.path.realpath(path) for path in found]
    kept = dict.fromkeys(sorted(found))
    return [path for path in kept if path != "/" and not any(folder in kept for folder in above(path))]


def above(path: str) -> Iterator[str]:
    while (path := os.path.dirname(path)) != "/":
        yield path


def _mapped() -> list[str]:
    """Folders of the shared libraries in this process: some lie in odd places."""
    try:
        with open("/proc/self/maps") as lines:
            found = {line.split(None, 5)[5].strip() for line in lines if ".so" in line and "/" in line}
    except OSError:
        return []
    return [os.path.dirname(path) for path in found]


def reachable(path: str) -> bool:
    """Say whether a user outside our groups may enter all folders above, and read it."""
    path = os.path.realpath(path)
    mode = 0o5 if os.path.isdir(path) else 0o4
    if os.stat(path).st_mode & mode != mode:
        return False
    return all(os.stat(folder).st_mode & 0o1 for folder in (*above(path), "/"))


def inner_paths(places: Iterable[str]) -> dict[str, str]:
    """Return paths by which a user outside our groups can reach paths that it cannot."""
    return {path: f"/proc/self/fd/{os.open(path, os.O_PATH)}" for path in places if not reachable(path)}


def may(capability: int) -> bool:
    return bool(confine.capabilities()[0] >> capability & 1)


def may_mount() -> bool:
    return may(_SYS_ADMIN)


def spare_uid() -> int | None:
    """Return a uid that nobody has, if this process can become it; else None."""
    if os.geteuid() or not (may(_SETUID) and may(_SETGID) and os.path.isdir("/proc/self/fd")):
        return None
    mapped = [procfs.mapped_ids(kind) for kind in ("uid", "gid")]
    first = int.from_bytes(os.getrandom(2), "big") % len(_SPARE)
    for number in (_SPARE[first], 65534):
        if all(any(number in ids for ids in held) for held in mapped):
            return number
    return None


def limits(size: int, counts_apart: bool, runtime: RuntimeNeeds) -> dict[str, int]:
    """
    Return the limits that this kernel can set; `counts_apart`: the processes of a script's user are counted apart.
    """
    others = 0 if counts_apart else procfs.threads_of(os.getuid()) + 256
    wanted = {
        "CORE": 0,
        "FSIZE": size,
        "NOFILE": runtime.descriptors,
        "NPROC": others + runtime.processes,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
    }
    return {name: value for name, value in wanted.items() if _settable(name)}


def _settable(name: str) -> bool:
    try:
        kind = getattr(resource, f"RLIMIT_{name}")
        resource.setrlimit(kind, resource.getrlimit(kind))
    except (AttributeError, OSError, ValueError):
        return False
    return True


def knows_seccomp() -> bool:
    return bool(ctypes.CDLL(None).prctl(_GET_SECCOMP, *(ctypes.c_ulong(0),) * 4) >= 0)


def hashes_from_0() -> bool:
    """Say whether strings have the hashes of this Python with the seed 0, if its algorithm is known here."""
    known = sys.hash_info.algorithm == "siphash13" and sys.hash_info.width == 64
    return not sys.flags.hash_randomization and (not known or hash("evalcell") == _OF_SEED_0)


def forget_environment() -> None:
    """Remove this process's original variables from memory, which its children would inherit."""
    values = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    for place in range(len(os.environ) + 64):
        if not values[place]:
            return
        ctypes.memset(values[place], 0, len(ctypes.string_at(values[place])))


def newer_than(major: int, minor: int) -> bool:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= (major, minor)
