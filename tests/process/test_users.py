"""As who and where it works: root, an ordinary user, root without the right to mount."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.kernel.view import reachable

ROOT = Path(__file__).parents[2]
UID = 61234

SOURCE = """
import asyncio, os
from sandboxes import Call, Limits, SandboxUnavailableError
from sandboxes.process import ProcessConfig, ProcessSandbox

async def tried(tier):
    try:
        async with ProcessSandbox(ProcessConfig(tier=tier, jobs=1)) as sandbox:
            limits = Limits(timeout=5)
            program = await sandbox.load("import os\\ndef evaluate(x): return [x, os.getuid()]", limits)
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


def test_as_an_ordinary_user(tier: str, tmp_path_factory: pytest.TempPathFactory) -> None:
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
        found = told(python, SOURCE + TRIES, cache, UID)
    finally:
        shutil.rmtree(cache)
    assert f"('{tier}', 'ok', 1, True)" in found


def test_as_root_that_may_not_mount(tier: str, tmp_path: Path) -> None:
    if os.geteuid() != 0 or tier != "B":
        pytest.skip("root, in tier B")
    bubblewrap, landlock, chosen = told(sys.executable, WITHOUT_MOUNTING + SOURCE + TRIES, tmp_path)
    assert "bwrap" in bubblewrap
    assert landlock == chosen == "('B', 'ok', 1, True)"
