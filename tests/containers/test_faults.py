"""What befalls an engine, an image, a disk or a container in a run: its rows are lost, and never the script's fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Limits, SandboxError, SandboxLostError, SandboxUnavailableError
from sandboxes.remote.docker.provider import DockerProvider
from tests.containers import local
from tests.scripts import python

pytestmark = [pytest.mark.timeout(300), pytest.mark.rotating("containers", "docker")]

ROOT = Path(__file__).parents[2]
LIMITS = Limits(timeout=60, load_timeout=60)
SLEEPS = "import time\ndef evaluate(output):\n    time.sleep(output)\n    return 1\n"


@pytest.fixture(autouse=True)
def engine() -> None:
    if why := local.missing():
        pytest.skip(why)


_COMMAND = (sys.executable, "-c", "import runner.__main__ as c; c.main()")
_WORDS = ("run", "mine.py", "data.jsonl", "--sandbox", "docker", "-j", "1")


class Run:
    """A command of ours, in a process of its own."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        rows: str = '{"output": 3}\n',
        script: str = SLEEPS,
        command: tuple[str, ...] = _COMMAND,
    ) -> None:
        (folder / "mine.py").write_text(script)
        (folder / "data.jsonl").write_text(rows)
        self.results = folder / "results.jsonl"
        self.process = subprocess.Popen(
            [*command, *_WORDS, "--image", local.image(), "-o", str(self.results), *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "EVALCELL_STATE_DIR": str(folder / "state")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> tuple[int, str]:
        try:
            output, _ = self.process.communicate(timeout=200)
        finally:
            self.process.kill()
        return self.process.returncode, output

    @property
    def outcomes(self) -> list[str]:
        lines = self.results.read_text().splitlines() if self.results.exists() else ()
        return [json.loads(line)["outcome"] for line in lines]


def until(true: Callable[[], Any], seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.thorough("a container that is ended from outside; it takes a minute to end by itself")
def test_an_engine_that_stops_in_a_run_loses_its_rows(tmp_path: Path) -> None:
    service = local.start_service(tmp_path / "engine.sock")
    try:
        run = Run(tmp_path, "--env-file", local.env_file(str(tmp_path / "engine.sock")), rows='{"output": 20}\n' * 3)
        until(lambda: local.containers_of(run.process.pid))
        time.sleep(3)
    finally:
        service.kill()
        service.wait()
    code, output = run.finish()
    assert code == 3, output
    assert "Traceback" not in output
    assert "engine" in output, output
    assert set(run.outcomes) <= {"lost"}, output
    until(lambda: not local.containers_of(run.process.pid))  # it hears nothing any more, and ends by itself


def test_a_container_that_is_ended_from_outside_costs_no_row(tmp_path: Path) -> None:
    run = Run(tmp_path, "--env-file", local.env_file(), rows='{"output": 2}\n' * 3)
    until(lambda: local.containers_of(run.process.pid))
    time.sleep(4)
    local.podman("kill", *local.containers_of(run.process.pid))
    code, output = run.finish()
    assert code == 0, output
    assert run.outcomes == ["scored"] * 3, output
    assert local.containers_of(run.process.pid) == []


async def test_an_image_that_is_removed_in_a_run_is_told(tmp_path: Path) -> None:
    name = f"localhost/evalcell-gone:{os.getpid()}"
    (tmp_path / "Containerfile").write_text(f"FROM {local.image()}\nLABEL gone={os.getpid()}\n")
    local.podman("build", "--quiet", "--tag", name, str(tmp_path), check=True)
    async with local.sandbox(jobs=1, image=name) as sandbox:
        program = await sandbox.load(python(SLEEPS), LIMITS)
        local.podman("rmi", "--force", name, check=True)
        with pytest.raises(SandboxLostError):
            [one async for one in program.run([Call(id=0, arguments={"output": 0})], LIMITS)]
        with pytest.raises(SandboxError, match=f"the image {name} is gone.*pull {name}"):
            [one async for one in program.run([Call(id=0, arguments={"output": 0})], LIMITS)]
    assert local.containers_of() == []


async def test_a_full_disk_is_told_with_the_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    volume = f"evalcell-packages-full{os.getpid()}"
    options = ("type=tmpfs", "device=tmpfs", "o=nr_blocks=25")
    local.podman("volume", "create", *(word for one in options for word in ("--opt", one)), volume, check=True)

    async def small(provider: DockerProvider, order: Any) -> str:
        return volume

    monkeypatch.setattr(DockerProvider, "_volume", small)
    try:
        with pytest.raises(
            SandboxUnavailableError, match=f"could not be copied to the volume {volume} .*No space left"
        ):
            async with local.sandbox(jobs=1, packages=("rapidfuzz==3.13.0",)):
                pass
        assert local.containers_of() == []
    finally:
        local.podman("volume", "rm", "--force", volume)


FORKS = """
import os, time
def evaluate(output):
    blocks = []
    for n in range(output):
        if os.fork() == 0:
            block = bytearray(os.urandom(1 << 20)) * 56
            time.sleep(20)
            os._exit(0)
    time.sleep(8)
    return 1
"""


async def test_the_containers_memory_is_not_a_call_that_is_within_its_own() -> None:
    """Processes that each stay below a call's limit are more than a container may have; the next call is as ever."""
    limits = Limits(timeout=30, load_timeout=30, memory=64 << 20)
    async with local.sandbox(jobs=1, machine_memory=64 << 20) as sandbox:
        program = await sandbox.load(python(FORKS), limits)
        with suppress(SandboxLostError):  # whom the kernel ends decides what becomes of it
            found = [one.status async for one in program.run([Call(id=0, arguments={"output": 40})], limits)]
            assert found[0] in ("ok", "memory", "error"), found
        (after,) = [one async for one in program.run([Call(id=0, arguments={"output": 0})], limits)]
        assert after.value == 1, after
    assert local.containers_of() == []


def test_a_user_who_may_not_use_the_socket_is_told_what_to_do(tmp_path: Path) -> None:
    socket = Path(local.socket())
    code = f"""
import asyncio, os
from sandboxes.remote.docker.provider import DockerProvider
from sandboxes.remote.provider import ProviderError
provider, loop = DockerProvider({{"DOCKER_HOST": "unix://{socket}"}}, engine="docker"), asyncio.new_event_loop()
from anyio._backends import _asyncio
import httpcore._backends.anyio, httpx
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    loop.run_until_complete(provider.open())
except ProviderError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert f"you may not use {socket}; run `sudo usermod -aG docker $USER`" in done.stdout, done
    assert done.stdout.count("\n") == 1


@pytest.mark.thorough("one that is killed while its container runs")
@pytest.mark.parametrize("by", ["api", "command"])
def test_a_run_that_is_killed_at_any_moment_leaves_nothing(tmp_path: Path, by: str) -> None:
    reach = ["--env-file", local.env_file()] if by == "api" else ["--engine", "podman", "--runtime", local.RUNTIME]
    pids = []
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(folder, *reach, rows='{"output": 0.3}\n' * 3)
        time.sleep(0.4 + 0.35 * number)
        run.process.send_signal(signal.SIGKILL)
        run.finish()
        pids.append(run.process.pid)
    until(lambda: not any(local.containers_of(pid) for pid in pids))


MOMENTS = """
import asyncio, os, signal, sys
from sandboxes.remote.docker import api, command_line
moment, after = sys.argv.pop(1), float(sys.argv.pop(1))

async def end(*told):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "made":
    api.ApiEngine.start = command_line.CommandEngine.start = end
else:
    def soon(plain):
        async def create(engine, spec):
            asyncio.get_running_loop().call_later(after, os.kill, os.getpid(), signal.SIGKILL)
            return await plain(engine, spec)
        return create
    for engine in (api.ApiEngine, command_line.CommandEngine):
        engine.create = soon(engine.create)
import runner.__main__ as c
c.main()
"""
"""A run that kills itself between making a container and starting it, or so many seconds after asking for one."""


@pytest.mark.parametrize("by", ["api", "command"])
@pytest.mark.parametrize("moment", ["made", "asked"])
def test_a_run_that_is_killed_before_its_container_starts_leaves_none(tmp_path: Path, by: str, moment: str) -> None:
    reach = ["--env-file", local.env_file()] if by == "api" else ["--engine", "podman", "--runtime", local.RUNTIME]
    pids = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Run(folder, *reach, command=(sys.executable, "-c", MOMENTS, moment, str(0.05 * number)))
        code, output = run.finish()
        assert code == -signal.SIGKILL or moment == "asked", output
        pids.append(run.process.pid)
    until(lambda: not _watchdogs(tmp_path))
    assert not any(local.containers_of(pid) for pid in pids)


def _watchdogs(folder: Path) -> list[str]:
    """The processes that remove what is left of runs in this folder; they end with their work."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"docker/watchdog.py" in (path / "cmdline").read_bytes():
                found += [path.name] if bytes(folder) in (path / "environ").read_bytes() else []
    return found
