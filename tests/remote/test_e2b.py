"""Our E2B provider against the local E2B: every method."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.e2b.provider import E2BProvider
from sandboxes.remote.provider import FullError, GoneError, Order
from tests.remote.e2b_server import KEY
from tests.remote.room import bubblewrap
from tests.remote.serving import Server
from tests.remote.use import listed, machine, opened, order, told


@pytest.fixture(scope="module")
def old_server() -> Iterator[Server]:
    """A deployment that knows version 1 alone, gives tokens for its proxy, and has room for two machines."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.e2b_server", v2=False, private=True, cap=2) as server:
        yield server


async def test_commands_are_root_s_and_leave_nothing(e2b_server: Server) -> None:
    script = "import os; print(os.getuid() in (0, 1000), [n for n in os.listdir('/root') if 'evalcell' in n])"
    async with opened(e2b_server) as provider, machine(provider) as made:
        assert (await told(provider, made, "python3", "-c", script, input=b"x"))[1] == b"True []\n"
        assert (await told(provider, made, "sh", "-c", "printf '\\303'"))[1] == b"\303"


async def test_a_life_is_prolonged_and_the_network_cut(e2b_server: Server) -> None:
    async with opened(e2b_server) as provider:
        short = await provider.create(order(lifetime=2, network=True))
        assert e2b_server.state().machines[0]["network"]
        await provider.extend(short, 60)
        await provider.cut_network(short)
        assert not e2b_server.state().machines[0]["network"]
        await asyncio.sleep(2.2)
        assert (await told(provider, short, "true"))[0].code == 0
        await provider.extend(short, 1)
        await asyncio.sleep(1.3)
        with pytest.raises(GoneError):
            await told(provider, short, "true")
        closed = await provider.create(order())
        assert not e2b_server.state().machines[0]["network"]
        await provider.kill(closed.id)


async def test_machines_of_others_are_not_listed() -> None:
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    other = {"owner": "somebody", "key": "k"}

    with Server.start("tests.remote.e2b_server", page=2) as server:
        async with opened(server) as provider:
            keys = [f"page-{n}" for n in range(5)]
            machines = await asyncio.gather(*(provider.create(order(key)) for key in keys))
            await provider.create(Order("k", other, 60, False, 1))
            assert sorted(found.key for found in await listed(provider)) == keys
            assert server.state().requests["list"] == 3
            await asyncio.gather(*(provider.kill(machine.id) for machine in machines))


async def test_an_older_deployment_is_spoken_to_in_version_1(old_server: Server) -> None:
    old_server.clear()
    async with opened(old_server) as provider:
        wanted = order()
        first, again = await provider.create(wanted), await provider.create(wanted)
        assert first.id == again.id
        assert (await told(provider, again, "cat", input=b"text"))[1] == b"text"
        second = await provider.create(order())
        assert [found.key for found in await listed(provider)] == [second.key, first.key]
        with pytest.raises(FullError, match="maximum number"):
            await provider.create(order())
        await provider.kill(first.id)
        await provider.kill(second.id)
        state = old_server.state()
        assert state.created == 2
        assert state.log.count(["create", ""]) == 4  # once in vain for version 2
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
