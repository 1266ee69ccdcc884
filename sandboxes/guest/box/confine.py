"""
Give up the rights of a process, permanently, as far as the kernel allows.

Linux only, and standard library only, since it runs in the box, where start-up time counts. Everything here raises
OSError if the kernel refuses, so that nothing runs half protected. The order that works: mount_tmp, no_new_privs,
landlock_view (while the paths can still be reached), give_up_uid, drop_capabilities, set_limits, seccomp, own_signals.
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
_NEW_USERS, _NEW_NETWORK = 0x1000_0000, 0x4000_0000
_SET_INTERFACE_FLAGS, _UP = 0x8914, 1
_THREAD = 0x1_0000  # of clone's flags
_CLONES = {"x86_64": (56, (57, 58)), "aarch64": (220, ())}
"""`clone`, and the calls that can only start processes; the usual filter refuses `clone3`."""
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _ALL_THREADS, _SPECULATES = 1, 1, 4
_SIGNALLING = {"x86_64": (62, 129, 200, 234, 297), "aarch64": (129, 130, 131, 138, 240)}
"""`kill`, `tkill`, `tgkill`, `rt_sigqueueinfo` and `rt_tgsigqueueinfo`, whose first argument is the receiver."""
_PIDFD_SEND_SIGNAL = 424
_UNKNOWN = "no system calls of this machine are known"
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH, _NET_PORT = 1, 2
_BIND_TCP, _CONNECT_TCP = 1, 2
_TCP = 4
"""The first ABI that closes TCP (Linux 6.7)."""
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1, 2
_QUIET_ABI, _QUIET = 7, 1 | 4
"""Keep what a script tries out of the host's audit log, which it could flood."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: _IOCTL, 9: 1 << 16}
"""Rights over files by the ABI that brought them: the first thirteen, REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX."""

_MAKING = (1 << 14) - (1 << 4)
"""Removing, making and moving of any kind of file."""

_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL


def no_new_privs() -> None:
    """Keep programs started from now on from gaining rights; seccomp and Landlock require it."""
    _prctl(_NO_NEW_PRIVS, 1)


def subreaper() -> None:
    """Make descendants that lose their parent children of this process."""
    _prctl(_SUBREAPER, 1)


def closed_to_others(closed: bool = True) -> None:
    """Set whether the user's other processes may look into this one: its memory, descriptors and variables."""
    _prctl(_DUMPABLE, 0 if closed else 1)


def mount_tmp(path: str, size: int, inodes: int, uid: int | None = None, gid: int | None = None) -> None:
    """
    Mount an empty folder in memory over `path`: at most `size` bytes and `inodes` files, closed to other users.

    It belongs to uid and gid, or else to the caller. Needs CAP_SYS_ADMIN. Raises ValueError for a size that the kernel
    would take as no limit.
    """
    if size < 1 or inodes < 1:
        raise ValueError("a mount needs a size and a number of files above 0")
    owner = f",uid={uid}" if uid is not None else ""
    owner += f",gid={gid}" if gid is not None else ""
    mount_memory(path, f"size={size},mode=0700{owner}", inodes)


def mount_memory(path: str, options: str, inodes: int) -> None:
    """Mount a file system in memory; kernels that cannot count its files, such as gVisor's, bound the bytes only."""
    for counted in (f",nr_inodes={inodes}", ""):
        done = _libc.mount(
            b"tmpfs", os.fsencode(path), b"tmpfs", ctypes.c_ulong(_NOSUID | _NODEV), (options + counted).encode()
        )
        if done == 0 or ctypes.get_errno() != errno.EINVAL:
            break
    _check(done, f"mount {path}")


def give_up_uid(uid: int, gid: int) -> None:
    """Become another user, without other groups, permanently. Needs to be root."""
    _empty_bounding_set()  # it is not allowed afterwards
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or os.getgroups():
        raise OSError(errno.EPERM, "the user was not changed")
    if any(capabilities()[:2]) or (uid and _comes_back()):
        raise OSError(errno.EPERM, "the user was changed, but can be root again")


def drop_capabilities() -> None:
    """Drop all capabilities, held or inheritable. The user stays the same."""
    _empty_bounding_set()
    try:
        _prctl(_AMBIENT, _AMBIENT_CLEAR_ALL)
    except OSError as e:
        if e.errno != errno.EINVAL:  # a kernel without it, such as gVisor's
            raise
    _check(_libc.capset(_capability_header(), bytes(24)), "capset")
    if any(capabilities()):
        raise OSError(errno.EPERM, "some capabilities were kept")


def set_limits(limits: dict[str, int]) -> None:
    """
    Set resource limits, soft and hard, by their names without `RLIMIT_`, each in its unit.

    A limit above what the process may have is lowered to that.
    """
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def seccomp(program: bytes) -> None:
    """Apply a filter, as `seccomp.program` makes it, to all system calls of this thread and what it starts."""
    code = ctypes.create_string_buffer(program, len(program))
    _prctl(_SET_SECCOMP, _FILTER, struct.pack("HP", len(program) // 8, ctypes.addressof(code)))


def seccomp_of_threads(program: bytes) -> None:
    """
    Apply a filter to all threads of this process.

    Kernels before 5.16 would also slow its memory down, against speculation (Spectre 4); they are told not to, if they
    know how: gVisor does not, and slows nothing down.
    """
    number = _SECCOMP.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, _UNKNOWN)
    code = ctypes.create_string_buffer(program, len(program))
    filter = struct.pack("HP", len(program) // 8, ctypes.addressof(code))
    try:
        thread = _syscall(number, _SET_FILTER, _ALL_THREADS | _SPECULATES, filter)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        thread = _syscall(number, _SET_FILTER, _ALL_THREADS, filter)
    if thread:
        raise OSError(errno.EBUSY, f"thread {thread} has a filter of its own")


def no_processes() -> None:
    """Keep this process and those that it has started from starting processes; threads are allowed."""
    numbers = _CLONES.get(os.uname().machine)
    if numbers is None:
        raise OSError(errno.ENOSYS, _UNKNOWN)
    clone, others = numbers
    code = [(0x20, 0, 0, 0)]  # the number of the call
    code += [(0x15, len(others) - at + 2, 0, number) for at, number in enumerate(others)]
    code += [(0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 1, 0, _THREAD)]  # the lower half of its first argument
    code += [(0x06, 0, 0, 0x0005_0000 | errno.EPERM), (0x06, 0, 0, 0x7FFF_0000)]
    seccomp(b"".join(struct.pack("<HBBI", *each) for each in code))


def own_signals(receiver: int | None) -> None:
    """
    Keep this process and those that it has started from sending signals but to `receiver`, one process; None: to any.

    In place of Landlock's scope, where the kernel has none yet. Filters add up, so a process that forks has to close
    all for those that it forks to have no other's.
    """
    numbers = _SIGNALLING.get(os.uname().machine)
    if numbers is None:
        raise OSError(errno.ENOSYS, _UNKNOWN)
    code = [(0x20, 0, 0, 0), (0x15, len(numbers) + 2, 0, _PIDFD_SEND_SIGNAL)]
    code += [(0x15, len(numbers) - 1 - at, 0, number) for at, number in enumerate(numbers[:-1])]
    code += [(0x15, 0, 3, numbers[-1]), (0x20, 0, 0, 16)]
    code += [(0x15, 0 if receiver is None else 1, 0, receiver or 0)]  # 0 would be the own group
    code += [(0x06, 0, 0, 0x0005_0000 | errno.EPERM), (0x06, 0, 0, 0x7FFF_0000)]
    seccomp(b"".join(struct.pack("<HBBI", *each) for each in code))


def own_users() -> bool:
    """
    Make this process, which must have one thread, the first of a user namespace with only its own user in it.

    There the kernel counts the user's processes separately (Linux 5.14); rights over files stay the same. Returns
    whether the kernel allowed it.
    """
    return _own_users(_NEW_USERS)


def own_network() -> None:
    """
    Give this process, which must have one thread, a network with nothing in it but its own loopback.

    An ordinary user gets it with a user namespace, as of `own_users`. Raises OSError where the kernel refuses.
    """
    own = _libc.unshare(_NEW_NETWORK) == 0 if os.geteuid() == 0 else _own_users(_NEW_USERS | _NEW_NETWORK)
    if not own:
        way = "clients of judges need it; have the script ask by `from evalcell_judge import ask`"
        raise OSError(ctypes.get_errno(), f"a network of its own is not allowed here, and {way}")
    end = _libc.socket(2, 2, 0)
    try:
        request = ctypes.create_string_buffer(struct.pack("16sh", b"lo", _UP), 40)
        _check(_libc.ioctl(end, ctypes.c_ulong(_SET_INTERFACE_FLAGS), request), "raise the loopback")
    finally:
        os.close(end)


def _own_users(kinds: int) -> bool:
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(kinds) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError:  # importing contextlib is slow
            continue
    return True


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 if it is missing or switched off."""
    try:
        return _syscall(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def landlock_error() -> int:
    """Return the number of the error by which Landlock is missing; 0 if it is there."""
    try:
        _syscall(_CREATE_RULESET, None, 0, 1)
    except OSError as error:
        return error.errno or errno.ENOSYS
    return 0


def landlock_view(
    read: list[str] | tuple[str, ...],
    *,
    network: bool,
    listed: list[str] | tuple[str, ...] = (),
    devices: list[str] | tuple[str, ...] = (),
    execute: list[str] | tuple[str, ...] = (),
    ports: list[int] | tuple[int, ...] = (),
    abi: int | None = None,
) -> int:
    """
    Close the file system except for what is named; also restrict signals and abstract sockets as `landlock_scope` does.

    `read`: files, and folders with all that they hold, to be read. `listed`: folders in which and below which only
    names can be listed. `devices`: files to be read and written. `execute`: programs, or folders of them, to be read
    and started; shared libraries do not need this right. Nothing can be created, changed or removed. The metadata of
    any path that the user can reach can still be read, and changed by its owner: seccomp must prevent that.

    `abi`: the version to use, from 1 on, where seccomp does what newer ones add; without it SCOPES is needed.
    Returns the ABI. Raises OSError for one that is too low, and for a missing path.
    """
    abi = _needed_abi() if abi is None else min(abi, _needed_abi(1))
    ruleset = _ruleset(_handled(abi), network, abi)
    try:
        _allow(ruleset, read, _READ_FILE | _READ_DIR)
        _allow(ruleset, listed, _READ_DIR)
        _allow(ruleset, devices, _READ_FILE | _WRITE_FILE)
        _allow(ruleset, execute, _READ_FILE | _READ_DIR | _EXECUTE)
        _allow_ports(ruleset, ports, network, abi)
        _restrict(ruleset, abi)
    finally:
        os.close(ruleset)
    return abi


def landlock_scope(network: bool, ports: list[int] | tuple[int, ...] = (), makes: bool = True) -> int:
    """
    Keep the signals, ptrace and abstract sockets of this process among itself and what it starts from now on.

    Without `network` it closes TCP too, but for connecting to these ports; unless it `makes` files, it can make,
    rename and remove none that have a name. Returns the ABI. Raises OSError for one below SCOPES.
    """
    abi = _needed_abi()
    ruleset = _ruleset(0 if makes else _MAKING, network, abi)
    try:
        _allow_ports(ruleset, ports, network, abi)
        _restrict(ruleset, abi)
    finally:
        os.close(ruleset)
    return abi


def rules_of_folder(own: str, network: bool, number: int) -> int:
    """
    Return rules, as a descriptor with this number, for `landlock_folder`: as `landlock_scope`, and files of its own.

    It can make and write files in that folder alone, and sees nothing of those beside it.
    """
    writing = _MAKING | _WRITE_FILE | _TRUNCATE | _READ_FILE | _READ_DIR
    ruleset = _ruleset(writing, network, _needed_abi())
    try:
        others = "/" + own.split("/")[1]
        _allow(ruleset, [path for name in os.listdir("/") if (path := "/" + name) != others], _READ_FILE | _READ_DIR)
        _allow(ruleset, [own], writing)
        _allow(ruleset, ["/dev"], _WRITE_FILE)
        return os.dup2(ruleset, number, inheritable=False)
    finally:
        os.close(ruleset)


def landlock_folder(rules: list[int], place: int) -> None:
    """Keep this process to the rules in this place, and close all of them. Raises OSError if a script has done so."""
    _restrict(rules[place], _needed_abi())
    os.closerange(rules[0], rules[-1] + 1)


def landlock_all() -> int:
    """
    Close every file, and TCP, signals to others and abstract sockets if the kernel's Landlock knows them.

    Returns the ABI; 0 if there is no Landlock.
    """
    if abi := landlock_abi():
        ruleset = _ruleset(_handled(abi), False, abi)
        try:
            _restrict(ruleset, abi)
        finally:
            os.close(ruleset)
    return abi


def _handled(abi: int) -> int:
    """All rights over files that this ABI knows."""
    return sum(rights for since, rights in _RIGHTS.items() if since <= abi)


def _needed_abi(least: int = SCOPES) -> int:
    abi = landlock_abi()
    if abi < least:
        raise OSError(errno.ENOSYS, f"Landlock {least} is needed; this kernel offers {abi}")
    return abi


def _ruleset(files: int, network: bool, abi: int) -> int:
    connecting = 0 if network else _BIND_TCP | _CONNECT_TCP
    attributes = struct.pack("QQQ", files, connecting, _SCOPE_SOCKETS | _SCOPE_SIGNALS)
    attributes = attributes[: 8 if abi < _TCP else 16 if abi < SCOPES else 24]
    return _syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _allow_ports(ruleset: int, ports: list[int] | tuple[int, ...], network: bool, abi: int) -> None:
    for port in () if network or abi < _TCP else ports:
        _syscall(_ADD_RULE, ruleset, _NET_PORT, struct.pack("QQ", _CONNECT_TCP, port), 0)


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
    """Empty the bounding set as far as allowed; where it is not, no_new_privs has the same effect."""
    if not capabilities()[0] & 1 << _SETPCAP:
        return
    capability = 0
    while _libc.prctl(_CAPBSET_READ, ctypes.c_ulong(capability)) >= 0:
        _prctl(_CAPBSET_DROP, capability)
        capability += 1


def capabilities() -> tuple[int, int, int]:
    """Return bit sets: effective, permitted, inheritable."""
    sets = ctypes.create_string_buffer(24)
    _check(_libc.capget(_capability_header(), sets), "capget")
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
    _check(_libc.prctl(option, ctypes.c_ulong(first), last, unused, unused), f"prctl {option}")


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    taken = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *taken), f"system call {number}")


def _check(returned: int, what: str) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return returned
