"""The filter's programs, run by a small interpreter here, so that both machines can be checked on either."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from sandboxes.boxes.seccomp import UNUSED_CALLS, program, worker_program
from sandboxes.boxes.syscalls import AARCH64, NEWEST, PLAIN_AARCH64, PLAIN_X86_64, X86_64
from sandboxes.errors import SandboxUnavailableError

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {"x86_64": X86_64, "aarch64": AARCH64}
PLAIN = {"x86_64": PLAIN_X86_64, "aarch64": PLAIN_AARCH64}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOW, KILL = "allow", "kill"

# Must never be had, in any kind of box.
REFUSED = """
    execve execveat ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd bpf perf_event_open
    userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key mount umount2 pivot_root
    chroot move_mount fsopen fsconfig fsmount fspick open_tree mount_setattr statmount listmount unshare setns
    memfd_create memfd_secret shmget msgget semget mq_open name_to_handle_at open_by_handle_at kexec_load
    kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct quotactl settimeofday
    clock_settime adjtimex clock_adjtime personality syslog fanotify_init inotify_init1 inotify_add_watch iopl ioperm
    mbind set_mempolicy move_pages migrate_pages vmsplice landlock_add_rule
    setsid
"""
METADATA = """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr
    fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
"""
NEEDED = {
    "x86_64": {
        "read": 0, "write": 1, "open": 2, "mmap": 9, "mprotect": 10, "rt_sigaction": 13, "fork": 57, "exit": 60,
        "kill": 62, "futex": 202, "getdents64": 217, "openat": 257, "set_robust_list": 273, "getrandom": 318,
        "membarrier": 324, "statx": 332, "rseq": 334,
    },
    "aarch64": {
        "read": 63, "write": 64, "openat": 56, "mmap": 222, "mprotect": 226, "rt_sigaction": 134, "exit": 93,
        "kill": 129, "futex": 98, "getdents64": 61, "set_robust_list": 99, "getrandom": 278, "membarrier": 283,
        "statx": 291, "rseq": 293,
    },
}  # fmt: skip
COMMON = {"pidfd_open": 434, "close_range": 436, "openat2": 437, "landlock_create_ruleset": 444,
          "landlock_restrict_self": 446, "futex_wait": 455}  # fmt: skip

every_machine = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
every_box = pytest.mark.parametrize(
    ("network", "metadata"), [(False, False), (False, True), (True, False), (True, True)]
)


def verdict(code: bytes, number: int, *arguments: int, architecture: int) -> tuple[int | str, int]:
    """What the kernel would do with the call, and after how many steps."""
    instructions = list(struct.iter_unpack("<HBBI", code))
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(a & (1 << 64) - 1 for a in (*arguments, *[0] * 6)[:6]))
    at = accumulator = steps = 0
    while True:
        operation, yes, no, constant = instructions[at]
        steps += 1
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, constant)
            case 0x54:
                accumulator &= constant
            case 0x05:
                at += constant
            case 0x15:
                at += yes if accumulator == constant else no
            case 0x35:
                at += yes if accumulator >= constant else no
            case 0x45:
                at += yes if accumulator & constant else no
            case 0x06:
                meanings = {0x7FFF0000: ALLOW, 0x80000000: KILL}
                return meanings.get(constant, constant & 0xFFFF), steps
            case _:
                raise AssertionError(f"unknown instruction {operation:#x}")


def judged(
    machine: str,
    name: str | int,
    *arguments: int,
    network: bool = False,
    metadata: bool = False,
    landlock: int | None = None,
) -> int | str:
    number = name if isinstance(name, int) else NUMBERS[machine][name]
    code = program(machine, network=network, metadata=metadata, landlock=landlock)
    return verdict(code, number, *arguments, architecture=ARCHITECTURES[machine])[0]


@every_machine
@every_box
def test_every_number_has_its_verdict(machine: str, network: bool, metadata: bool) -> None:
    code = program(machine, network=network, metadata=metadata)
    numbers = NUMBERS[machine]
    refused = {numbers[name] for name in (REFUSED + METADATA * metadata).split() if name in numbers}
    ruled = set(numbers.values())
    unused = {n for first, last in UNUSED_CALLS[machine] for n in range(first, last + 1)} | {numbers["clone3"]}
    for number in range(NEWEST + 200):
        found, steps = verdict(code, number, architecture=ARCHITECTURES[machine])
        assert steps < 32
        if number in unused or number > NEWEST:
            assert found == errno.ENOSYS, number
        elif number in refused:
            assert found == errno.EPERM, number
        elif number not in ruled:
            assert found == ALLOW, number


@every_machine
@every_box
def test_what_every_program_needs_is_allowed(machine: str, network: bool, metadata: bool) -> None:
    for name, number in (NEEDED[machine] | COMMON).items():
        assert judged(machine, number, network=network, metadata=metadata) == ALLOW, name


@every_machine
def test_the_rules_have_the_numbers_of_the_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", HEADERS[machine].read_text(), re.MULTILINE)
    header = {name: int(number) for name, number in found}
    newest = max(n for name, n in header.items() if name != "syscalls" and n < 1000)
    known = {name: number for name, number in (NUMBERS[machine] | PLAIN[machine]).items() if number <= newest}
    assert len(known) > 100
    assert {name: header.get(name) for name in known} == known
    # What is refused must not lack on one machine only because its name was forgotten there.
    assert {name for name in (X86_64 | AARCH64) if name in header} <= set(NUMBERS[machine])


@every_machine
@every_box
def test_it_is_small_and_every_jump_leads_somewhere(machine: str, network: bool, metadata: bool) -> None:
    code = list(struct.iter_unpack("<HBBI", program(machine, network=network, metadata=metadata)))
    assert len(code) < 512  # the kernel takes 4096
    for at, (operation, yes, no, constant) in enumerate(code):
        if operation & 7 == 5:
            assert at + 1 + max((constant,) if operation == 5 else (yes, no)) < len(code)
    assert code[-1][0] == 6


@every_machine
def test_other_machines_and_unknown_numbers(machine: str) -> None:
    code = program(machine, network=True, metadata=False)
    other = ARCHITECTURES["aarch64" if machine == "x86_64" else "x86_64"]
    for foreign in (other, 0x40000003, 0x40000028, 0):  # 32-bit x86 and ARM
        assert verdict(code, 0, architecture=foreign)[0] == KILL
    for number in (0x4000_0000, 0x4000_0000 + 520, 0xFFFF_FFFF, NEWEST + 1):  # x32 is what sets bit 30
        assert verdict(code, number, architecture=ARCHITECTURES[machine])[0] == errno.ENOSYS


@every_machine
def test_clone_makes_no_namespace(machine: str) -> None:
    thread, fork, spawn = 0x3D0F00, 0x1200011, 0x4111
    for flags in (thread, fork, spawn):
        assert judged(machine, "clone", flags) == ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x8000):
        assert judged(machine, "clone", fork | flag) == errno.EPERM
    assert judged(machine, "clone3") == errno.ENOSYS


@every_machine
def test_arguments_are_read_as_the_kernel_reads_them(machine: str) -> None:
    above = 0xDEAD_BEEF << 32  # the kernel cuts these off, so must we
    assert judged(machine, "clone", above | 0x10000000) == errno.EPERM
    assert judged(machine, "prctl", above | 1) == errno.EPERM
    assert judged(machine, "ioctl", 0, above | 0x5412) == errno.EPERM
    assert judged(machine, "ioctl", 0, above | 0x5401) == ALLOW
    assert judged(machine, "prlimit64", above) == ALLOW
    assert judged(machine, "socket", above | 2, above | 1, network=True) == ALLOW
    assert judged(machine, "socket", above | 1, 1, network=True) == errno.EACCES


@every_machine
def test_prctl_fcntl_and_ioctl(machine: str) -> None:
    for option in (1, 4, 35, 36):  # the box decides on death signals, dumps and reaping
        assert judged(machine, "prctl", option) == errno.EPERM
    for option in (2, 3, 15, 16, 22, 38):
        assert judged(machine, "prctl", option) == ALLOW
    for request in (0x5412, 0x541C, 0x40086602, 0x40806685, 0x401C5820):  # TIOCSTI, TIOCLINUX, flags, verity, project
        assert judged(machine, "ioctl", 0, request) == errno.EPERM
    for request in (0x5401, 0x5413, 0x5421, 0x5451):
        assert judged(machine, "ioctl", 0, request) == ALLOW
    for command in (0, 1, 2, 3, 4, 5, 36, 1030):
        assert judged(machine, "fcntl", 0, command) == ALLOW
    for command in (1024, 1026, 1031, 1036, 1040, 1050, 2000):  # leases, notices, sizes, hints, delegations, new ones
        assert judged(machine, "fcntl", 0, command) == errno.EPERM


@every_machine
@every_box
def test_locks_of_files_are_granted_and_never_taken(machine: str, network: bool, metadata: bool) -> None:
    for command in (6, 7, 37, 38):
        assert judged(machine, "fcntl", 3, command, network=network, metadata=metadata) == 0
    assert judged(machine, "flock", 3, 2, network=network, metadata=metadata) == 0


@every_machine
def test_no_memory_that_is_nobodys(machine: str) -> None:
    for flags in (0x21, 0x23, 0x4021, 0x8021):  # SHARED or SHARED_VALIDATE with ANONYMOUS, NORESERVE, POPULATE
        assert judged(machine, "mmap", 0, 4096, 3, flags) == errno.EPERM
    for flags in (0x22, 0x2, 0x1, 0x4022, 0x20022):
        assert judged(machine, "mmap", 0, 4096, 3, flags) == ALLOW
    for option in (7, 8, 32, 33):
        assert judged(machine, "setsockopt", 3, 1, option) == errno.EPERM
    assert judged(machine, "setsockopt", 3, 1, 2) == ALLOW
    assert judged(machine, "setsockopt", 3, 6, 7) == ALLOW


@every_machine
def test_other_processes_are_left_alone(machine: str) -> None:
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert judged(machine, name, 0) == ALLOW
        assert judged(machine, name, 1234) == errno.EPERM
    assert judged(machine, "setpriority", 0, 0) == ALLOW
    for which, who in ((0, 1), (1, 0), (2, 0)):
        assert judged(machine, "setpriority", which, who) == errno.EPERM


@every_machine
def test_sockets(machine: str) -> None:
    stream, datagram, raw, packet, flags = 1, 2, 3, 5, 0o2004000
    for family in range(50):
        assert judged(machine, "socket", family, stream) == errno.EACCES
        for kind in range(12):
            found = judged(machine, "socket", family, kind | flags, network=True)
            assert found == (ALLOW if family in (2, 10) and kind in (stream, datagram) else errno.EACCES)
    assert judged(machine, "socket", 2, stream, 6, network=True) == ALLOW
    assert judged(machine, "socket", 2, stream, 132, network=True) == errno.EACCES  # SCTP
    for network in (False, True):
        assert judged(machine, "socketpair", 1, stream | flags, network=network) == ALLOW
        assert judged(machine, "socketpair", 1, packet, network=network) == ALLOW
        for family, kind in ((1, datagram), (1, raw), (30, stream), (30, packet)):
            assert judged(machine, "socketpair", family, kind, network=network) == errno.EACCES
        for name in ("connect", "bind", "listen", "accept", "accept4"):
            assert judged(machine, name, network=network) == (ALLOW if network else errno.EACCES)


@every_machine
@pytest.mark.parametrize("landlock", [1, 2, 3, 4, 5, 6, None])
def test_what_an_older_landlock_cannot_forbid_is_refused(machine: str, landlock: int | None) -> None:
    version = landlock or 6

    def refused(since: int) -> int | str:
        return errno.EACCES if version < since else ALLOW

    for name in ("link", "linkat", "rename", "renameat", "renameat2"):
        if name in NUMBERS[machine]:
            assert judged(machine, name, landlock=landlock) == refused(2)
    for name in ("truncate", "ftruncate"):
        assert judged(machine, name, landlock=landlock) == refused(3)
    assert judged(machine, "openat2", landlock=landlock) == (errno.ENOSYS if version < 5 else ALLOW)
    others = 0o2000000 | 0o100 | 0o4000  # CLOEXEC, CREAT, NONBLOCK
    for name, before in (("open", (0,)), ("openat", (-100, 0))):
        if name not in NUMBERS[machine]:
            continue
        for flags in (0, others):
            assert judged(machine, name, *before, flags, landlock=landlock) == ALLOW
            assert judged(machine, name, *before, flags | 0o1000, landlock=landlock) == refused(3)
            assert judged(machine, name, *before, flags | 3, landlock=landlock) == refused(5)
            assert judged(machine, name, *before, flags | 0o1003, landlock=landlock) == refused(5)
            for writes in (1, 2):  # Landlock's
                assert judged(machine, name, *before, flags | 0o1000 | writes, landlock=landlock) == ALLOW
    for command in (8, 10, 15):
        assert judged(machine, "fcntl", 0, command, landlock=landlock) == (errno.EPERM if version < 6 else ALLOW)
    for command in (0, 1, 2, 3, 4, 9, 11, 1030):
        assert judged(machine, "fcntl", 0, command, landlock=landlock) == ALLOW
    for name in ("socket", "connect", "bind"):  # of any kind, whatever the version
        assert judged(machine, name, 1, 1, landlock=landlock) == errno.EACCES


@pytest.mark.parametrize("machine", ["i686", "riscv64", "arm64", ""])
def test_an_unknown_machine_is_refused(machine: str) -> None:
    with pytest.raises(SandboxUnavailableError, match="knows no system calls"):
        program(machine, network=False, metadata=False)


@every_machine
def test_a_wasm_worker_may_make_no_call_but_those_that_are_listed(machine: str) -> None:
    code = worker_program(machine, 77)
    assert code is not None
    numbers = NUMBERS[machine] | PLAIN[machine]

    def judge(call: str | int, *arguments: int) -> int | str:
        number = numbers[call] if isinstance(call, str) else call
        found, steps = verdict(code, number, *arguments, architecture=ARCHITECTURES[machine])
        assert steps < 40
        return found

    listed = {*PLAIN[machine].values(), *(numbers[name] for name in ("memfd_create", "mmap", "ioctl", "fcntl"))}
    for number in range(NEWEST + 200):
        if number == numbers["clone3"] or number > NEWEST:
            assert judge(number) == errno.ENOSYS, number
        elif number not in listed:
            assert judge(number, 77, 77, 77) == errno.EPERM, number
    for name in ("read", "write", "pread64", "close", "futex", "munmap", "madvise", "rt_sigreturn", "memfd_create"):
        assert judge(name) == ALLOW, name
    executable = 4
    for name in ("mmap", "mprotect"):
        assert judge(name, 0, 4096, 3) == ALLOW
        assert judge(name, 0, 4096, 3 | executable) == errno.EPERM
    assert (judge("tgkill", 77, 80, 6), judge("tgkill", 78, 78, 6)) == (ALLOW, errno.EPERM)
    assert (judge("sched_getaffinity", 0), judge("sched_getaffinity", 1)) == (ALLOW, errno.EPERM)
    assert (judge("ioctl", 9, 0xC0606610), judge("ioctl", 0, 0x5412)) == (ALLOW, errno.EPERM)  # TIOCSTI
    assert (judge("fcntl", 1, 1), judge("fcntl", 1, 8), judge("fcntl", 1, 0)) == (ALLOW, errno.EPERM, errno.EPERM)
    other = ARCHITECTURES["aarch64" if machine == "x86_64" else "x86_64"]
    assert verdict(code, 0, architecture=other)[0] == KILL


def test_no_filter_of_a_wasm_worker_is_made_for_an_unknown_machine() -> None:
    assert worker_program("riscv64", 1) is None
