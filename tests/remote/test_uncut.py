"""Services that do not cut a machine's network: scripts are kept off it on the machine, which is told; or refused."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxes import SandboxLostError, SandboxUnavailableError
from sandboxes.remote.provider import GoneError, Order, RefusedError
from tests.cli.commands import evalcell
from tests.packages.wheels import wheel
from tests.remote.room import bubblewrap
from tests.remote.serving import Server
from tests.remote.speaker import Memory, Speaker
from tests.remote.trying import Trying, at
from tests.remote.use import TAGS, opened, order, told
from tests.remote.ways import WAYS, Running, asked, refused, rows

SCRIPT = """
import socket, tiny
def evaluate(output):
    try:
        socket.create_connection(("127.0.0.1", 9), 1)
    except OSError as e:
        return len(output) if not isinstance(e, ConnectionRefusedError) else -1
"""
"""A connection that is refused by whoever should listen was let through by all others."""

SELF_HOSTED: dict[str, dict[str, Any]] = {"e2b": {"v2": "list", "network": False}, "daytona": {"tier": 2}}
WHY = {"e2b": "no PUT /sandboxes/ID/network", "daytona": "cannot be overridden at the sandbox level"}


@pytest.fixture(scope="module")
def wheels() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # where a machine's user may read it too
        Path(folder).chmod(0o755)
        yield wheel(Path(folder), "tiny", "1.5")


@pytest.fixture(scope="module", params=SELF_HOSTED)
def uncutting(request: pytest.FixtureRequest, wheels: Path) -> Iterator[tuple[str, Server]]:
    """Its machines get packages out of a folder."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels.parent))
        with Server.start(f"tests.remote.{request.param}_server", **SELF_HOSTED[request.param]) as server:
            yield request.param, server


@pytest.fixture
def trying(uncutting: tuple[str, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trying]:
    yield from at(*uncutting, tmp_path, monkeypatch)


def test_packages_are_used_and_scripts_kept_off_the_network_there(trying: Trying, wheels: Path) -> None:
    lock = f"tiny==1.5 --hash=sha256:{hashlib.sha256(wheels.read_bytes()).hexdigest()}\n"
    tried = trying.run(2, source=SCRIPT, lock=lock)
    assert tried.error is None
    assert trying.after(tried).created == 1
    assert tried.scores == {"0": 0, "1": 1}
    told = [line for line in tried.said if "off the network" in line]
    assert len(told) == 1
    assert WHY[trying.name] in told[0]
    # Which there are is a matter of this machine's kernel.
    assert {*told[0].rpartition("off the network, by ")[2].split(", ")} <= {"network", "seccomp"}


def test_without_packages_no_less_is_kept_and_told(trying: Trying) -> None:
    tried = trying.run(2, source=SCRIPT.replace(", tiny", ""))
    trying.after(tried)
    assert tried.scores == {"0": 0, "1": 1}
    assert any("off the network" in line for line in tried.said) == (trying.name == "daytona")


def test_a_try_takes_the_steps_of_a_run_with_packages(trying: Trying) -> None:
    words = ["sandboxes", "--try", trying.name, "--env-file", str(trying.env_file), "--with", "tiny"]
    result = evalcell(*words)
    assert result.exit_code == 0, result.output
    steps = {line.split()[0]: line for line in result.stdout.splitlines()}
    named = ["order", "greet", "resolve", "install", "cut", "open", "load", "run", "close", "look", "it"]
    assert list(steps) == named
    assert "the service leaves it open" in steps["cut"]
    assert steps["run"].endswith("one row, and the right result with tiny 1.5; the script reaches no network")
    assert WHY[trying.name] in result.stderr
    assert trying.server.state().machines == []


def test_a_try_names_the_step_that_fails_and_the_next_one(trying: Trying) -> None:
    words = ["sandboxes", "--try", trying.name, "--env-file", str(trying.env_file), "--with", "tiny>2"]
    result = evalcell(*words)
    assert result.exit_code == 2  # what cannot be had is the caller's to change
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == ["order", "greet", "resolve", "open", "close"]
    assert [line[-1] for line in lines[2:4]] == ["failed", "failed"]
    assert "tiny>2" in result.stderr
    assert trying.server.state().machines == []


async def test_a_self_hosted_e2b_makes_machines_in_version_1(uncutting: tuple[str, Server]) -> None:
    name, server = uncutting
    if name != "e2b":
        pytest.skip("its control plane has one version")
    server.clear()

    async with opened(server) as provider:
        machine = await provider.create(order(network=True))
        assert (await told(provider, machine, "echo", "there"))[1] == b"there\n"
        with pytest.raises(RefusedError, match="no PUT /sandboxes/ID/network"):
            await provider.cut_network(machine)
        await provider.kill(machine.id)
        with pytest.raises(GoneError):
            await provider.cut_network(machine)
    assert server.state().requests["create"] == 2  # once in vain for version 2


async def test_daytona_below_its_third_tier_is_asked_once_for_what_it_refuses(uncutting: tuple[str, Server]) -> None:
    name, server = uncutting
    if name != "daytona":
        pytest.skip("its machines belong to no tier")
    server.clear()

    async with opened(server) as provider:
        open, first, second = [
            await provider.create(Order(key, TAGS, 300, key == "open", 1 << 30)) for key in ("open", "first", "second")
        ]
        assert server.state().requests["create"] == 4
        assert WHY["daytona"] in first.why_online
        assert first.why_online == second.why_online
        assert (await provider.find("second")) == second
        with pytest.raises(RefusedError, match=WHY["daytona"]):
            await provider.cut_network(open)
        for machine in (open, first, second):
            await provider.kill(machine.id)


async def test_an_older_daytona_that_knows_no_such_request_is_told_apart_from_a_machine_that_is_gone() -> None:
    with Server.start("tests.remote.daytona_server", network=False) as server:
        async with opened(server) as provider:
            machine = await provider.create(Order("k", TAGS, 300, True, 1 << 30))
            with pytest.raises(RefusedError, match="no POST /sandbox/ID/network-settings"):
                await provider.cut_network(machine)
            await provider.kill(machine.id)


def _uncut(*protects: str) -> Memory:
    def prepare(speaker: Speaker) -> None:
        speaker.protects = protects
        speaker.why_online = "the service has no such request"

    return Memory(prepare, 4)


def test_what_nothing_keeps_off_the_network_is_refused_with_its_first_machine() -> None:
    memory = _uncut("memory", "pids")
    with pytest.raises(SandboxUnavailableError) as raised:
        asyncio.run(memory.work())
    for words in ("shelf: the service has no such request", "SandboxConfig(network=True)"):
        assert words in str(raised.value)
    assert memory.speaker
    assert memory.speaker.asked.count("create") == 1
    assert memory.tried.results == []
    memory.check("it was refused")


def test_one_wall_is_enough_and_told_once_for_all_machines() -> None:
    memory = _uncut("pids", "seccomp")
    asyncio.run(memory.work())
    assert len(memory.tried.results) == 4
    assert memory.tried.said == [
        "shelf: the service has no such request; the machines themselves keep scripts off the network, by seccomp"
    ]
    assert memory.speaker
    assert memory.speaker.shut == {True}


def test_whoever_may_use_the_network_needs_no_wall() -> None:
    memory = _uncut("pids")
    memory._options["network"] = True
    asyncio.run(memory.work())
    assert (len(memory.tried.results), memory.tried.said) == (4, [])


def test_the_harness_starts_no_script_that_it_cannot_keep_off_the_network() -> None:
    way = refused()  # it has the filter of system calls, and nothing else
    found = Running(way, asked(SCRIPT.replace(", tiny", "").replace("output", "x"), shut=True), rows("ab")).answer()
    assert found.values == [2]
    running = Running(WAYS["nothing"], asked("print('loaded')\ndef evaluate(x): return x", shut=True), rows(1))
    with pytest.raises(SandboxLostError, match="nothing keeps scripts off the network"):
        running.answer()
    assert running.listener.loaded is None


def test_a_kernel_that_finds_no_orphans_is_told_once() -> None:
    def prepare(speaker: Speaker) -> None:
        speaker.protects = ("seccomp",)

    memory = Memory(prepare, 4)
    asyncio.run(memory.work())
    assert memory.tried.said == [
        "speaker: processes that a script leaves behind run until the machine ends: "
        "its kernel does not find orphaned processes"
    ]


def test_a_machine_whose_python_hashes_by_chance_is_refused_by_name() -> None:
    def prepare(speaker: Speaker) -> None:
        speaker.hash_seed = "other"

    memory = Memory(prepare, 4)
    with pytest.raises(SandboxUnavailableError, match="shelf: the hash seed of the machine's Python is not 0"):
        asyncio.run(memory.work())
    assert memory.speaker
    assert memory.speaker.asked.count("create") == 1
    memory.check("it was refused")
