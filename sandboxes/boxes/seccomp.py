"""
The seccomp filter: which system calls a script may make.

What namespaces, Landlock and limits cannot close, or only on some kernels, is refused here by number and, for a few
calls, by argument. The program is classic BPF as `prctl(PR_SET_SECCOMP)` takes it: a binary search over the numbers,
about eleven steps per call. The kernel remembers the numbers that are allowed whatever their arguments, so usual calls
never run it (Linux 5.11 and later).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

from sandboxes.boxes.syscalls import AARCH64, NEWEST, PLAIN_AARCH64, PLAIN_X86_64, X86_64
from sandboxes.errors import SandboxUnavailableError

Code = list[tuple[int, int, int, int]]
"""Instructions: operation, jump if true, jump if false, constant. Every path ends in a verdict."""

_MACHINES = {"x86_64": (0xC000_003E, X86_64), "aarch64": (0xC000_00B7, AARCH64)}

_PLAIN = {"x86_64": PLAIN_X86_64, "aarch64": PLAIN_AARCH64}

_KNOWN = X86_64.keys() | AARCH64.keys()

UNUSED_CALLS = {"x86_64": ((337, 423),), "aarch64": ((244, 259), (295, 423))}
"""
Ranges of numbers that no call has (yet), both ends included. 335 and 336 of x86_64 are the kernel's own return from a
probe.
"""

# linux/bpf_common.h and linux/seccomp.h
_LOAD, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

_KILLED: Code = [(_RETURN, 0, 0, 0x8000_0000)]
_ALLOWED: Code = [(_RETURN, 0, 0, 0x7FFF_0000)]


def _fail(number: int) -> Code:
    return [(_RETURN, 0, 0, 0x0005_0000 | number)]


_EPERM = _fail(errno.EPERM)
_EACCES = _fail(errno.EACCES)
_ENOSYS = _fail(errno.ENOSYS)
_PRETENDED = _fail(0)
"""The call is not made, and returns 0."""

_REFUSED = """
    execve execveat
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd
    bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents
    keyctl add_key request_key lsm_set_self_attr
    mount umount2 pivot_root chroot move_mount fsopen fsconfig fsmount fspick open_tree open_tree_attr
    mount_setattr statmount listmount unshare setns name_to_handle_at open_by_handle_at
    memfd_create memfd_secret shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl quotactl_fd
    settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname
    personality syslog lookup_dcookie nfsservctl vhangup uselib ustat sysfs _sysctl iopl ioperm modify_ldt
    fanotify_init fanotify_mark inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
    mbind set_mempolicy set_mempolicy_home_node migrate_pages move_pages remap_file_pages cachestat
    vmsplice splice tee sync syncfs ioprio_set landlock_add_rule setsid
"""
"""
Starting programs, access to other processes, kernel services that no evaluator needs, memory that no limit counts.

inotify reveals the names of files that cannot be opened, and `sync` stalls the whole machine. A nested Landlock domain
needs no rules, which the kernel keeps in uncounted memory. The scheduler gives each session an equal share of the
processor, so that a box must stay one session.
"""

_METADATA = """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat
    file_setattr file_getattr
    setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
    getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat
"""
"""What Landlock does not control, so that it could reach every file of the host that the user owns."""

_OTHERS = ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr", "prlimit64")
"""Their first argument is a process; 0 is the caller itself."""

_CONNECTING = ("bind", "connect", "listen", "accept", "accept4")

# CLONE_NEW* that clone() reads, and CLONE_PARENT, which would hand the new process to the one that waits for us.
_CLONE_FLAGS = 0x7E02_0000 | 0x8000

# PDEATHSIG, DUMPABLE, MM, CHILD_SUBREAPER, SCHED_CORE, MEMORY_MERGE, PTRACER: how the box holds its processes.
_PRCTL = (1, 4, 35, 36, 62, 67, 0x5961_6D61)

# What Python and C libraries ask of a descriptor: TCGETS, TCGETS2, TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX,
# FIOCLEX. All else is refused: TIOCSTI and TIOCLINUX type into the terminal, FS_IOC_SETFLAGS and FS_IOC_ENABLE_VERITY
# change a file that is merely open for reading.
_IOCTL = (0x5401, 0x802C_542A, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_IOCTL_NETWORK = (0x8910, 0x8912, 0x8913, 0x8915, 0x891B, 0x8921, 0x8927, 0x8933)
"""Reading the interfaces' names, addresses, flags and sizes."""

# DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, SETOWN, GETOWN, SETSIG, GETSIG, SETOWN_EX, GETOWN_EX, OFD_GETLK, GETLEASE,
# DUPFD_CLOEXEC, GETPIPE_SZ, GET_SEALS. Not: leases, delegations, notices and hints, which hold up or mark files of
# others; SETPIPE_SZ, which is kernel memory; what is yet to come.
_FCNTL = (*range(6), *range(8, 12), 15, 16, 36, 1025, 1030, 1032, 1034)
_LOCKS = (6, 7, 37, 38)
"""
SETLK, SETLKW, OFD_SETLK, OFD_SETLKW.

A lock on a file of the host would hold up the host's own programs, and other boxes. The filter cannot see which file is
meant, so all locks, `flock` included, are granted but not taken: programs that expect one (such as SQLite) work, and a
box has at most one run at a time that can make files.
"""

# MAP_SHARED and MAP_ANONYMOUS together: such memory stays, and is nobody's, once it is no longer mapped.
_SHARED_MEMORY = 0x21

# SOL_SOCKET, and SNDBUF, RCVBUF, SNDBUFFORCE, RCVBUFFORCE: memory of the kernel.
_SOCKET_LEVEL, _SOCKET_BUFFERS = 1, (7, 8, 32, 33)

_EXECUTABLE = 4
"""PROT_EXEC: the code of a Wasm worker is all there before its filter is."""
_WORKER_IOCTL = (*_IOCTL, 0xC060_6610)
"""With PAGEMAP_SCAN, on the page map that the worker has open."""
_WORKER_FCNTL = (1, 2, 3)
"""GETFD, SETFD, GETFL."""
# What an older Landlock cannot forbid, in the ABI that brought it.
_MOVED_SINCE, _MOVING = 2, ("link", "linkat", "rename", "renameat", "renameat2")
_TRUNCATED_SINCE, _TRUNCATING = 3, ("truncate", "ftruncate")
_DEVICES_SINCE = 5
_SIGNALS_SINCE, _SIGNAL_OWNERS = 6, (8, 10, 15)
"""SETOWN, SETSIG, SETOWN_EX: the kernel sends a signal to whom they name."""

_OPENING = (("open", 1), ("openat", 2))
"""The calls, and which argument has their flags; `openat2` has them in memory, which a filter cannot read."""
_ACCESS, _WRITES, _NEITHER, _TRUNCATES = 0o3, (0o1, 0o2), 0o3, 0o1000

_PROCESS = 0  # of setpriority: not a group of processes, not all that the user runs
_UNIX, _INET, _INET6 = 1, 2, 10
_STREAM, _DATAGRAM, _SEQPACKET = 1, 2, 5
_TCP, _UDP = 6, 17


def program(
    machine: str,
    *,
    network: bool,
    metadata: bool,
    starts: bool = False,
    landlock: int | None = None,
    loopback: bool = False,
) -> bytes:
    """
    Return the filter for one kind of machine, as `uname -m` names it, ready for `sock_fprog`.

    Refused calls fail with EPERM; those that make a connection with EACCES; `clone3`, whose flags cannot be read here,
    and numbers that are unknown or of the x32 kind with ENOSYS, to which C libraries respond with an older call.
    Locking a file does nothing and succeeds. A call by the rules of another machine kills the process. `network` opens
    TCP and UDP; `metadata` also closes calls that change or read a file's owner, mode, times and attributes, for boxes
    that share the host's files. `starts` allows `execve`, for boxes whose inner process becomes another program; the
    file system decides which. `landlock`: the version that shuts the box in, where it does; what newer ones forbid is
    refused here (but for signals, which `confine.own_signals` refuses). `loopback` without `network` opens TCP sockets
    of IPv4 that connect, and never serve, for boxes with a network of their own.

    Raises:
        SandboxUnavailableError: For a machine whose numbers are not known here.
    """
    if machine not in _MACHINES:
        raise SandboxUnavailableError(
            f"the process sandbox knows no system calls of {machine!r}, only of {' and '.join(_MACHINES)}; "
            "choose another sandbox, for instance wasm"
        )
    _, numbers = _MACHINES[machine]
    rules = {}
    for name, code in _rules(network, metadata, starts, landlock or _SIGNALS_SINCE, loopback).items():
        if name in numbers or name not in _KNOWN:  # a name that no machine has is a mistake
            rules[numbers[name]] = code
    for first, last in UNUSED_CALLS[machine]:
        rules |= dict.fromkeys(range(first, last + 1), _ENOSYS)
    return _assembled(machine, rules, _ALLOWED)


def worker_program(machine: str, pid: int) -> bytes | None:
    """
    Return the filter of a Wasm worker that has opened all it needs: what it may call, and nothing else.

    It may use its descriptors, its memory and its threads, and signal itself, the process `pid`. Nothing can be opened,
    started, connected or made executable. All else fails with EPERM; newer calls with ENOSYS, for which C libraries
    know an older one. None for a machine whose numbers are not known here.
    """
    if machine not in _MACHINES:
        return None
    _, numbers = _MACHINES[machine]
    special = {
        "tgkill": _one_of(0, (pid,), _ALLOWED, _EPERM),
        "sched_getaffinity": _one_of(0, (0,), _ALLOWED, _EPERM),
        "mprotect": _one_of(2, (_EXECUTABLE,), _EPERM, _ALLOWED, mask=_EXECUTABLE),
    }
    rules = {number: special.get(name, _ALLOWED) for name, number in _PLAIN[machine].items()}
    rules[numbers["memfd_create"]] = _ALLOWED
    rules[numbers["mmap"]] = _one_of(2, (_EXECUTABLE,), _EPERM, _ALLOWED, mask=_EXECUTABLE)
    rules[numbers["ioctl"]] = _one_of(1, _WORKER_IOCTL, _ALLOWED, _EPERM)
    rules[numbers["fcntl"]] = _one_of(1, _WORKER_FCNTL, _ALLOWED, _EPERM)
    rules[numbers["clone3"]] = _ENOSYS
    return _assembled(machine, rules, _EPERM)


def _assembled(machine: str, rules: dict[int, Code], other: Code) -> bytes:
    """The program: these verdicts by number, and one for all others that are known."""
    search = _load(_NUMBER) + _search(_pieces(rules, other))
    code = _load(_ARCHITECTURE) + _branch(_EQUAL, _MACHINES[machine][0], search, _KILLED)
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _rules(network: bool, metadata: bool, starts: bool, landlock: int, loopback: bool) -> dict[str, Code]:
    """The verdicts for all calls that are not simply allowed."""
    others = _argument(0) + _branch(_EQUAL, 0, _ALLOWED, _EPERM)
    refused = set(_REFUSED.split() + (_METADATA.split() if metadata else [])) - ({"execve"} if starts else set())
    rules = dict.fromkeys(refused, _EPERM) | dict.fromkeys(_OTHERS, others)
    if not network:
        rules |= dict.fromkeys((name for name in _CONNECTING if not (loopback and name == "connect")), _EACCES)
    rules |= _in_place_of(landlock)
    asked = tuple(command for command in _FCNTL if landlock >= _SIGNALS_SINCE or command not in _SIGNAL_OWNERS)
    pair = _one_of(1, (_STREAM, _SEQPACKET), _ALLOWED, _EACCES, mask=0xF)  # a datagram one can be sent elsewhere
    return rules | {
        "clone3": _ENOSYS,
        "clone": _argument(0) + _branch(_ANY_BIT, _CLONE_FLAGS, _EPERM, _ALLOWED),
        "mmap": _one_of(3, (_SHARED_MEMORY,), _EPERM, _ALLOWED, mask=_SHARED_MEMORY),
        "setsockopt": _one_of(1, (_SOCKET_LEVEL,), _one_of(2, _SOCKET_BUFFERS, _EPERM, _ALLOWED), _ALLOWED),
        "prctl": _one_of(0, _PRCTL, _EPERM, _ALLOWED),
        "ioctl": _one_of(1, _IOCTL + (_IOCTL_NETWORK if network else ()), _ALLOWED, _EPERM),
        "fcntl": _one_of(1, _LOCKS, _PRETENDED, _one_of(1, asked, _ALLOWED, _EPERM)),
        "flock": _PRETENDED,
        "setpriority": _one_of(0, (_PROCESS,), _one_of(1, (0,), _ALLOWED, _EPERM), _EPERM),
        "socket": _internet() if network else _loopback() if loopback else _EACCES,
        "socketpair": _one_of(0, (_UNIX,), pair, _EACCES),
    }


def _in_place_of(landlock: int) -> dict[str, Code]:
    """
    What later versions of Landlock forbid. TCP and other programs' sockets are closed in any case.

    Opening for writing is Landlock's, with whatever else is asked. Truncating needs no such right of an older one, nor
    does opening neither to read nor to write, which truncates too, and reaches a device's ioctl.
    """
    rules: dict[str, Code] = {}
    if landlock < _MOVED_SINCE:
        rules |= dict.fromkeys(_MOVING, _EACCES)
    if landlock < _TRUNCATED_SINCE:
        rules |= dict.fromkeys(_TRUNCATING, _EACCES)
    if landlock < _DEVICES_SINCE:
        rules["openat2"] = _ENOSYS
        for name, at in _OPENING:
            truncates = _one_of(at, (_TRUNCATES,), _EACCES, _ALLOWED, mask=_TRUNCATES)
            reads = truncates if landlock < _TRUNCATED_SINCE else _ALLOWED
            rules[name] = _one_of(
                at, _WRITES, _ALLOWED, _one_of(at, (_NEITHER,), _EACCES, reads, mask=_ACCESS), mask=_ACCESS
            )
    return rules


def _internet() -> Code:
    """TCP and UDP sockets: no raw ones, no other protocol, no other family, such as the host's own sockets."""
    protocol = _one_of(2, (0, _TCP, _UDP), _ALLOWED, _EACCES)
    kind = _one_of(1, (_STREAM, _DATAGRAM), protocol, _EACCES, mask=0xF)
    return _one_of(0, (_INET, _INET6), kind, _EACCES)


def _loopback() -> Code:
    """TCP of IPv4 alone."""
    protocol = _one_of(2, (0, _TCP), _ALLOWED, _EACCES)
    return _one_of(0, (_INET,), _one_of(1, (_STREAM,), protocol, _EACCES, mask=0xF), _EACCES)


def _pieces(rules: dict[int, Code], other: Code) -> list[tuple[int, Code]]:
    """The line of all numbers, cut where the verdict changes: the first number of each piece, and its verdict."""
    pieces: list[tuple[int, Code]] = []
    for number in range(NEWEST + 1):
        code = rules.get(number, other)
        if not pieces or code != pieces[-1][1]:
            pieces.append((number, code))
    return [*pieces, (NEWEST + 1, _ENOSYS)]


def _search(pieces: list[tuple[int, Code]]) -> Code:
    if len(pieces) == 1:
        return pieces[0][1]
    middle = len(pieces) // 2
    return _branch(_AT_LEAST, pieces[middle][0], _search(pieces[middle:]), _search(pieces[:middle]))


def _one_of(argument: int, values: Iterable[int], yes: Code, no: Code, mask: int | None = None) -> Code:
    code = no
    for value in reversed(tuple(values)):
        code = _branch(_EQUAL, value, yes, code)
    return _argument(argument) + ([] if mask is None else [(_AND, 0, 0, mask)]) + code


def _branch(test: int, constant: int, yes: Code, no: Code) -> Code:
    if len(yes) <= 0xFF:
        return [(test, 0, len(yes), constant), *yes, *no]
    return [(test, 1, 0, constant), (_JUMP, 0, 0, len(yes)), *yes, *no]  # a conditional jump has eight bits


def _argument(index: int) -> Code:
    """Load the argument's lower 32 bits, all that the kernel reads in these calls; both machines are little-endian."""
    return _load(_ARGUMENTS + 8 * index)


def _load(offset: int) -> Code:
    return [(_LOAD, 0, 0, offset)]
