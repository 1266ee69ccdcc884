"""What each provider's methods do, against its local server, and what each failure becomes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from sandboxes.remote.provider import (
    ERRORS,
    Command,
    CommandResult,
    GoneError,
    RefusedError,
    UnreachableError,
)
from tests.remote.serving import Server
from tests.remote.use import TAGS, listed, machine, new_machine, opened, order, told

PROVIDERS = ("e2b", "modal", "vercel", "daytona")
TEXT_ONLY = ("vercel",)
"""What is printed comes as JSON."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modal's SDK waits by itself if somebody imported it with the settings of a user of this machine."""
    monkeypatch.setenv("MODAL_MAX_THROTTLE_WAIT", "0")


@pytest.fixture(params=PROVIDERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    found: Server = request.getfixturevalue(f"{request.param}_server")
    found.clear()
    yield found
    left = found.state().machines
    found.clear()
    assert not left


async def test_one_machine_for_one_order(server: Server) -> None:
    async with opened(server) as provider:
        wanted = order()
        assert await provider.find(wanted.key) is None
        made, again = await provider.create(wanted), await provider.create(wanted)
        found = await provider.find(wanted.key)
        assert (made.id, made.key) == (again.id, again.key) == (found.id, found.key) == (made.id, wanted.key)
        (state,) = server.state().machines
        assert (state["key"], state["network"]) == (wanted.key, False)
        assert TAGS.items() <= state["tags"].items()
        assert await told(provider, found, "echo", "there") == (CommandResult(0), b"there\n")
        assert await provider.find("another") is None
        (seen,) = await listed(provider)
        assert (seen.id, seen.key) == (made.id, wanted.key)
        assert TAGS.items() <= seen.tags.items()
        assert abs((datetime.now(UTC) - seen.since).total_seconds()) < 60
        await provider.kill(made.id)
        for id in (made.id, "never-was"):
            with suppress(GoneError):
                await provider.kill(id)
        assert await provider.find(wanted.key) is None
        assert await listed(provider) == []
        for late in (told(provider, made, "true"), told(provider, made, "true", input=b"x")):
            with pytest.raises(GoneError):
                await late
        await asyncio.sleep(0.3)  # for so long the API of Daytona still tells of it
        if server.name != "modal":  # where nothing can be prolonged
            with pytest.raises(GoneError):
                await provider.extend(made, 600)
        key = "" if server.name == "e2b" else wanted.key  # where a key has one order for ever
        async with machine(provider, key, network=True) as new:
            assert server.state().machines[0]["network"]
            assert new.id != made.id or server.name == "vercel"  # where a name is all the id there is
    assert server.state().created == 2


async def test_a_command_has_its_input_variables_output_and_code(server: Server) -> None:
    code = (
        "import hashlib, os, sys; data = sys.stdin.buffer.read();"
        " print(len(data), hashlib.sha256(data).hexdigest(), os.environ['SECRET'], sys.argv[1:])"
    )
    words, data = ("a b", "'\"$(id) `id` \\ \n*;", "-"), bytes(range(256)) * 30_000
    large = bytes(range(32, 127)) * 30_000 if server.name in TEXT_ONLY else data
    expected = f"{len(data)} {hashlib.sha256(data).hexdigest()} s3cr$t 'ä' {list(words)}\n".encode()
    async with new_machine(server) as (provider, made):
        secret = {"SECRET": "s3cr$t 'ä'"}
        assert await told(provider, made, "python3", "-c", code, *words, input=data, env=secret) == (
            CommandResult(0),
            expected,
        )
        assert await told(provider, made, "cat", input=large) == (CommandResult(0), large)
        assert await told(provider, made, "cat") == (CommandResult(0), b"")
        assert (await told(provider, made, "true", input=data))[0].code == 0  # it reads none of it
        failed = await told(provider, made, "sh", "-c", "printf 'ä'; echo é >&2; exit 3")
        assert failed == (CommandResult(3, "é\n"), "ä".encode())
        ended, _ = await told(provider, made, "sh", "-c", "yes err | head -c 300000 >&2; kill -TERM $$")
        assert (ended.code, len(ended.errors)) == (143, ERRORS)
        assert (await told(provider, made, "sh", "-c", "kill -9 $$"))[0].code == 137
        if server.name == "vercel":
            with pytest.raises(RefusedError):
                await told(provider, made, "no-such-program")
        else:
            assert (await told(provider, made, "no-such-program", input=b"x"))[0].code == 127
        alone = server.name in ("e2b", "vercel")  # they end the program, and not what it has started
        script = "echo half; echo why >&2; " + ("exec sleep 600" if alone else "sleep 600; true")
        ended, said = await told(provider, made, "sh", "-c", script, timeout=1)
        assert (ended.code, said) == (None, b"half\n")
        await server.until_processes(0)


@pytest.mark.parametrize("raised", [ValueError("unclear"), TimeoutError("own"), GoneError("own")])
async def test_who_hears_may_stop_it(server: Server, raised: Exception) -> None:
    def on_output(piece: bytes) -> None:
        raise raised

    if server.name == "vercel" and isinstance(raised, TimeoutError):
        pytest.skip("taken for the end of the command's time")
    before = asyncio.all_tasks()
    async with new_machine(server) as (provider, made):
        with pytest.raises(type(raised)) as caught:
            await provider.execute(made, Command(("sh", "-c", "yes | head -c 100000; sleep 60")), on_output)
        assert caught.value is raised
    if server.name == "vercel":
        assert asyncio.all_tasks() == before


async def test_the_network_is_off_or_is_cut(server: Server) -> None:
    if server.name == "modal":
        pytest.skip("its machines have or have not a network, from their start")
    links = "import socket; print(len(socket.if_nameindex()), open('/proc/net/route').read().count(chr(10)))"
    async with new_machine(server, network=True) as (provider, made):
        assert server.state().machines[0]["network"] is True
        await provider.cut_network(made)
        assert server.state().machines[0]["network"] is False
        assert (await told(provider, made, "python3", "-c", links))[1] == b"1 1\n"


async def test_an_order_whose_answer_is_lost_is_found_again(server: Server) -> None:
    if server.name == "modal":
        pytest.skip("its SDK asks again; see test_modal_failures.py")
    async with opened(server) as provider:
        wanted = order()
        server.fault("create", "cut-after")
        with pytest.raises(UnreachableError) as lost:
            await provider.create(wanted)
        assert lost.value.sent
        found = await provider.find(wanted.key)
        assert found is not None
        assert (await provider.create(wanted)).id == found.id
        await provider.kill(found.id)
    assert server.state().created == 1
