"""Our E2B provider against the local E2B: every method."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.e2b.provider import E2BProvider
from sandboxes.remote.provider import Command, CommandResult, FullError, GoneError, Order
from tests.remote.e2b_server import KEY
from tests.remote.e2b_use import listed, order, ran, using
from tests.remote.room import bubblewrap
from tests.remote.serving import Server


@pytest.fixture(scope="module")
def old_server() -> Iterator[Server]:
    """A deployment that knows version 1 alone, gives tokens for its proxy, and has room for two machines."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.e2b_server", v2=False, private=True, cap=2) as server:
        yield server


def test_a_machine_lives_and_is_found_and_ended(e2b_server: Server) -> None:
    async def work(provider: E2BProvider) -> None:
        wanted = order()
        machine = await provider.create(wanted)
        assert (machine.id, machine.key) == ((await provider.create(wanted)).id, wanted.key)
        again = await provider.find(wanted.key)
        assert again is not None
        assert again.id == machine.id
        assert (await ran(provider, again, "echo", "there"))[1] == b"there\n"
        assert await provider.find("another") is None
        (found,) = await listed(provider)
        assert (found.id, found.key, found.tags) == (machine.id, wanted.key, wanted.tags)
        assert abs((datetime.now(UTC) - found.since).total_seconds()) < 30
        await provider.kill(machine.id)
        with pytest.raises(GoneError):
            await provider.kill(machine.id)
        assert await provider.find(wanted.key) is None
        for work in (ran(provider, machine, "true"), ran(provider, machine, "true", input=b"x")):
            with pytest.raises(GoneError):
                await work
        with pytest.raises(GoneError):
            await provider.extend(machine, 60)

    using(e2b_server.environment, work)
    assert e2b_server.state().created == 1


def test_commands_run_as_root_with_input_and_variables(e2b_server: Server) -> None:
    script = "import os, sys; data = sys.stdin.buffer.read(); print(len(data), data[:2], os.getenv('A')); "
    script += "print(os.getuid() in (0, 1000), [n for n in os.listdir('/root') if 'evalcell' in n])"

    async def work(provider: E2BProvider) -> None:
        machine = await provider.create(order())
        ended, said = await ran(provider, machine, "python3", "-c", script, input=b"\0\xff" * (5 << 20), env={"A": "ä"})
        assert (ended.code, said.decode()) == (0, "10485760 b'\\x00\\xff' ä\nTrue []\n")
        assert (await ran(provider, machine, "cat"))[1] == b""
        ended, said = await ran(provider, machine, "sh", "-c", "printf '\\303'; echo why >&2; exit 3", input=b"x")
        assert (ended, said) == (CommandResult(3, "why\n"), b"\303")
        ended, _ = await ran(provider, machine, "sh", "-c", "yes err | head -c 200000 >&2; kill -TERM $$")
        assert (ended.code, len(ended.errors)) == (128 + 15, 64 * 1024)
        assert (await ran(provider, machine, "no-such-program", input=b"x"))[0].code == 127
        ended, said = await ran(provider, machine, "sh", "-c", "head -c 3000000 /dev/zero")
        assert (ended.code, len(said)) == (0, 3_000_000)
        began = time.monotonic()
        ended, said = await ran(provider, machine, "sh", "-c", "echo half; exec sleep 41", input=b"x", timeout=0.7)
        assert (ended.code, said) == (None, b"half\n")
        assert time.monotonic() - began < 40, "it sleeps for 41 s"
        await provider.kill(machine.id)

    using(e2b_server.environment, work)


def test_an_error_of_who_hears_passes_through(e2b_server: Server) -> None:
    class Enough(Exception):
        pass

    def on_output(piece: bytes) -> None:
        raise Enough

    async def work(provider: E2BProvider) -> None:
        machine = await provider.create(order())
        with pytest.raises(Enough):
            await provider.execute(machine, Command(("yes",)), on_output)
        await provider.kill(machine.id)

    using(e2b_server.environment, work)


def test_a_life_is_prolonged_and_the_network_cut(e2b_server: Server) -> None:
    async def work(provider: E2BProvider) -> None:
        short = await provider.create(order(lifetime=2, network=True))
        assert e2b_server.state().machines[0]["network"]
        await provider.extend(short, 60)
        await provider.cut_network(short)
        assert not e2b_server.state().machines[0]["network"]
        await asyncio.sleep(2.2)
        assert (await ran(provider, short, "true"))[0].code == 0
        await provider.extend(short, 1)
        await asyncio.sleep(1.3)
        with pytest.raises(GoneError):
            await ran(provider, short, "true")
        closed = await provider.create(order())
        assert not e2b_server.state().machines[0]["network"]
        await provider.kill(closed.id)

    using(e2b_server.environment, work)


def test_machines_of_others_are_not_listed() -> None:
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    other = {"owner": "somebody", "key": "k"}

    async def work(provider: E2BProvider) -> None:
        keys = [f"page-{n}" for n in range(5)]
        machines = await asyncio.gather(*(provider.create(order(key)) for key in keys))
        await provider.create(Order("k", other, 60, False, 1))
        assert sorted(found.key for found in await listed(provider)) == keys
        assert server.state().requests["list"] == 3
        await asyncio.gather(*(provider.kill(machine.id) for machine in machines))

    with Server.start("tests.remote.e2b_server", page=2) as server:
        using(server.environment, work)


def test_an_older_deployment_is_spoken_to_in_version_1(old_server: Server) -> None:
    async def work(provider: E2BProvider) -> None:
        wanted = order()
        first, again = await provider.create(wanted), await provider.create(wanted)
        assert first.id == again.id
        assert (await ran(provider, again, "cat", input=b"text"))[1] == b"text"
        second = await provider.create(order())
        assert [found.key for found in await listed(provider)] == [second.key, first.key]
        with pytest.raises(FullError, match="maximum number"):
            await provider.create(order())
        await provider.kill(first.id)
        await provider.kill(second.id)
        state = old_server.state()
        assert state.created == 2
        assert state.log.count(["create", ""]) == 4  # once in vain for version 2

    old_server.clear()
    using(old_server.environment, work)
    assert not old_server.state().machines


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "E2B_API_KEY is not set; set E2B_API_KEY"),
        ({"E2B_API_KEY": "e2b_\n1"}, "E2B_API_KEY is not a valid key"),
        ({"E2B_API_KEY": "e2b_ä"}, "E2B_API_KEY is not a valid key"),
        ({"E2B_API_KEY": KEY, "E2B_DOMAIN": "e2b.app/x"}, "E2B_DOMAIN"),
        ({"E2B_API_KEY": KEY, "E2B_API_URL": "http://e2b.example"}, "E2B_API_URL"),
        ({"E2B_API_KEY": KEY, "E2B_SANDBOX_URL": "ftp://e2b.example"}, "E2B_SANDBOX_URL"),
    ],
)
def test_settings_that_cannot_be_used_are_told(values: dict[str, str], says: str) -> None:
    with pytest.raises(SandboxUnavailableError, match=says) as failed:
        E2BProvider(values)
    assert values.get("E2B_API_KEY", "none") not in str(failed.value)


def test_the_key_is_shown_by_nothing() -> None:
    provider = E2BProvider({"E2B_API_KEY": KEY, "E2B_DOMAIN": "e2b.example.org"})
    assert provider.address.startswith("https://api.e2b.example.org/key-")
    assert KEY not in repr(vars(provider))
    other = E2BProvider({"E2B_API_KEY": KEY[::-1], "E2B_DOMAIN": "e2b.example.org"})
    assert other.address != provider.address  # it tells accounts apart
