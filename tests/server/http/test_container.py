"""The page about the server, the image and the compose file say what there is; and a server in a real container."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
import yaml

from runner.cli.main import cli
from sandboxes.wasm.native_code import compile_guest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "server.md").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
TOKEN = "a-token-of-enough-letters"


def test_the_page_names_options_and_addresses_that_there_are() -> None:
    serve = cli.commands["serve"]
    blocks = re.findall(r"^```\w*\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.split("\n")]
    commands = [
        line.partition("evalcell serve")[2] for line in lines if re.match(r"([A-Z_]+=\S+ )*evalcell serve", line)
    ]
    assert len(commands) >= 4
    for words in commands:
        serve.make_context("serve", shlex.split(words))
    known = {option for parameter in serve.params if isinstance(parameter, click.Option) for option in parameter.opts}
    for option in re.findall(r"`(--[a-z-]+)", PAGE):
        assert option in known, option


def test_the_image_is_not_root_and_installs_extras_that_there_are() -> None:
    (extras,) = re.findall(r"/src\[([\w,]+)\]", DOCKERFILE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {"server", "mcp", "postgres"} <= set(extras.split(",")) <= set(known)
    users = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert users == ["10001:10001"]
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    for name in (line.removeprefix("!") for line in ignored if line.startswith("!")):
        assert (ROOT / name).exists(), name
    needed = {"evalcell", "runner", "sandboxes", "templates", "README.md", "LICENSE", "NOTICE"}
    needed |= {"hatch_build.py", "pyproject.toml"}
    assert {f"!{name}" for name in needed} <= set(ignored)


def test_compose_gives_the_server_no_more_than_it_needs() -> None:
    server, database = COMPOSE["services"]["evalcell"], COMPOSE["services"]["database"]
    assert (server["read_only"], server["cap_drop"]) == (True, ["ALL"])
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert "ports" not in database
    mounted = {volume.partition(":")[2] for volume in server["volumes"]}
    named = dict(re.findall(r"(EVALCELL_\w+_DIR)=(\S+)", DOCKERFILE))
    assert mounted == set(named.values())
    assert "?" in server["environment"]["EVALCELL_TOKEN"]  # without one, compose says so and does not start


@pytest.fixture
def container() -> Iterator[list[str]]:
    """A command that runs what follows as user 10001 in a container with a read-only root and the compiled guest."""
    if os.geteuid() or not shutil.which("podman") or not shutil.which("runc"):
        pytest.skip("needs root, podman and runc")
    guest = compile_guest(lambda _: None)
    with tempfile.TemporaryDirectory(prefix="evalcell-container-", dir="/var/tmp") as made:
        root, data, cache = (Path(made) / name for name in ("root", "data", "cache"))
        for name in ("usr", "tmp", "proc", "sys", "dev", "etc", "data", "var/cache/evalcell"):
            (root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                (root / name).symlink_to(os.readlink(f"/{name}"))
        data.mkdir()
        shutil.copytree(Path(guest.code).parents[0], cache / "wasm")
        for path in (Path(made), data, cache, *cache.rglob("*")):
            os.chown(path, 10001, 10001)
        shown = {"/usr", sys.base_prefix, sys.prefix, str(ROOT)}
        shown = {path for path in shown if not any(path.startswith(other + "/") for other in shown)}
        command = ["podman", "--runtime", "runc", "run", "--rm", "--network", "host", "--user", "10001:10001"]
        command += ["--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
        command += ["--security-opt", "no-new-privileges", "--memory", "2g"]
        command += ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=8192:8192"]
        command += ["--volume", f"{data}:/data", "--volume", f"{cache}:/var/cache/evalcell:ro"]
        command += [word for path in shown for word in ("--volume", f"{path}:{path}:ro")]
        named = dict(re.findall(r"(EVALCELL_\w+_DIR)=(\S+)", DOCKERFILE))
        variables = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "EVALCELL_TOKEN": TOKEN, **named}
        command += [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        command += ["--rootfs", str(root)]
        tried = subprocess.run([*command, sys.executable, "-c", "print('here')"], capture_output=True, text=True)
        if tried.stdout != "here\n":
            pytest.skip(f"no container can be run here: {tried.stderr.strip()[-300:]}")
        yield [*command, sys.executable, "-m", "runner"]


@pytest.mark.timeout(300)
@pytest.mark.thorough("a server in a process; a container needs podman")
def test_a_server_works_in_a_container_with_a_read_only_root(container: list[str]) -> None:
    process = subprocess.Popen([*container, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = re.search(r"http://\S+", line)
        assert found, (line, process.stderr and process.stderr.read())
        asked = {"source": "def evaluate(output):\n    return len(output)\n", "rows": [{"output": "abc"}]}
        headers = {"authorization": f"Bearer {TOKEN}"}
        began = time.monotonic()
        reply = httpx.post(f"{found[0]}v1/evaluate", json=asked, headers=headers, timeout=120)
        assert reply.status_code == 200, reply.text
        assert json.loads(reply.text)["results"][0]["result"]["score"] == 3
        # The guest was there: compiling it takes longer than this on any machine, or fails as nothing can be written.
        assert time.monotonic() - began < 60
    finally:
        process.terminate()
        process.communicate(timeout=60)
