"""The machines of the local servers do what a server says that they do."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.remote import room
from tests.remote.machine import Machine, MachineGone, Machines

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


async def test_streams_exit_code_and_variables() -> None:
    async with on_machine() as (_, machine):
        said = (
            "import os,sys; sys.stderr.write(os.environ['A'] + os.getcwd()); print(sys.stdin.read()[::-1]); sys.exit(7)"
        )
        process = await machine.start_program(["python3", "-c", said], env={"A": "a"}, cwd="/tmp")
        await process.write(b"abc")
        await process.close_stdin()
        assert (await process.stdout.read(), await process.stderr.read()) == (b"cba\n", b"a/tmp")
        assert await process.wait() == 7
        merged = await machine.start_program(["sh", "-c", "echo a; echo b >&2; cat"], stdin=False, merge=True)
        assert (await merged.stdout.read(), await merged.stderr.read(), await merged.wait()) == (b"a\nb\n", b"", 0)


async def test_much_goes_through_and_nothing_is_kept_for_who_does_not_read() -> None:
    async with on_machine() as (_, machine):
        echo = await machine.start_program(["cat"])
        sent = os.urandom(5_000_000)

        async def feed() -> None:
            await echo.write(sent)
            await echo.close_stdin()

        _, got = await asyncio.gather(feed(), echo.stdout.read())
        assert got == sent
        endless = await machine.start_program(["yes"])
        await asyncio.sleep(0.2)
        await endless.kill(signal.SIGTERM)
        assert await endless.wait() == 128 + signal.SIGTERM
        assert len(await endless.stdout.read()) < 400_000


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


async def test_network_can_be_cut_while_it_runs() -> None:
    async with on_machine() as (_, machine):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            dial = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
            reached = await machine.start_program(["python3", "-c", dial])
            assert await reached.wait() == 0
            machine.network = False
            cut = await machine.start_program(["python3", "-c", dial])
            assert await cut.wait() == 1
            assert b"refused" in await cut.stderr.read()


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


async def test_a_life_ends_by_itself_and_may_be_prolonged() -> None:
    async with on_machine() as (machines, machine):
        short, longer = await asyncio.gather(machines.create(lifetime=0.2), machines.create(lifetime=60))
        before = longer.ends or 0
        longer.live_for(600)
        assert (longer.ends or 0) > before + 60
        sleeper = await short.start_program(["sleep", "60"])
        with pytest.raises(MachineGone, match="time was over"):
            await sleeper.wait()
        assert machines.live() == [machine, longer]
        with pytest.raises(MachineGone):
            machines.get(short.id)


async def test_an_agent_that_is_gone_is_a_machine_that_is_gone() -> None:
    async with on_machine() as (machines, machine):
        os.kill(machine.first, signal.SIGKILL)
        while machine.alive:
            await asyncio.sleep(0.01)
        with pytest.raises(MachineGone, match="agent is gone"):
            await machine.processes()
        await machine.end("again")
        assert machines.live() == []
