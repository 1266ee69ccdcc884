"""The machines of the local servers do what a server says that they do."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.remote import room
from tests.remote.machine import Machine, MachineGone, Machines
from tests.remote.serving import Server
from tests.remote.use import opened, order

pytestmark = pytest.mark.timeout(60)


@asynccontextmanager
async def on_machine() -> AsyncIterator[tuple[Machines, Machine]]:
    works, reason = room.bubblewrap()
    if works is None:
        pytest.skip(reason)

    machines = Machines()
    try:
        yield machines, await machines.create(key="k", tags={"owner": "o"})
    finally:
        await machines.end_all()
    assert machines.live() == []


async def test_a_group_is_killed_and_what_left_it_lives_until_the_machine_ends() -> None:
    async with on_machine() as (machines, machine):
        leaves = "sleep 60 & setsid sh -c 'echo left; exec sleep 60' & wait"
        process = await machine.start_program(["sh", "-c", leaves])
        assert await process.stdout.readline() == b"left\n"
        assert await machines.processes() == 3
        await process.kill(group=True)
        assert await process.wait() == 128 + signal.SIGKILL
        while await machines.processes() != 1:
            await asyncio.sleep(0.01)
        with pytest.raises(ProcessLookupError):
            await process.kill()
        stays = await machine.start_program(["sleep", "60"])
        await machine.end("tried")
        with pytest.raises(MachineGone, match="tried"):
            await stays.wait()
        assert not machine.alive
        assert await machines.processes() == 0
        with pytest.raises(MachineGone):
            await machine.start_program(["true"])


async def test_nothing_of_an_ended_machine_is_left_on_the_host() -> None:
    mark = f"{31_000_000 + os.getpid()}"

    async with on_machine() as (machines, machine):
        await machine.start_program(["sh", "-c", f"setsid sleep {mark} & sleep {mark}"])
        while await machines.processes() < 3:
            await asyncio.sleep(0.01)
        assert len(named(mark)) >= 2
        await machine.end("tried")
        assert named(mark) == []


def named(word: str) -> list[str]:
    """The processes of the host that have it in their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and word.encode() in _read(folder / "cmdline"):
            found.append(folder.name)
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_files_and_what_is_the_hosts() -> None:
    async with on_machine() as (_, machine):
        await machine.write("/home/user/a/b.txt", b"b" * 3_000_000, "user")
        assert await machine.read("/home/user/a/b.txt") == b"b" * 3_000_000
        lists = await machine.start_program(["sh", "-c", "stat -c %U a/b.txt; touch a/c"], user="user")
        assert await lists.stdout.read() == b"user\n"
        assert await lists.wait() == 0
        with pytest.raises(FileNotFoundError, match="/nowhere"):
            await machine.read("/nowhere")
        with pytest.raises(IsADirectoryError):
            await machine.read("/home/user/a")
        with pytest.raises(FileNotFoundError, match="no-such"):
            await machine.start_program(["no-such"])
        with pytest.raises(FileNotFoundError, match="/no-folder"):
            await machine.start_program(["true"], cwd="/no-folder")
        with pytest.raises(OSError, match="/usr/x"):
            await machine.write("/usr/x", b"")
        # A link of the machine's leads to the machine's file, never to the host's.
        link = await machine.start_program(["ln", "-s", __file__, "/tmp/link"])
        await link.wait()
        with pytest.raises(FileNotFoundError):
            await machine.read("/tmp/link")


async def test_an_agent_that_is_gone_is_a_machine_that_is_gone() -> None:
    async with on_machine() as (machines, machine):
        os.kill(machine.first, signal.SIGKILL)
        while machine.alive:
            await asyncio.sleep(0.01)
        with pytest.raises(MachineGone, match="agent is gone"):
            await machine.processes()
        await machine.end("again")
        assert machines.live() == []


def test_a_server_ends_with_its_machines_when_its_parent_is_gone() -> None:
    works, reason = room.bubblewrap()
    if works is None:
        pytest.skip(reason)

    async def create(server: Server) -> None:
        async with opened(server) as provider:
            await provider.create(order())

    with Server.start("tests.remote.vercel_server") as server:
        asyncio.run(create(server))
        first = server.state().machines[0]["first"]
        server.abandon()
        until = time.monotonic() + 60
        while Path(f"/proc/{first}").exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert not Path(f"/proc/{first}").exists()
