"""VercelProvider against the local API: every method."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.provider import Command, CommandResult, FullError, GoneError, RefusedError, UnreachableError
from sandboxes.remote.vercel import VercelProvider
from tests.remote.room import bubblewrap
from tests.remote.serving import Server
from tests.remote.vercel_ways import TAGS, machine, order, run, told


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


def test_one_machine_for_one_order(vercel_server: Server) -> None:
    async def work(provider: VercelProvider) -> None:
        async with machine(provider) as made:
            state = vercel_server.state()
            assert [(m["key"], m["tags"], m["network"]) for m in state.machines] == [("evalcell-one", TAGS, False)]
            again = await provider.create(order("evalcell-one"))
            found = await provider.find("evalcell-one")
            assert found is not None
            assert (again.id, again.data.id) == (found.id, found.data.id) == (made.id, made.data.id)
            assert abs(found.data.ends - made.data.ends) < 5
            assert await provider.find("evalcell-two") is None
        assert await provider.find("evalcell-one") is None
        await provider.kill("evalcell-one")
        await provider.kill("never-was/../x")
        async with machine(provider, network=True):  # its name is free again
            assert vercel_server.state().machines[0]["network"] is True
        with pytest.raises(RefusedError, match="5 tags"):
            await provider.create(order("evalcell-tags", tags={**TAGS, "sixth": "x"}))

    run(vercel_server, work)
    assert vercel_server.state().created == 2


def test_an_order_whose_answer_was_lost_is_found(vercel_server: Server) -> None:
    async def work(provider: VercelProvider) -> None:
        vercel_server.fault("create", "cut-after")
        with pytest.raises(UnreachableError) as lost:
            await provider.create(order("evalcell-lost"))
        assert lost.value.sent
        found = await provider.find("evalcell-lost")
        assert found is not None
        assert (await provider.create(order("evalcell-lost"))).data.id == found.data.id
        await provider.kill(found.id)

    run(vercel_server, work)
    assert vercel_server.state().created == 1


def test_a_stopped_machine_is_not_started_by_looking(vercel_server: Server) -> None:
    async def work(provider: VercelProvider) -> None:
        made = await provider.create(order("evalcell-dead"))
        vercel_server.die(vercel_server.state().machines[0]["id"])
        assert await provider.find("evalcell-dead") is None
        assert [found async for found in provider.list()] == []
        for asked in (provider.extend(made, 600), provider.cut_network(made), told(provider, made, "true")):
            with pytest.raises(GoneError):
                await asked
        assert vercel_server.state().created == 1
        with pytest.raises(UnreachableError):  # its name is taken: what has it is deleted, and it may be asked again
            await provider.create(order("evalcell-dead"))
        async with machine(provider, "evalcell-dead"):
            assert len(vercel_server.state().machines) == 1

    run(vercel_server, work)


def test_waits_lists_all_and_meets_the_cap(small: Server) -> None:
    async def work(provider: VercelProvider) -> None:
        async with machine(provider, "evalcell-a") as a, machine(provider, "evalcell-b", tags={**TAGS, "run": "r2"}):
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

    run(small, work)
    assert small.state().machines == []


def test_life_is_prolonged_from_now(vercel_server: Server) -> None:
    async def work(provider: VercelProvider) -> None:
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

    run(vercel_server, work)


@pytest.mark.parametrize("ahead", [-3600, -100, 0, 3600])
def test_a_clock_that_goes_wrong_here_lets_no_machine_die(ahead: int) -> None:
    provider = VercelProvider({"VERCEL_TOKEN": "secret", "VERCEL_TEAM_ID": "t", "VERCEL_PROJECT_ID": "p"})
    session = {"status": "running", "startedAt": (time.time() - ahead) * 1000, "timeout": 300_000}
    reply = {"sandbox": {"currentSessionId": "se"}, "session": session}
    made = asyncio.run(provider._ready("name", reply))
    assert max(0, 300 - max(0, ahead)) - 5 < made.data.ends - time.monotonic() <= 300


def test_the_network_is_cut(vercel_server: Server) -> None:
    reach = f"import socket; socket.create_connection(('127.0.0.1', {urlsplit(vercel_server.url).port}), 5)"

    async def work(provider: VercelProvider) -> None:
        async with machine(provider, network=True) as made:
            assert (await told(provider, made, "python3", "-c", reach))[0].code == 0
            await provider.cut_network(made)
            assert (await told(provider, made, "python3", "-c", reach))[0].code == 1

    run(vercel_server, work)


def test_commands(vercel_server: Server) -> None:
    async def work(provider: VercelProvider) -> None:
        async with machine(provider) as made:
            ended, said = await told(
                provider, made, "sh", "-c", 'id -un; echo "$A"; echo é >&2; exit 3', env={"A": "b"}
            )
            # A host's ordinary user has no other to run programs as.
            who = b"user" if os.geteuid() else b"root"
            assert (ended, said) == (CommandResult(3, "é\n"), who + b"\nb\n")
            data = bytes(range(32, 127)) * 30_000
            assert (await told(provider, made, "cat", input=data)) == (CommandResult(0, ""), data)
            assert (await told(provider, made, "cat")) == (CommandResult(0, ""), b"")
            assert (await told(provider, made, "true", input=data))[0].code == 0  # it reads none of it
            ended, _ = await told(provider, made, "sh", "-c", "yes error | head -c 300000 >&2")
            assert len(ended.errors) == 64 * 1024
            assert (await told(provider, made, "sh", "-c", "kill -9 $$"))[0].code == 137
            ended, said = await told(provider, made, "sh", "-c", "echo early; sleep 60", timeout=0.5)
            assert (ended.code, said) == (None, b"early\n")
            with pytest.raises(RefusedError):
                await told(provider, made, "no-such-program")

    run(vercel_server, work)


def test_what_hears_may_stop_and_be_stopped(vercel_server: Server) -> None:
    class EnoughError(Exception):
        pass

    def refuse(piece: bytes) -> None:
        raise EnoughError

    async def work(provider: VercelProvider) -> None:
        async with machine(provider) as made:
            with pytest.raises(EnoughError):
                await provider.execute(made, Command(("sh", "-c", "echo a; sleep 60")), refuse)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await told(provider, made, "sleep", "60")
            assert len(asyncio.all_tasks()) == 1

    run(vercel_server, work)
