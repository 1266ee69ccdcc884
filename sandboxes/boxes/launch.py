"""Plan how to start a box in each tier: the command line, the files that it sees, its first message."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import marshal
import os
import platform
import py_compile
import random
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sandboxes import guest
from sandboxes.boxes import landlock, seccomp
from sandboxes.boxes.host_files import View, for_network, is_loader, reachable
from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.supervisor import procfs
from sandboxes.judges.host_doors import WrittenHosts

Tier = Literal["A", "B", "C"]

PROTECTS: dict[Tier, str] = {
    "A": "bubblewrap: own file system, network, processes and users; seccomp, resource limits",
    "B": "Landlock and seccomp: listed files only, no sockets, no signals to others; resource limits; no /tmp",
    "C": "seccomp and resource limits; the script can READ EVERY FILE that you can; only where it is allowed",
}

TMP, TMP_SIZE, TMP_FILES = "/tmp", 64 << 20, 4096
"""The private folder, its bytes and its files; the kernel itself would allow any number of empty files."""
ROWS = "/rows"
"""The folders of runs beside each other, by the numbers of their seats."""
GUEST = Path(guest.__file__).parent
"""The guest's folder, which a box sees besides its Python."""

_GUEST = "/evalcell/guest"
_PIPES = "/pipes"
_PYTHON = ("-s", "-S", "-P", "-B")
VARIABLES = {
    # Sets of strings have the same order in every box, so that a result does not depend on where its row ran.
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "LC_ALL": "C.UTF-8",
    # A box is one worker: a thread for each core, or functions that are looked up late, would slow down each fork.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "LD_BIND_NOW": "1",
    # It would start programs, which no script may; without it, joblib computes in the script's own process.
    "JOBLIB_MULTIPROCESSING": "0",
    # Large arrays come from the heap, which a fork already has, rather than from new mappings.
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=67108864:glibc.malloc.trim_threshold=134217728",
}
_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
_ROOM = 256
"""Processes that a user may start beside a box whose processes are counted together with theirs."""
_PORTS_OF_ALL = 1024
"""Those below are for who has a right to them."""
_SPARE_UIDS = range(61184, 65520)
"""Uids that systemd gives to transient services; no user has them."""


@dataclass(frozen=True)
class Inner:
    """What runs in a box once its rights are given up, and what that may start."""

    backend: str
    module: str
    """Of the package `guest`; its `serve` is called."""
    processes: int
    descriptors: int
    """
    Most processes and threads of a box, and most open files of each.

    Only these bound the kernel's memory for them (mostly the buffers of sockets, 208 KB each), which does not count as
    any process's own.
    """
    program: str | None = None
    """The only executable file that it may start."""
    tmp: bool = True
    """Whether it has a folder to write to, if the tier has one."""

    def arguments(self, package: str) -> tuple[str, str]:
        """Return the arguments for Python, where the folder `package` is `guest`."""
        return f"{package}/box/boot.py", self.module


@dataclass(frozen=True)
class BoxSetup:
    """What a box sees besides its Python."""

    inner: Inner
    view: View
    packages: Path | None = None
    files: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    network: bool = False
    disk: int = TMP_SIZE  # bytes of the private folder
    ports: tuple[int, ...] = ()
    """On the loopback of its own network, which the host serves."""
    beside: int = 0
    """How many runs go on beside each other, each in a folder of its own where there is one."""
    written: WrittenHosts = field(default_factory=WrittenHosts)
    """Hosts as scripts write them."""

    def written_in(self, tier: Tier) -> WrittenHosts:
        """Return them in a tier: only A has a file of hosts of its own."""
        return self.written if tier == "A" else WrittenHosts()


@dataclass(frozen=True)
class Plan:
    """All that is needed to start a box."""

    tier: Tier
    command: tuple[str, ...]
    boot: dict[str, Any]
    program: bytes
    variables: dict[str, str]
    descriptors: tuple[int, ...] = ()


@functools.cache
def _compile_guest(inner: Inner) -> None:
    """Compile the box's own modules, so that it need not do so at each start, if the cache beside them is writable."""
    folders = (GUEST, GUEST / "box", GUEST / inner.module.partition(".")[0])
    for source in (file for folder in folders for file in folder.glob("*.py")):
        kept = Path(importlib.util.cache_from_source(str(source)))
        with contextlib.suppress(OSError):
            if not kept.exists() or kept.stat().st_mtime < source.stat().st_mtime:
                py_compile.compile(str(source), quiet=2)
                _remove_cut(kept)


def _remove_cut(compiled: Path) -> None:
    """Remove a file that Python has written in part, as it does on a full disk: no box would start again."""
    try:
        marshal.loads(compiled.read_bytes()[16:])
    except (EOFError, ValueError, TypeError):
        compiled.unlink()


def plan(tier: Tier, setup: BoxSetup, bwrap: str | None, pipes: Path | None = None) -> Plan:
    """
    Plan a box. `pipes` is a folder of the host with named pipes, and maybe files, that the box may open.

    Raises:
        SandboxUnavailableError: For an unknown processor, and for a Python that scripts could not see.
    """
    _compile_guest(setup.inner)
    return _own_root(setup, bwrap or "bwrap", pipes) if tier == "A" else _same_root(tier, setup, pipes)


def _own_root(setup: BoxSetup, bwrap: str, pipes: Path | None) -> Plan:
    """Tier A: a root of its own, with nothing in it but what is listed here."""
    root, view = os.geteuid() == 0, setup.view
    if setup.inner.tmp:
        view.refuse_below(TMP)
    arguments = [bwrap, "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--as-pid-1"]
    arguments += ["--hostname", "evalcell", "--new-session", "--cap-drop", "ALL"]
    # For the guardian, which mounts the private folder and then gives these up; as root it gives up its uid too.
    rights = ["SYS_ADMIN", "SETPCAP", *(["SETUID", "SETGID"] if root else [])]
    arguments += [word for right in rights for word in ("--cap-add", f"CAP_{right}")]
    arguments += [] if root else ["--unshare-user"]
    arguments += [] if setup.network else ["--unshare-net"]
    places = {name: f"/files/{name}" for name in setup.files}
    binds = {path: path for path in (*view.folders, view.python)} | view.libraries
    binds[_GUEST] = str(GUEST)
    binds |= {"/program": setup.inner.program} if setup.inner.program else {}
    binds |= {_PIPES: str(pipes)} if pipes else {}
    binds |= for_network() if setup.network else {}
    binds |= {"/packages": str(setup.packages)} if setup.packages else {}
    binds |= {places[name]: path for name, path in setup.files.items()}
    # A program may look for its own path, and has no /proc; semaphores of `multiprocessing` are files in /dev/shm.
    links = {"/proc/self/exe": "/program"} if setup.inner.program else {}
    links |= {"/dev/shm": TMP} if setup.inner.tmp else {}
    written = setup.written_in("A")
    texts = written.files()
    low = any(door.port < _PORTS_OF_ALL for door in written.doors)
    arguments += ["--cap-add", "CAP_NET_BIND_SERVICE"] if low else []
    # The folders above, too: bubblewrap would make them for its own user alone.
    for folder in _above([*binds, *_DEVICES, *links, *texts, f"{TMP}/x", *([f"{ROWS}/x"] if setup.beside else [])]):
        arguments += ["--perms", "0755", "--dir", folder]
    arguments += [word for path, source in binds.items() for word in ("--ro-bind", source, path)]
    arguments += [word for path in _DEVICES for word in ("--dev-bind", path, path)]
    for path in view.hidden:
        arguments += ["--tmpfs", path, "--remount-ro", path]
    arguments += [word for link, target in links.items() for word in ("--symlink", target, link)]
    descriptors = {path: _memory_file(text) for path, text in texts.items()}
    for path, number in descriptors.items():
        arguments += ["--perms", "0444", "--ro-bind-data", str(number), path]
    arguments += ["--remount-ro", "/", "--chdir", "/"]
    command = (*arguments, view.python, *_PYTHON, *setup.inner.arguments(_GUEST))
    uid = _spare_uid(setup.inner.backend) if root else None
    boot = {
        "tmp": [TMP, setup.disk, TMP_FILES, uid, uid] if setup.inner.tmp else None,
        "uid": uid,
        "view": None,
        "confined": True,
        "packages": "/packages" if setup.packages else None,
        "variables": places | setup.variables | written.variables(),
        **_bounds(setup, root or _counts_apart(), tries=False),
        "moved": {},
        "program": "/program",
        "pipes": _PIPES,
    }
    made = Plan("A", command, boot, b"", VARIABLES, tuple(descriptors.values()))
    return _with_kernel(made, setup, metadata=False)


def _same_root(tier: Tier, setup: BoxSetup, pipes: Path | None) -> Plan:
    """Tiers B and C: the host's own file system, of which B may read only what is listed here."""
    root = os.geteuid() == 0
    view = setup.view
    abi = landlock.abi() if tier == "B" else 0
    mute = tier == "B" and not landlock.has_scopes()
    uid = _spare_uid(setup.inner.backend) if root else None
    packages = str(setup.packages) if setup.packages else None
    started = [setup.inner.program] if setup.inner.program else []
    wanted = [*view.folders, *([packages] if packages else []), *setup.files.values(), *started]
    moved: dict[str, str] = {}
    if uid is not None:  # by a descriptor, if the uid cannot reach the path
        for path in dict.fromkeys(place for place in wanted if not reachable(place)):
            moved[path] = f"/proc/self/fd/{os.open(path, os.O_PATH | os.O_CLOEXEC)}"
    read = [*view.entries, *dict.fromkeys(view.libraries.values()), *setup.files.values()]
    read += [str(GUEST), *([packages] if packages else []), *([str(pipes)] if pipes else [])]
    loader = [path for name, path in view.libraries.items() if is_loader(name)] if started else []
    read += list(for_network().values()) if setup.network else []
    boot = {
        "tmp": None,
        "uid": uid,
        "view": {
            "read": read,
            "listed": view.folders,
            "devices": [*_DEVICES, *named_pipes(pipes)],
            "execute": [*started, *loader],
            "network": setup.network,
            "ports": setup.ports,
            "abi": abi,
        }
        if tier == "B"
        else None,
        "confined": tier == "B" and not mute,
        "mute": mute,
        "packages": moved.get(packages, packages) if packages else None,
        "variables": {name: moved.get(path, path) for name, path in setup.files.items()} | setup.variables,
        **_bounds(setup, root, tries=_counts_apart()),
        "moved": moved,
        "program": moved.get(started[0], started[0]) if started else None,
        "pipes": str(pipes),
    }
    boot["forks"] &= not mute
    command = (view.python, *_PYTHON, *setup.inner.arguments(str(GUEST)))
    descriptors = tuple(int(place.rpartition("/")[2]) for place in moved.values())
    return _with_kernel(
        Plan(tier, command, boot, b"", VARIABLES, descriptors), setup, metadata=tier == "B", abi=abi or None
    )


def _above(paths: list[str]) -> list[str]:
    """All folders above these paths, outer ones first."""
    return sorted({str(folder) for path in paths for folder in Path(path).parents} - {"/"})


def _with_kernel(made: Plan, setup: BoxSetup, *, metadata: bool, abi: int | None = None) -> Plan:
    """The plan with what the kernel is asked for in every tier."""
    linux = sys.platform.startswith("linux")
    made.boot["network"] = setup.network
    if setup.ports:
        served = [("127.0.0.1", port) for port in setup.ports]
        served += [(door.address, door.port) for door in setup.written_in(made.tier).doors]
        made.boot.update({"listen": served, "own_network": made.tier != "A"})
    made.boot["adopts"] = True
    made.boot["scope"] = linux and made.tier != "C" and landlock.has_scopes()
    if not linux:
        return made
    starts = setup.inner.program is not None
    loopback = bool(setup.ports)
    filter = functools.partial(
        seccomp.program, platform.machine(), network=setup.network, starts=starts, landlock=abi, loopback=loopback
    )
    if setup.beside:  # what such a run is refused, too
        made.boot["beside"] = filter(metadata=True).hex() if made.boot["tmp"] else ""
        made.boot["rows"] = [ROWS, setup.beside] if made.boot["tmp"] and made.boot["scope"] else None
    return replace(made, program=filter(metadata=metadata))


def _memory_file(data: bytes) -> int:
    """A descriptor of a file in memory, to be read from its beginning."""
    found = os.memfd_create("evalcell")
    os.write(found, data)
    os.lseek(found, 0, os.SEEK_SET)
    return found


def named_pipes(folder: Path | None) -> list[str]:
    return [str(path) for path in sorted(folder.iterdir()) if path.is_fifo()] if folder else []


def _bounds(setup: BoxSetup, apart: bool, *, tries: bool) -> dict[str, Any]:
    """
    The limits of a box's processes; `apart`: the kernel counts those of its user separately.

    Otherwise the box `tries` to have them counted so, in a user namespace. If that fails, no number bounds this box's
    processes alone, and a script's runs may start none.
    """
    others = 0 if apart else _own_processes()
    apart = apart or not sys.platform.startswith("linux")  # other systems have none of this
    limits = _limits(setup.inner, others) | {"FSIZE": setup.disk}
    return {"limits": limits, "users": setup.inner.processes if tries and not apart else 0, "forks": apart}


def _limits(inner: Inner, others: int) -> dict[str, int]:
    """
    The resource limits. `others`: processes of the user that are counted too, with room for more.

    Raises SandboxUnavailableError if this process's own limits are too low.
    """
    _refuse_less("NOFILE", inner.descriptors, "open files (ulimit -n)", inner.backend)
    _refuse_less("NPROC", max(0, others - _ROOM) + inner.processes, "processes (ulimit -u)", inner.backend)
    return {
        "CORE": 0,
        "NOFILE": inner.descriptors,
        "NPROC": others + inner.processes,
        "MEMLOCK": 0,
        "MSGQUEUE": 0,
    }


def _refuse_less(name: str, needed: int, words: str, backend: str) -> None:
    import resource  # not on Windows, where providers are used from

    most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
    if most != resource.RLIM_INFINITY and most < needed:
        raise SandboxUnavailableError(
            f"the {backend} sandbox needs {needed} {words}, but this process may have only {most}; raise its hard limit"
        )


def _counts_apart() -> bool:
    """Whether the kernel counts the processes of a user namespace separately, as Linux does since 5.14."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return found is not None and (int(found[1]), int(found[2])) >= (5, 14)


def _own_processes() -> int:
    """The threads of this user anywhere, which RLIMIT_NPROC counts too, with room for more."""
    return procfs.threads_of(os.getuid()) + _ROOM


def _spare_uid(backend: str) -> int:
    """A uid that nobody has. Raises SandboxUnavailableError where this process could not become one."""
    import pwd  # not on Windows

    mapped = [procfs.mapped_ids(kind) for kind in ("uid", "gid")]
    spare = [uid for uid in _SPARE_UIDS if all(any(uid in ids for ids in each) for each in mapped)]
    if not spare:
        users = sum(map(len, mapped[0]))
        raise SandboxUnavailableError(
            f"the {backend} sandbox has no user to run scripts as: "
            f"{'only one user is' if users == 1 else f'{users} users are'} mapped in this user namespace, "
            f"and none from {_SPARE_UIDS[0]} to {_SPARE_UIDS[-1]}; run evalcell as your own user without `unshare -r`, "
            "or map more: unshare --map-root-user --map-auto"
        )
    while True:
        uid = random.SystemRandom().choice(spare)
        try:
            pwd.getpwuid(uid)
        except KeyError:
            return uid
