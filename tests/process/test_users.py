"""As who and where it works: root, an ordinary user, root without the right to mount."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandboxes.boxes.host_files import reachable

pytestmark = pytest.mark.rotating("process", "process")

ROOT = Path(__file__).parents[2]
UID = 61234

SOURCE = """
import asyncio, os
from sandboxes import Call, Limits, SandboxUnavailableError, Script
from sandboxes.process import ProcessConfig, ProcessSandbox

SEEN = Script("import os\\ndef evaluate(x): return [x, os.getuid()]", "python", "evaluate")

async def tried(tier):
    try:
        async with ProcessSandbox(ProcessConfig(tier=tier, jobs=1)) as sandbox:
            limits = Limits(timeout=5)
            program = await sandbox.load(SEEN, limits)
            (found,) = [e async for e in program.run([Call(id=0, arguments={"x": 1})], limits)]
            return sandbox.manifest["tier"], found.status, found.value[0], found.value[1] != 0
    except SandboxUnavailableError as e:
        return str(e)
"""
TRIES = "print(*[asyncio.run(tried(tier)) for tier in ('A', 'B', None)], sep='\\n')\n"

# What container engines take from root by default is, above all, the right to mount.
WITHOUT_MOUNTING = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
header = struct.pack("Ii", 0x20080522, 0)
sets = ctypes.create_string_buffer(24)
assert libc.capget(header, sets) == 0
words = list(struct.unpack("6I", sets))
for word in (0, 1, 2):
    words[word] &= ~(1 << 21)
assert libc.prctl(24, 21, 0, 0, 0) == 0
assert libc.capset(header, struct.pack("6I", *words)) == 0
"""


# As container engines do by default; the filter is put up before anything else.
WITHOUT_USERS = """
import platform, struct
from sandboxes.guest.box import confine
number = {"x86_64": 272, "aarch64": 97}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 1, 0, number), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
confine.no_new_privs()
confine.seccomp(b"".join(struct.pack("<HBBI", *each) for each in code))
"""
COUNTS = """
import asyncio
from sandboxes import Call, Limits, Script
from sandboxes.process import ProcessConfig, ProcessSandbox

SCRIPT = '''
import os, threading, time
def evaluate(what):
    made = 0
    try:
        while what == "processes":
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            made += 1
        stop = threading.Event()
        for _ in range(20):
            threading.Thread(target=stop.wait, daemon=True).start()
            made += 1
        stop.set()
    except OSError as e:
        return [made, type(e).__name__]
    return made
'''
async def counted():
    async with ProcessSandbox(ProcessConfig(tier="B", jobs=1, isolation="call")) as sandbox:
        limits = Limits(timeout=60)
        program = await sandbox.load(Script(SCRIPT, "python", "evaluate"), limits)
        calls = [Call(id=n, arguments={"what": what}) for n, what in enumerate(("processes", "threads"))]
        return [e.value if e.status == "ok" else e.error async for e in program.run(calls, limits)]

print(*asyncio.run(counted()), sep="\\n")
"""


def told(python: str, code: str, cache: Path, uid: int | None = None) -> list[str]:
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    environment = {
        "PYTHONPATH": f"{ROOT}:{packages}",
        "PATH": os.environ["PATH"],
        "EVALCELL_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [python, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture
def as_user() -> Iterator[Callable[[str], list[str]]]:
    """Runs code as an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as one")
    python = next((p for p in (sys.executable, "/usr/bin/python3") if reachable(os.path.realpath(p), UID)), None)
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    if python is None or not all(reachable(str(p), UID) for p in (ROOT, packages)):
        pytest.skip("an ordinary user may not read this Python, or not this checkout")
    version = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
    if version.stdout.split() != [str(n) for n in sys.version_info[:2]]:
        pytest.skip("the Python that an ordinary user may read is another version")
    cache = Path("/tmp") / f"evalcell-test-{os.getpid()}"
    cache.mkdir()
    os.chown(cache, UID, UID)
    try:
        yield lambda code: told(python, code, cache, UID)
    finally:
        shutil.rmtree(cache)


def test_as_an_ordinary_user(tier: str, as_user: Callable[[str], list[str]]) -> None:
    assert f"('{tier}', 'ok', 1, True)" in as_user(SOURCE + TRIES)


@pytest.mark.parametrize("engine", [False, True], ids=["namespaces", "none"])
def test_the_number_of_processes_is_bounded_in_tier_b_or_there_are_none(
    tier: str, engine: bool, as_user: Callable[[str], list[str]]
) -> None:
    if tier != "B":
        pytest.skip("tier B")
    processes, threads = as_user(WITHOUT_USERS + COUNTS if engine else COUNTS)
    assert threads == "20"
    if processes != "[0, 'PermissionError']":
        assert not engine
        assert processes == "[45, 'BlockingIOError']"  # with those that hold the script: 48


def test_as_root_that_may_not_mount(tier: str, tmp_path: Path) -> None:
    if os.geteuid() != 0 or tier != "B":
        pytest.skip("root, in tier B")
    bubblewrap, landlock, chosen = told(sys.executable, WITHOUT_MOUNTING + SOURCE + TRIES, tmp_path)
    assert "bwrap" in bubblewrap
    assert landlock == chosen == "('B', 'ok', 1, True)"


@pytest.mark.parametrize("command", [["run", "rows.jsonl"], ["check"], ["doctor"], ["sandboxes"]], ids=lambda c: c[0])
@pytest.mark.parametrize("sandbox", ["process", "deno"])
def test_root_of_a_namespace_with_one_user_is_told_so(command: list[str], sandbox: str, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode != 0:
        pytest.skip("no user namespace can be made here")
    (tmp_path / "rows.jsonl").write_text('{"output": "a"}\n')
    (tmp_path / "same.ts").write_text("export function evaluate(output: string) { return 1; }\n")
    (tmp_path / "same.py").write_text("def evaluate(output): return 1.0\n")
    name, *rest = command
    if name in ("run", "check"):
        script = ["same.ts"] if sandbox == "deno" else ["same.py", "--sandbox", "process"]
        rest = [*script, *rest, *(["rows.jsonl"] if name == "check" else [])]
    evalcell = [sys.executable, "-m", "runner", name, *rest]
    done = subprocess.run(["unshare", "-Ur", *evalcell], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    said = " ".join((done.stdout + done.stderr).split())
    assert f"the {sandbox} sandbox has no user to run scripts as: only one user is mapped" in said
    assert not any(word in said for word in ("report it", "Traceback", "Errno"))
    assert done.returncode == (0 if name in ("doctor", "sandboxes") else 3)
