"""The kernel's wall around a Wasm worker: what code can do that has got out of WebAssembly."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.runs.pool.worker import serve
from sandboxes import Call, Limits, SandboxLostError
from sandboxes.boxes.syscalls import AARCH64, PLAIN_AARCH64, PLAIN_X86_64, X86_64
from sandboxes.guest.box import confine
from sandboxes.wasm import worker_process
from sandboxes.wasm.native_code import compile_guest
from sandboxes.wasm.sandbox import WasmConfig, WasmSandbox
from sandboxes.wasm.wall import NOTHING
from tests.cli.commands import evalcell
from tests.process.boxed import python_for
from tests.sandboxes.escaped import escape, hostile
from tests.scripts import python

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="no wall is known here"
    ),
    pytest.mark.rotating("wasm", "wasm"),
]

ROOT = Path(__file__).parents[2]
UID = 61234
NUMBERS = AARCH64 | PLAIN_AARCH64 if platform.machine() == "aarch64" else X86_64 | PLAIN_X86_64
either_user = pytest.mark.parametrize("ordinary", [False, True], ids=["as it is", "ordinary user"])
REFUSED = {"EPERM", "ENOSYS"}

# Held down in the worker, or in its host, before anything else.
NO_FILTER = "confine.seccomp_of_threads = lambda program: None"
NO_NAMESPACES = f"""
import platform, struct
from sandboxes.guest.box import confine
code = [(0x20, 0, 0, 0), (0x15, 1, 0, {NUMBERS["unshare"]}), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
confine.no_new_privs()
confine.seccomp(b"".join(struct.pack("<HBBI", *each) for each in code))
"""
UNKNOWN_MACHINE = "import sandboxes.boxes.seccomp\nsandboxes.boxes.seccomp.worker_program = lambda machine, pid: None"


def older(abi: int) -> str:
    """A kernel with an older Landlock, or none."""
    return f"confine.landlock_abi = lambda: {abi}"


def tiers() -> list[str]:
    """Those that work here."""
    found = subprocess.run(["unshare", "-Urmn", "true"], capture_output=True).returncode == 0
    return ["A", "B"] if found or os.geteuid() == 0 else ["B"]


@pytest.fixture(params=["A", "B"])
def tier(request: pytest.FixtureRequest) -> str:
    if request.param not in tiers():
        pytest.skip("no namespaces here")
    return str(request.param)


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    """The compiled guest, for an ordinary user."""
    folder = Path(tempfile.mkdtemp(prefix="evalcell-wall-", dir="/tmp"))
    folder.chmod(0o755)
    code = compile_guest(print)
    own = folder / "cache"
    kept = own / code.code.parent.relative_to(code.code.parents[1])
    kept.mkdir(parents=True)
    for path in code:
        shutil.copy(path, kept)
    if os.geteuid() == 0:
        for path in (own, kept, *kept.iterdir()):
            os.chown(path, UID, UID)
            path.chmod(0o700)
    yield own
    shutil.rmtree(folder)


def run_escaped(cache: Path, tier: str, code: str, before: str = "", *, ordinary: bool = False) -> Any:
    """What code told that has escaped into a worker in this tier: as this user, or as an ordinary one."""
    executable, uid = sys.executable, None
    if ordinary and os.geteuid() == 0:
        uid = UID
        executable = python_for(UID)
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    variables = {"PYTHONPATH": f"{ROOT}:{packages}", "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    if uid is not None:
        variables["EVALCELL_CACHE_DIR"] = str(cache)
    elif "EVALCELL_CACHE_DIR" in os.environ:
        variables["EVALCELL_CACHE_DIR"] = os.environ["EVALCELL_CACHE_DIR"]
    done = subprocess.run(
        [executable, "-m", "tests.sandboxes.escaped", tier, before, code],
        cwd=ROOT,
        env=variables | ({} if uid is not None else {"HOME": os.environ["HOME"]}),
        capture_output=True,
        text=True,
        timeout=120,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


# What is tried from inside. A value of its own, or 0, means that it worked.
FILES = """
home, cache, mine = {home!r}, {cache!r}, {mine!r}
told |= {{f"read {{path}}": tried(os.open, path, 0) for path in ("/etc/passwd", "/proc/self/maps", mine, "/")}}
told |= {{f"list {{path}}": tried(os.listdir, path) for path in ("/", home, cache, "/proc", "/proc/self/fd", "/tmp")}}
told |= {{f"look at {{path}}": tried(os.stat, path) for path in ("/etc/passwd", mine, home, cache, "/proc/1")}}
told |= {{f"write below {{path}}": tried(os.open, path + "/wall", os.O_CREAT | os.O_WRONLY)
         for path in ("/tmp", "/dev/shm", home, cache)}}
told["change"] = tried(os.open, mine, os.O_WRONLY | os.O_TRUNC)
told["remove"] = tried(os.unlink, mine)
told["rename"] = tried(os.rename, mine, mine + "2")
told["link"] = tried(os.link, mine, mine + "2")
told["chmod"] = tried(os.chmod, mine, 0o777)
told["device"] = tried(os.open, "/dev/null", os.O_RDONLY)
told |= {{f"again {{fd}}": tried(os.open, f"/proc/self/fd/{{fd}}", os.O_RDWR) for fd in range(3, 9)}}
"""
SOCKETS = """
told["tcp"] = tried(lambda: socket.create_connection(("127.0.0.1", {port}), 5).close() or "connected")
told["udp"] = tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {port})))
told["six"] = tried(lambda: socket.socket(socket.AF_INET6).bind(("::1", 0)) or "bound")
told["listen"] = tried(lambda: socket.create_server(("127.0.0.1", 0)) and "bound")
told["unix"] = tried(lambda: socket.socket(socket.AF_UNIX).connect({unix!r}) or "connected")
told["abstract"] = tried(lambda: socket.socket(socket.AF_UNIX).connect("\\0" + {abstract!r}) or "connected")
told["netlink"] = tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0)) or "bound")
told["raw"] = tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) and "opened")
"""
PROCESSES = """
told["fork"] = tried(lambda: os.fork() or os._exit(0))
told["thread"] = call(N["clone"], 0x3D0F00, 0, 0, 0, 0)
told["clone3"] = call(N["clone3"], 0, 0)
told["exec"] = tried(os.execv, "/bin/true", ["true"])
told["execveat"] = call(N["execveat"], -100, b"/bin/true", 0, 0, 0)
for name, pid in (("the parent", parent), ("all", -1), ("the group", 0), ("init", 1)):
    told["signal to " + name] = tried(os.kill, pid, 0)
told["end the parent"] = tried(os.kill, parent, signal.SIGKILL)
told["end a thread of the parent"] = call(N["tgkill"], parent, parent, 9)
told["trace"] = call(N["ptrace"], 16, parent, 0, 0)
told["be traced"] = call(N["ptrace"], 0, 0, 0, 0)
told["read its memory"] = call(N["process_vm_readv"], parent, 0, 0, 0, 0, 0)
told["write its memory"] = call(N["process_vm_writev"], parent, 0, 0, 0, 0, 0)
told["a handle"] = tried(os.pidfd_open, parent)
told |= {f"signal by handle {fd}": tried(signal.pidfd_send_signal, fd, 9) for fd in range(3, 16)}
told |= {f"descriptor by handle {fd}": call(N["pidfd_getfd"], fd, 0, 0) for fd in range(3, 16)}
told["limits of the parent"] = tried(resource.prlimit, parent, resource.RLIMIT_NOFILE)
told["own limits"] = tried(resource.setrlimit, resource.RLIMIT_CORE, (0, 0))
told["priority"] = tried(os.setpriority, os.PRIO_PROCESS, parent, 19)
told["session"] = tried(os.setsid)
"""
KERNEL = """
anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
told["new code"] = tried(mmap.mmap, -1, 4096, flags=anonymous, prot=mmap.PROT_READ | mmap.PROT_EXEC)
plain = mmap.mmap(-1, 4096, flags=anonymous)
at = ctypes.addressof(ctypes.c_char.from_buffer(plain))
told["code of memory"] = call(N["mprotect"], at, 4096, 5)
for name in ("mount unshare setns bpf userfaultfd perf_event_open io_uring_setup keyctl add_key shmget msgget semget "
             "init_module personality open_by_handle_at name_to_handle_at pivot_root chroot prctl splice "
             "inotify_init1 fanotify_init quotactl reboot syslog swapon memfd_secret setxattr fchmod flock").split():
    told[name] = call(N[name], -1, 0, 0, 0, 0, 0) if name in N else "EPERM"  # 0 is the machine's own /dev/null
told["type into the terminal"] = call(N["ioctl"], 2, 0x5412, 0)
told["own notices"] = call(N["fcntl"], 2, 1026, 0)
told["root"] = tried(os.setresuid, 0, 0, 0)
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What there is to be reached: a file of the user, and sockets that listen."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    mine.chmod(0o666)
    family = socket.AF_UNIX
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(family) as unix,
        socket.socket(family) as abstract,
    ):
        unix.bind(str(tmp_path / "socket"))
        (tmp_path / "socket").chmod(0o777)
        unix.listen()
        name = f"evalcell-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield {
            "mine": str(mine),
            "port": tcp.getsockname()[1],
            "unix": str(tmp_path / "socket"),
            "abstract": name,
            "home": str(Path.home()),
        }
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("attack", ["FILES", "SOCKETS", "PROCESSES", "KERNEL"])
@either_user
def test_nothing_comes_of_an_escape(attack: str, ordinary: bool, tier: str, world: dict[str, Any], cache: Path) -> None:
    text = {
        "FILES": FILES.format(**world, cache=str(cache)),
        "SOCKETS": SOCKETS.format(**world),
        "PROCESSES": PROCESSES,
        "KERNEL": KERNEL,
    }[attack]
    found, wall = run_escaped(cache, tier, f"N = {NUMBERS}\ntold = {{}}\n{text}", ordinary=ordinary)
    assert isinstance(found, dict), found
    assert wall["tier"] == tier
    assert len(found) > 7
    assert {name: said for name, said in found.items() if said not in REFUSED} == {}


@pytest.mark.parametrize("abi", [0, 1, 3, 5, 6])
def test_an_older_landlock_or_none_changes_nothing(abi: int, world: dict[str, Any], cache: Path) -> None:
    if abi > confine.landlock_abi():
        pytest.skip("this kernel's Landlock is older still")
    text = FILES.format(**world, cache=str(cache)) + SOCKETS.format(**world) + PROCESSES
    found, wall = run_escaped(cache, "B", f"N = {NUMBERS}\ntold = {{}}\n{text}", older(abi))
    assert {name: said for name, said in found.items() if said not in REFUSED} == {}
    assert (f"Landlock {abi}" in wall["protects"]) == (abi > 0)
    assert "seccomp" in wall["protects"]


WITHOUT_FILTER = """
read = [tried(os.open, path, os.O_RDONLY) for path in ("/etc/passwd", {mine!r}, "/proc/self/maps")]
write = tried(os.open, "/wall", os.O_CREAT | os.O_WRONLY)
tcp = tried(lambda: socket.create_connection(("127.0.0.1", {port}), 5) and "connected")
abstract = tried(lambda: socket.socket(socket.AF_UNIX).connect("\\0" + {abstract!r}) or "connected")
started = tried(subprocess.run, ["/bin/true"])
ended, traced = tried(os.kill, parent, 0), call({ptrace}, 16, parent, 0, 0)
mounted = call({mount}, b"none", b"/", b"tmpfs", 0, 0)
told = [read, write, tcp, abstract, repr(started), ended, traced, mounted, confine.capabilities(), os.getuid()]
"""


@either_user
def test_each_tier_holds_by_itself_without_the_filter(
    ordinary: bool, tier: str, world: dict[str, Any], cache: Path
) -> None:
    """Namespaces, Landlock and the lost rights are a second wall behind the filter, not an ornament."""
    if confine.landlock_abi() < confine.SCOPES:
        pytest.skip("needs Landlock 6")
    text = WITHOUT_FILTER.format(**world, ptrace=NUMBERS["ptrace"], mount=NUMBERS["mount"])
    found, _ = run_escaped(cache, tier, text, NO_FILTER, ordinary=ordinary)
    assert isinstance(found, list), found
    read, write, tcp, abstract, started, ended, traced, mounted, rights, uid = found
    assert set(read) == ({"ENOENT"} if tier == "A" else {"EACCES"})
    assert write in ("EROFS", "EACCES")
    assert tcp in ("ENETUNREACH", "EACCES", "EADDRNOTAVAIL")
    assert abstract in ("ECONNREFUSED", "EPERM")
    assert started in ("'ENOENT'", "'EACCES'")
    assert (ended, traced, mounted) == ("EPERM", "EPERM", "EPERM")
    assert rights == [0, 0, 0]
    assert uid != 0


def test_where_namespaces_are_refused_it_is_tier_b_and_says_why(cache: Path) -> None:
    found, wall = run_escaped(cache, "", "told = [tried(os.open, '/etc/passwd', os.O_RDONLY)]", NO_NAMESPACES)
    assert found == ["EPERM"]
    assert (wall["tier"], wall["not_available"]) == ("B", {"A": "the kernel allows no namespaces here"})


def test_a_worker_is_never_weaker_than_the_first_one(cache: Path) -> None:
    found, wall = run_escaped(cache, "A", "told = 'loaded'", NO_NAMESPACES)
    assert "no tier A around it: the kernel allows no namespaces here" in found
    assert wall == {}


@pytest.mark.parametrize(
    "reply",
    [
        "Raw(-1, 'reply', bytes(2 << 20), 0.1)",
        "Raw(-1, 'lied', b'', 0.1)",
        "Raw(-1, 'reply', b'{}', float('nan'))",
        "Raw(-1, 'reply', b'{}', -1.0)",
    ],
)
def test_what_no_worker_answers_is_not_believed(reply: str) -> None:
    """Nor kept: it might send without end."""
    found, _ = asyncio.run(escape("B", "", f"told = {reply}"))
    assert "its reply cannot be read" in found


async def value_of(config: WasmConfig) -> tuple[Any, dict[str, Any]]:
    async with WasmSandbox(config) as sandbox:
        told = sandbox.manifest
        program = await sandbox.load(python("def evaluate(x): return x + 1"), Limits())
        (found,) = [e async for e in program.run([Call(id=0, arguments={"x": 1})], Limits())]
        return found.value, told


@pytest.mark.parametrize("reset", ["auto", "restore", "instance"])
async def test_a_script_runs_behind_each_tier_and_the_manifest_names_it(tier: Any, reset: Any) -> None:
    value, told = await value_of(WasmConfig(jobs=1, tier=tier, reset=reset))
    assert value == 2
    assert told["tier"] == tier
    assert "seccomp" in told["protects"]


async def test_where_nothing_works_a_run_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    command = hostile(UNKNOWN_MACHINE)

    def unescaped(module: str, *arguments: str) -> list[str]:
        return [word.replace("worker.Guests = Escaped", "") for word in command(module, *arguments)]

    monkeypatch.setattr(worker_process, "module_command", unescaped)
    value, told = await value_of(WasmConfig(jobs=1))
    assert value == 2
    assert told["tier"] is None
    assert "no system calls of" in told["not_available"]["B"]
    monkeypatch.setattr("sandboxes.wasm.wall._LINUX", False)
    from sandboxes.wasm.wall import Wall

    wall = Wall()
    wall.enclose(None)
    told = wall.shut()
    assert (told["tier"], told["protects"]) == (None, NOTHING)
    assert told["not_available"] == {"A": "it needs Linux", "B": "it needs Linux"}


async def test_a_tier_that_is_asked_for_and_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    command = hostile("def refuse():\n    raise OSError(1, 'no')\nfrom sandboxes.guest.machine import namespaces\n"
                      "namespaces.empty_root = refuse\n")  # fmt: skip
    monkeypatch.setattr(worker_process, "module_command", command)
    with pytest.raises(SandboxLostError, match="no tier A around it: no"):
        await value_of(WasmConfig(jobs=1, tier="A"))


def test_sandboxes_doctor_and_the_manifest_say_what_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listed = " ".join(evalcell("sandboxes").stdout.split())
    assert f"tier {tiers()[0]}, around each worker: " in listed
    doctor = evalcell("doctor").stdout
    line = next(line for line in doctor.splitlines() if " wasm: " in line)
    assert "around each worker: " in line
    (tmp_path / "same.py").write_text("def evaluate(output): return 1.0\n")
    (tmp_path / "rows.jsonl").write_text('{"output": "a"}\n')
    evalcell("run", "same.py", "rows.jsonl", "--output", "out/")
    manifest = json.loads(next((tmp_path / "out").rglob("manifest.json")).read_text())
    assert manifest["sandbox"]["tier"] == tiers()[0]
    assert "seccomp" in manifest["sandbox"]["protects"]


def test_memory_of_a_worker_of_another_user_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows only who holds it, and not what it shares, to a server without the right to trace."""

    def refuse(path: Path) -> str:
        raise PermissionError(13, str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    assert serve._proportional(os.getpid()) > 1 << 20
