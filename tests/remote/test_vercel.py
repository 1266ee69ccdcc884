"""VercelProvider against the local API: every method."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Iterator

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.provider import CommandResult, FullError, GoneError, RefusedError, UnreachableError
from sandboxes.remote.vercel import VercelProvider
from tests.remote.room import bubblewrap
from tests.remote.serving import Server
from tests.remote.use import TAGS, listed, machine, opened, order, told


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """Its machines take a moment to start; two may run at once; one is told of at a time."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.vercel_server", page=1, pending=0.4, cap=2, patience=0.3) as server:
        yield server


def oidc(claims: object) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.x"


def test_credentials() -> None:
    whole = {"VERCEL_TOKEN": "secret-one", "VERCEL_TEAM_ID": "t", "VERCEL_PROJECT_ID": "p"}
    provider = VercelProvider(whole)
    assert provider.address == "https://vercel.com/api/t/p"
    assert "secret-one" not in repr(vars(provider))
    VercelProvider({"VERCEL_OIDC_TOKEN": oidc({"owner_id": "t", "project_id": "p"})})
    for name in whole:
        with pytest.raises(SandboxUnavailableError, match="set VERCEL_TOKEN, VERCEL_TEAM_ID and VERCEL_PROJECT_ID"):
            VercelProvider({k: v for k, v in whole.items() if k != name})
    for token in (oidc({}), oidc([]), "a.b", "nothing", "e30.\xff.x"):
        with pytest.raises(SandboxUnavailableError):
            VercelProvider({"VERCEL_OIDC_TOKEN": token})
    with pytest.raises(SandboxUnavailableError, match="EVALCELL_VERCEL_URL"):
        VercelProvider({**whole, "EVALCELL_VERCEL_URL": "http://vercel.example/api"})


async def test_a_command_is_root_s_and_a_sixth_tag_refused(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider, machine(provider) as made:
        assert abs((await provider.find(made.key)).data.ends - made.data.ends) < 5
        # A host's ordinary user has no other to run programs as.
        assert (await told(provider, made, "id", "-un"))[1] == (b"user\n" if os.geteuid() else b"root\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await told(provider, made, "sleep", "60")
        with pytest.raises(RefusedError, match="5 tags"):
            await provider.create(order("evalcell-tags", tags={**TAGS, "a": "x", "b": "x", "c": "x"}))


async def test_a_stopped_machine_is_not_started_by_looking(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider:
        made = await provider.create(order("evalcell-dead"))
        vercel_server.die(vercel_server.state().machines[0]["id"])
        assert await provider.find("evalcell-dead") is None
        assert await listed(provider) == []
        for asked in (provider.extend(made, 600), provider.cut_network(made), told(provider, made, "true")):
            with pytest.raises(GoneError):
                await asked
        assert vercel_server.state().created == 1
        with pytest.raises(UnreachableError):  # its name is taken: what has it is deleted, and it may be asked again
            await provider.create(order("evalcell-dead"))
        async with machine(provider, "evalcell-dead"):
            assert len(vercel_server.state().machines) == 1


async def test_waits_lists_all_and_meets_the_cap(small: Server) -> None:
    async with (
        opened(small) as provider,
        machine(provider, "evalcell-a") as a,
        machine(provider, "evalcell-b", tags={**TAGS, "run": "r2"}),
    ):
        assert (await told(provider, a, "echo", "ready"))[1] == b"ready\n"
        data = bytes(range(32, 127)) * 10_000
        assert await told(provider, a, "sh", "-c", "sleep 1; cat", input=data) == (CommandResult(0, ""), data)
        found = {m.id: (m.key, m.tags["run"], m.tags["key"], m.since.tzinfo) async for m in provider.list()}
        assert {id: seen[:3] for id, seen in found.items()} == {
            "evalcell-a": ("evalcell-a", "r1", "evalcell-a"),
            "evalcell-b": ("evalcell-b", "r2", "evalcell-b"),
        }
        assert all(zone is not None for *_, zone in found.values())
        with pytest.raises(FullError):
            await provider.create(order("evalcell-c"))
        await provider.kill("evalcell-b")
        async with machine(provider, "not-ours", tags={"owner": "somebody"}):
            assert [m.id async for m in provider.list()] == ["evalcell-a"]
    assert small.state().machines == []


async def test_life_is_prolonged_from_now(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider:
        async with machine(provider, lifetime=3) as made:
            await provider.extend(made, 30)
            await provider.extend(made, 30)  # nothing is lacking
            assert vercel_server.state().requests["extend"] == 1
            await asyncio.sleep(3.2)
            assert (await told(provider, made, "true"))[0].code == 0
            with pytest.raises(RefusedError):
                await provider.extend(made, 3000)
        async with machine(provider, "evalcell-short", lifetime=1):
            while vercel_server.state().machines:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("ahead", [-3600, -100, 0, 3600])
def test_a_clock_that_goes_wrong_here_lets_no_machine_die(ahead: int) -> None:
    provider = VercelProvider({"VERCEL_TOKEN": "secret", "VERCEL_TEAM_ID": "t", "VERCEL_PROJECT_ID": "p"})
    session = {"status": "running", "startedAt": (time.time() - ahead) * 1000, "timeout": 300_000}
    reply = {"sandbox": {"currentSessionId": "se"}, "session": session}
    made = asyncio.run(provider._ready("name", reply))
    assert max(0, 300 - max(0, ahead)) - 5 < made.data.ends - time.monotonic() <= 300
