"""A local engine's containers as a sandbox: how they are closed, what ends them, and what a user is told."""

from __future__ import annotations

import asyncio
import io
import os
import select
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandboxes import Call, Limits, SandboxConfig, SandboxLostError, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.boxes.launch import GUEST
from sandboxes.remote.docker.discovery import engines
from sandboxes.remote.docker.engine import Frames
from sandboxes.remote.docker.provider import DockerProvider
from sandboxes.remote.docker.walls import walls
from sandboxes.remote.provider import RefusedError, UnreachableError
from sandboxes.wasm.sandbox import WasmSandbox
from tests.cli.commands import evalcell
from tests.containers import local
from tests.scripts import python

CLOSED = {
    "uid": 64321,
    "groups": [],
    "capabilities": ["0000000000000000"] * 5,
    "no_new_privs": "1",
    "seccomp": "2",
    "interfaces": [],
    "read_only": True,
    "writable": [],
    "users": False,
    "first": True,
    "sockets": [],
}
LIMITS = Limits(timeout=60, load_timeout=60)
SLEEPER = "import time\ndef evaluate(output):\n    time.sleep(50)\n"


@pytest.fixture
def engine() -> None:
    if why := local.missing():
        pytest.skip(why)


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({}, []),
        ({"uid": 0}, ["another user"]),
        ({"groups": [999]}, ["another user"]),
        ({"capabilities": ["00000000a80425fb"]}, ["no capabilities"]),
        ({"capabilities": []}, ["no capabilities"]),
        ({"no_new_privs": "0"}, ["no new privileges"]),
        ({"seccomp": "0"}, ["the engine's filter of system calls"]),
        ({"interfaces": ["eth0"]}, ["no network"]),
        ({"interfaces": None}, ["no network"]),
        ({"read_only": False}, ["a read-only root"]),
        ({"writable": ["/etc"]}, ["a read-only root"]),
        ({"first": False}, ["processes of its own"]),
        ({"sockets": ["/var/run/docker.sock"]}, ["no socket of an engine"]),
    ],
    ids=str,
)
def test_a_container_that_is_less_closed_than_ordered_is_told(change: dict[str, Any], missing: list[str]) -> None:
    assert walls(CLOSED | change, network=False, runtime="runc")[1] == missing


def test_a_kernel_of_its_own_needs_no_filter() -> None:
    there, missing = walls(CLOSED | {"seccomp": "0", "no_new_privs": None}, network=False, runtime="runsc")
    assert missing == []
    assert "a kernel of its own" in there
    assert walls(CLOSED | {"interfaces": ["eth0"]}, network=True, runtime="runc")[1] == []


def test_streams_that_the_engine_joins_are_taken_apart() -> None:
    frames, data = Frames(), b"\1\0\0\0\0\0\0\3abc\2\0\0\0\0\0\0\2er\1\0\0\0\0\0\0\1d"
    assert b"".join(frames.feed(data[at : at + 1]) for at in range(len(data))) == b"abcd"
    assert frames.errors == b"er"
    with pytest.raises(UnreachableError):
        Frames().feed(b"no such stream")


def test_packages_are_unpacked_though_the_input_stays_open(tmp_path: Path) -> None:
    """As through an engine's socket, of which no side alone can be closed."""
    tree = tmp_path / "site"
    (tree / "one").mkdir(parents=True)
    (tree / "one" / "__init__.py").write_text("VALUE = 1\n")
    (tmp_path / "volume").mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w|") as tar:
        tar.add(tree, ".")
    words = [
        sys.executable,
        "-I",
        "-S",
        str(GUEST / "container" / "unpack.py"),
        str(tmp_path / "volume" / "packages"),
        "60",
    ]
    with subprocess.Popen(words, stdin=-1, stdout=-1) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(packed.getvalue())
        process.stdin.flush()
        try:
            assert select.select([process.stdout], [], [], 60)[0], "it waits for more"
            assert process.stdout.read() == b"done\n"
        finally:
            process.kill()
    assert (tmp_path / "volume" / "packages" / "one" / "__init__.py").read_text() == "VALUE = 1\n"
    assert os.listdir(tmp_path / "volume") == ["packages"]


def test_an_engine_is_found_by_the_users_own_settings(tmp_path: Path) -> None:
    found = [one.address for one in engines({"DOCKER_HOST": "unix:///run/mine.sock"}, "docker", None)]
    assert found == ["unix:///run/mine.sock"]
    with pytest.raises(SandboxUnavailableError, match="EVALCELL_ENGINE is 'lxc'"):
        engines({"EVALCELL_ENGINE": "lxc"}, None, None)


async def test_an_engine_that_does_not_answer_is_told_with_the_next_step(tmp_path: Path) -> None:
    provider = DockerProvider({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, engine="docker")
    with pytest.raises(RefusedError, match=r"no container engine answers.*none\.sock"):
        await provider.open()
    await provider.close()


def test_a_sandbox_without_containers_refuses_an_image() -> None:
    with pytest.raises(UnsupportedConfigError, match="the wasm sandbox has no image"):
        WasmSandbox(SandboxConfig(image="python:3.11-slim"))


def test_a_container_cannot_be_named_by_what_is_no_name() -> None:
    with pytest.raises(ValueError, match="image"):
        SandboxConfig(image="--privileged")


pytestmark = pytest.mark.timeout(300)

LOOKS = """
import os
def evaluate():
    found = {"uid": os.getuid()}
    for path in ("/etc/evalcell", "/usr/bin/evalcell", "/opt/evalcell/packages", "/evalcell/x"):
        try:
            open(path, "w")
            found[path] = "written"
        except OSError as error:
            found[path] = "closed"
    for path in ("/var/run/docker.sock", "/run/podman/podman.sock", "/proc/1/mem", "/proc/1/environ"):
        try:
            open(path).read(1)
            found[path] = "read"
        except OSError:
            found[path] = "closed"
    return found
"""


@pytest.mark.parametrize("by", ["api", "command"])
async def test_a_script_reaches_nothing_of_the_container(engine: None, by: str) -> None:
    async with local.sandbox(by, jobs=1) as sandbox:
        program = await sandbox.load(python(LOOKS), LIMITS)
        (done,) = [one async for one in program.run([Call(id=0)], LIMITS)]
        manifest = sandbox.manifest
    assert done.status == "ok", done
    assert {value for name, value in done.value.items() if name != "uid"} == {"closed"}
    assert done.value["uid"] != 0
    assert {"no network", "no capabilities", "a read-only root", "another user"} <= set(manifest["container"])
    assert manifest["image_digest"].startswith("sha256:")
    assert manifest["image_digest"].removeprefix("sha256:")[:12] in sandbox.identity
    assert local.containers_of() == []


async def test_a_container_that_is_killed_from_outside_loses_its_rows(engine: None) -> None:
    async with local.sandbox(jobs=1) as sandbox:
        program = await sandbox.load(python(SLEEPER), LIMITS)

        async def kill() -> None:
            await asyncio.sleep(2)
            local.podman("kill", *local.containers_of())

        killing = asyncio.create_task(kill())
        with pytest.raises(SandboxLostError, match="container has ended"):
            [one async for one in program.run([Call(id=0, arguments={"output": 1})], LIMITS)]
        await killing
    assert local.containers_of() == []


def test_an_image_that_is_nowhere_is_told_with_the_command(engine: None, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def evaluate(output):\n    return 1\n")
    (tmp_path / "data.jsonl").write_text('{"output": "a"}\n')
    words = ["run", str(tmp_path / "mine.py"), str(tmp_path / "data.jsonl"), "--sandbox", "docker"]
    words += ["--image", "localhost/no-such-image:1", "--env-file", local.env_file()]
    done = evalcell(*words)
    assert done.exit_code == 3
    assert "pull localhost/no-such-image:1" in done.stderr
    assert "--image" in done.stderr


@pytest.mark.parametrize("by", ["api", "command"])
def test_a_run_that_is_killed_leaves_no_container(engine: None, tmp_path: Path, by: str) -> None:
    (tmp_path / "slow.py").write_text(SLEEPER)
    (tmp_path / "data.jsonl").write_text('{"output": "a"}\n' * 4)
    reach = ["--env-file", local.env_file()] if by == "api" else ["--engine", "podman", "--runtime", local.RUNTIME]
    words = ["run", "slow.py", "data.jsonl", "--sandbox", "docker", "-j", "1", "--timeout", "55"]
    code = "import runner.__main__ as c; c.main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "EVALCELL_STATE_DIR": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--image", local.image(), *reach],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until(lambda: bool(local.containers_of(run.pid)), run)
        run.send_signal(signal.SIGKILL)
        run.wait()
        _until(lambda: not local.containers_of(run.pid))  # its input is closed, so it ends by itself
    finally:
        run.kill()
        run.wait()


def _until(true: Callable[[], bool], run: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert run is None or run.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _pythons(oldest: int, newest: int) -> list[str]:
    """The Pythons of pyenv from 3.`oldest` to 3.`newest`; an image is made of one."""
    places = sorted((Path.home() / ".pyenv/versions").glob("3.*/bin/python3"))
    return [str(path) for path in places if oldest <= int(path.parts[-3].split(".")[1]) <= newest]


@pytest.mark.thorough("an image with the Python of the tests")
async def test_an_image_may_have_another_python(engine: None) -> None:
    others = [path for path in _pythons(9, 14) if path != os.path.realpath(sys.executable)]
    if not others:
        pytest.skip("pyenv has no other Python here")
    for python_path in others:
        async with local.sandbox(jobs=1, image=local.image(python_path)) as sandbox:
            program = await sandbox.load(
                python("import sys\ndef evaluate():\n    return sys.version.split()[0]"), LIMITS
            )
            (done,) = [one async for one in program.run([Call(id=0)], LIMITS)]
        assert done.value == Path(python_path).parts[-3]
        assert f"/python-{done.value}/" in sandbox.identity


@pytest.mark.thorough("an image with the Python of the tests")
async def test_an_image_with_an_old_python_is_refused_with_its_version(engine: None) -> None:
    if not (old := _pythons(7, 8)):
        pytest.skip("pyenv has no older Python here")
    for python_path in old:
        with pytest.raises(SandboxUnavailableError, match=r"has Python 3\.\d+\.\d+; name one with 3\.9 or newer"):
            async with local.sandbox(jobs=1, image=local.image(python_path)):
                pass
    assert local.containers_of() == []
