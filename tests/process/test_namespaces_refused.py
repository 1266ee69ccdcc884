"""Where namespaces are refused to programs: which bubblewrap is taken, and what is said. By real files and mounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sandboxes.boxes import bubblewrap, landlock
from tests.process.boxed import python_for

pytestmark = [
    pytest.mark.rotating("process", "process"),
    pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="needs root, to mount"),
]

ROOT = Path(__file__).parents[2]
UID = 61236
KERNEL = Path("/proc/sys/kernel")
SETTING = "apparmor_restrict_unprivileged_userns"
REFUSES = "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
"""What bubblewrap says where AppArmor gives it a namespace without rights."""

BECOME = f"""
import os, sys
os.setgroups([]), os.setgid({UID}), os.setuid({UID})
"""
STATE = (
    BECOME
    + """
import asyncio, json
from sandboxes.process import ProcessConfig, ProcessSandbox
from runner.cli.doctor import machine
async def state():
    async with ProcessSandbox(ProcessConfig(jobs=1)) as sandbox:
        return sandbox.manifest
found = [[each.state, each.found, each.step] for each in machine.namespaces()]
print(json.dumps([asyncio.run(state()), found]))
"""
)


def state(mounts: dict[Path, Path]) -> tuple[dict[str, Any], list[list[str]]]:
    """The manifest of `process`, and what doctor finds, as an ordinary user who sees one file in place of another."""
    python = python_for(UID)
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    os.chown(home, UID, UID)
    shows = "".join(f"mount --bind '{shown}' '{place}' && " for place, shown in mounts.items())
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{shows}exec "$@"', "sh", python, "-c", STATE],
        cwd=ROOT,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": f"{ROOT}:{packages}", "HOME": str(home)},
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        timeout=120,
    )
    shutil.rmtree(home)
    if "mount" in done.stderr and "Traceback" not in done.stderr:
        pytest.skip(f"no right to mount here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr[-2000:]
    manifest, found_by_doctor = json.loads(done.stdout)
    return manifest, found_by_doctor


@pytest.fixture
def refusing(tmp_path: Path) -> Path:
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path("/tmp"):
            break
        folder.chmod(0o755)
    program = tmp_path / "bwrap"
    program.write_text(REFUSES)
    program.chmod(0o755)
    return program


@pytest.fixture
def apparmor(tmp_path: Path, refusing: Path) -> dict[Path, Path]:
    """The kernel's settings as Ubuntu has them."""
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    for path in KERNEL.iterdir():
        if path.is_file() and path.name != "ns_last_pid":
            try:
                (kernel / path.name).write_bytes(path.read_bytes())
            except OSError:
                continue
    (kernel / SETTING).write_text("1\n")
    return {KERNEL: kernel}


def programs() -> tuple[Path, Path]:
    """The system's bubblewrap and the bundled one, both of which work here for an ordinary user."""
    found = [Path(path) for path in bubblewrap.bubblewraps() if "site-packages" in path]
    system = shutil.which("bwrap", path="/usr/bin:/bin")
    if system is None or not found:
        pytest.skip("needs both bubblewraps")
    return Path(system), found[0]


def test_the_systems_bubblewrap_is_taken_where_the_bundled_one_is_refused(refusing: Path) -> None:
    _, bundled = programs()
    manifest, _ = state({bundled: refusing})
    if manifest["tier"] != "A":
        pytest.skip("no namespaces for an ordinary user here")
    assert manifest["not_available"] == {}


def test_the_bundled_one_is_taken_where_the_systems_is_refused(refusing: Path) -> None:
    system, _ = programs()
    manifest, _ = state({system: refusing})
    if manifest["tier"] != "A":
        pytest.skip("no namespaces for an ordinary user here")
    assert manifest["not_available"] == {}


def test_where_apparmor_forbids_both_it_is_said_with_the_two_ways(refusing: Path, apparmor: dict[Path, Path]) -> None:
    if not landlock.abi():
        pytest.skip("needs Landlock")
    system, bundled = programs()
    manifest, (finding,) = state({system: refusing, bundled: refusing} | apparmor)
    why = manifest["not_available"]["A"]
    assert manifest["tier"] == "B"
    assert f"{system} and {bundled}: setting up uid map: Permission denied, as AppArmor forbids namespaces" in why
    status, words, step = finding
    assert status == "warning"
    assert "have tier B: Landlock" in words
    assert step == "leave it so, or give bubblewrap the profile of docs/backends.md for tier A"


def test_a_bubblewrap_with_a_profile_is_named(refusing: Path, apparmor: dict[Path, Path]) -> None:
    system, bundled = programs()
    manifest, (finding,) = state({bundled: refusing} | apparmor)
    if manifest["tier"] != "A":
        pytest.skip("no namespaces for an ordinary user here")
    status, words, _ = finding
    assert status == "ok"
    assert words.endswith(f"{system} may make them")
