"""
How a process gives up its rights: every door that the kernel lets it close behind itself, for ever.

Linux only, and standard library only: it runs in the box, where start-up time counts. Everything here raises OSError
when the kernel refuses, so that nothing goes on half closed. The order that works: mount_tmp, no_new_privs,
landlock_view (while the paths can still be reached), give_up_uid, drop_capabilities, set_limits, seccomp.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import stat
import struct

SCOPES = 6
"""The first Landlock ABI (Linux 6.12) that keeps signals and abstract sockets within a domain."""

_libc = ctypes.CDLL(None, use_errno=True)

# linux/prctl.h, sys/mount.h, linux/capability.h, linux/landlock.h
_DUMPABLE = 4
_SET_SECCOMP, _CAPBSET_READ, _CAPBSET_DROP, _SUBREAPER, _NO_NEW_PRIVS, _AMBIENT = 22, 23, 24, 36, 38, 47
_AMBIENT_CLEAR_ALL = 4
_FILTER = 2
_NOSUID, _NODEV = 2, 4
_CAPABILITY_VERSION = 0x2008_0522
_SETPCAP = 8
_NEW_USERS = 0x1000_0000
_THREAD = 0x1_0000  # of clone's flags
_CLONES = {"x86_64": (56, (57, 58)), "aarch64": (220, ())}
"""`clone`, and what starts nothing but processes; `clone3` the usual filter refuses."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1, 2
_QUIET_ABI, _QUIET = 7, 1 | 4
"""What a script tries is not news for the host's audit log, which it could flood."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL, 9: 1 << 16}
"""Rights over files by the ABI that brought them: the first thirteen, REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX."""

_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL


def no_new_privs() -> None:
    """No program started from here on can gain rights; seccomp and Landlock ask for it."""
    _prctl(_NO_NEW_PRIVS, 1)


def subreaper() -> None:
    """Descendants that lose their parent become children of this process."""
    _prctl(_SUBREAPER, 1)


def closed_to_others(closed: bool = True) -> None:
    """Whether no other process of the user may look into this one: its memory, its descriptors, its variables."""
    _prctl(_DUMPABLE, 0 if closed else 1)


def mount_tmp(path: str, size: int, inodes: int, uid: int | None = None, gid: int | None = None) -> None:
    """
    Mounts an empty folder in memory over `path`: at most `size` bytes and `inodes` files, closed to other users.

    It belongs to uid and gid; without them, to the caller. Needs CAP_SYS_ADMIN. Raises ValueError for a size that the
    kernel would take as no limit.
    """
    if size < 1 or inodes < 1:
        raise ValueError("a mount needs a size and a number of files above 0")
    owner = f",uid={uid}" if uid is not None else ""
    owner += f",gid={gid}" if gid is not None else ""
    mount_memory(path, f"size={size},mode=0700{owner}", inodes)


def mount_memory(path: str, options: str, inodes: int) -> None:
    """Mounts a file system in memory; a kernel that cannot count its files, such as gVisor's, counts bytes alone."""
    for counted in (f",nr_inodes={inodes}", ""):
        done = _libc.mount(
            b"tmpfs", os.fsencode(path), b"tmpfs", ctypes.c_ulong(_NOSUID | _NODEV), (options + counted).encode()
        )
        if done == 0 or ctypes.get_errno() != errno.EINVAL:
            break
    _checked(done, f"mount {path}")


def give_up_uid(uid: int, gid: int) -> None:
    """Becomes another user, of no other group, for good; needs to be root."""
    _empty_bounding_set()  # afterwards it may not
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or os.getgroups():
        raise OSError(errno.EPERM, "the user was not changed")
    if any(capabilities()[:2]) or (uid and _comes_back()):
        raise OSError(errno.EPERM, "the user was changed, but can be root again")


def drop_capabilities() -> None:
    """Leaves no capability, neither held nor to be had. The user stays as it is."""
    _empty_bounding_set()
    try:
        _prctl(_AMBIENT, _AMBIENT_CLEAR_ALL)
    except OSError as e:
        if e.errno != errno.EINVAL:  # a kernel that has none, such as gVisor's
            raise
    _checked(_libc.capset(_capability_header(), bytes(24)), "capset")
    if any(capabilities()):
        raise OSError(errno.EPERM, "some capabilities were kept")


def set_limits(limits: dict[str, int]) -> None:
    """
    Sets resource limits, soft and hard, by their names without `RLIMIT_`, in the unit of each.

    One that is above what the process may have becomes what it may have.
    """
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def seccomp(program: bytes) -> None:
    """Puts a filter, as `filter.program` makes it, over all system calls of this thread and what it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    _prctl(_SET_SECCOMP, _FILTER, struct.pack("HP", len(program) // 8, ctypes.addressof(code)))


def no_processes() -> None:
    """Neither this process nor what it has started can start another from here on; threads it can."""
    numbers = _CLONES.get(os.uname().machine)
    if numbers is None:
        raise OSError(errno.ENOSYS, "no system calls of this machine are known")
    clone, others = numbers
    code = [(0x20, 0, 0, 0)]  # the number of the call
    code += [(0x15, len(others) - at + 2, 0, number) for at, number in enumerate(others)]
    code += [(0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 1, 0, _THREAD)]  # the lower half of its first argument
    code += [(0x06, 0, 0, 0x0005_0000 | errno.EPERM), (0x06, 0, 0, 0x7FFF_0000)]
    seccomp(b"".join(struct.pack("<HBBI", *each) for each in code))


def own_users() -> bool:
    """
    Makes this process, which must have one thread, the first of a user namespace, with its own user alone in it.

    There the kernel counts the user's processes apart (Linux 5.14), and rights over files stay what they were. False
    where none can be had.
    """
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_USERS) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError:  # contextlib takes long to import
            continue
    return True


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers; 0 where it is missing or switched off."""
    try:
        return _syscall(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def landlock_view(
    read: list[str] | tuple[str, ...],
    *,
    network: bool,
    listed: list[str] | tuple[str, ...] = (),
    devices: list[str] | tuple[str, ...] = (),
    execute: list[str] | tuple[str, ...] = (),
) -> int:
    """
    Closes the file system but for what is named; also scopes signals and abstract sockets, as `landlock_scope`.

    `read`: files, and folders with all beneath, to be read. `listed`: folders of which, and beneath which, only the
    names can be told. `devices`: files to be read and written. `execute`: programs, or folders of them, to be read and
    started; a shared library needs no such right. Nothing can be made, changed or removed. Metadata of any path that
    the user may reach can still be told, and changed by its owner: seccomp must see to that.

    Returns the ABI. Raises OSError for an ABI below SCOPES, and for a path that is missing.
    """
    abi = _needed_abi()
    handled = sum(rights for since, rights in _RIGHTS.items() if since <= abi)
    ruleset = _ruleset(handled, network)
    try:
        _allow(ruleset, read, _READ_FILE | _READ_DIR)
        _allow(ruleset, listed, _READ_DIR)
        _allow(ruleset, devices, _READ_FILE | _WRITE_FILE)
        _allow(ruleset, execute, _READ_FILE | _READ_DIR | _EXECUTE)
        _restrict(ruleset, abi)
    finally:
        os.close(ruleset)
    return abi


def landlock_scope(network: bool) -> int:
    """
    Keeps the signals, ptrace and abstract sockets of this process among itself and what it starts from here on.

    Without `network`, TCP is closed too. Returns the ABI. Raises OSError for one below SCOPES.
    """
    abi = _needed_abi()
    ruleset = _ruleset(0, network)
    try:
        _restrict(ruleset, abi)
    finally:
        os.close(ruleset)
    return abi


def _needed_abi() -> int:
    abi = landlock_abi()
    if abi < SCOPES:
        raise OSError(errno.ENOSYS, f"Landlock {SCOPES} is needed (Linux 6.12); this kernel offers {abi}")
    return abi


def _ruleset(files: int, network: bool) -> int:
    connecting = 0 if network else _BIND_TCP | _CONNECT_TCP
    attributes = struct.pack("QQQ", files, connecting, _SCOPE_SOCKETS | _SCOPE_SIGNALS)
    return _syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _allow(ruleset: int, paths: list[str] | tuple[str, ...], rights: int) -> None:
    for path in paths:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            folder = stat.S_ISDIR(os.fstat(fd).st_mode)
            rule = struct.pack("=Qi", rights if folder else rights & _OF_FILES, fd)
            _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(fd)


def _restrict(ruleset: int, abi: int) -> None:
    _syscall(_RESTRICT_SELF, ruleset, _QUIET if abi >= _QUIET_ABI else 0)


def _empty_bounding_set() -> None:
    """As far as that is allowed; where it is not, no_new_privs has the same effect."""
    if not capabilities()[0] & 1 << _SETPCAP:
        return
    capability = 0
    while _libc.prctl(_CAPBSET_READ, ctypes.c_ulong(capability)) >= 0:
        _prctl(_CAPBSET_DROP, capability)
        capability += 1


def capabilities() -> tuple[int, int, int]:
    """Effective, permitted, inheritable: a bit each."""
    sets = ctypes.create_string_buffer(24)
    _checked(_libc.capget(_capability_header(), sets), "capget")
    low = struct.unpack("6I", sets)
    return low[0] | low[3] << 32, low[1] | low[4] << 32, low[2] | low[5] << 32


def _capability_header() -> bytes:
    return struct.pack("Ii", _CAPABILITY_VERSION, 0)


def _comes_back() -> bool:
    try:
        os.setresuid(0, 0, 0)
    except PermissionError:
        return False
    return True


def _prctl(option: int, first: int, second: int | bytes = 0) -> None:
    last = ctypes.c_ulong(second) if isinstance(second, int) else second
    unused = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(first), last, unused, unused), f"prctl {option}")


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    taken = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *taken), f"system call {number}")


def _checked(returned: int, what: str) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return returned
