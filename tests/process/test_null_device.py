"""A /dev/null that is closed, or no device: no script is blamed. In a mount namespace, never the machine's own."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.guest.supervisor.shortage import NULL_DEVICE

pytestmark = pytest.mark.rotating("process", "process")

ROOT = Path(__file__).parents[2]
HIDES = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind "$0" /dev/null && exec "$@"']
RUN = """
import asyncio, sys
from sandboxes import Call, Limits, SandboxError, create, SandboxConfig
from tests.scripts import script

async def main(name, language, isolation, text):
    try:
        async with create(SandboxConfig(backend=name, language=language, jobs=1, isolation=isolation)) as sandbox:
            program = await sandbox.load(script(text, language), Limits())
            calls = [Call(id=number, arguments={"output": "a"}) for number in range(3)]
            for each in [e async for e in program.run(calls, Limits())]:
                print(each.status, each.value, each.error.message if each.error else "")
    except SandboxError as e:
        print(type(e).__name__, e)

asyncio.run(main(*sys.argv[1:]))
"""
READS = "import sys\ndef evaluate(output):\n    return [sys.stdin.read(), sys.stdin.isatty()]\n"
SCRIPTS = {
    "process": ("python", READS),
    "wasm": ("python", READS),
    "deno": ("typescript", "export function evaluate(output: string) { return ['', false]; }"),
}


def run(null: Path, name: str, isolation: str = "call") -> list[str]:
    """What a run says where this file is /dev/null."""
    if os.geteuid() != 0 or subprocess.run([*HIDES, str(null), "true"], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    language, text = SCRIPTS[name]
    command = [sys.executable, "-c", RUN, name, language, isolation, text]
    done = subprocess.run(
        [*HIDES, str(null), *command], cwd=ROOT, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    return done.stdout.splitlines()


@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_one_that_only_root_can_open_changes_nothing(isolation: str, tmp_path: Path) -> None:
    """As root, scripts run as another user: who cannot open it reads as little."""
    null = tmp_path / "null"
    null.touch(mode=0)
    assert run(null, "process", isolation) == ["ok ['', False] "] * 3


@pytest.mark.parametrize("name", ["process", "deno", "wasm"])
def test_one_that_nobody_can_open_is_named(name: str, tmp_path: Path) -> None:
    """A socket's file, which not even root opens."""
    null = tmp_path / "null"
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(null))
        (line,) = run(null, name)
    assert NULL_DEVICE in line
    assert line.startswith("Sandbox")
