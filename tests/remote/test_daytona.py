"""Our side of Daytona against the local server: what every method does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.daytona import shell
from sandboxes.remote.daytona.provider import DaytonaProvider, _since
from sandboxes.remote.provider import (
    ERRORS,
    Command,
    CommandResult,
    Machine,
    Order,
    RefusedError,
    UnreachableError,
)
from tests.remote.serving import Server
from tests.remote.use import new_machine, opened, order, python_command, told


async def test_a_list_of_many_pages_tells_only_of_ours() -> None:
    orders = [order(f"k-{n}") for n in range(5)]
    other = Order("other", {"owner": "somebody", "key": "other"}, 60, False, 1 << 30)

    with Server.start("tests.remote.daytona_server", page=2) as server:
        async with opened(server, DAYTONA_TARGET="slow") as provider:  # no machine of these ever runs
            tasks = [asyncio.create_task(provider.create(order)) for order in [*orders, other]]
            while (await asyncio.to_thread(server.state)).requests.get("create", 0) < 6:
                await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert sorted([each.key async for each in provider.list()]) == sorted(order.key for order in orders)
            assert server.state().requests["list"] == 3


async def test_a_command_takes_one_request_and_leaves_nothing(daytona_server: Server) -> None:
    async with new_machine(daytona_server) as (provider, machine):
        await told(provider, machine, "cat", input=b"x")
        requests = daytona_server.state().requests
        assert {op: n for op, n in requests.items() if op != "get"} == {"create": 1, "upload": 1, "start": 1}
        stuck = python_command("import os, time; os.write(2, b'why'); time.sleep(600)", timeout=1)
        assert (await told(provider, machine, stuck))[0] == CommandResult(None, "why")
        assert len((await told(provider, machine, "ls", "-A", "/tmp"))[1].split()) == 1  # the folder of this command
        errors = "import sys; sys.stderr.buffer.write(b'x' * 70000 + b'\\xff.')"
        assert (await told(provider, machine, python_command(errors)))[0].errors == ("x" * ERRORS + "\ufffd.")[-ERRORS:]


async def test_much_output_comes_whole_and_bounded_in_memory(daytona_server: Server) -> None:
    async with new_machine(daytona_server) as (provider, machine):
        pieces: list[bytes] = []
        code = "import os\nfor n in range(50): os.write(1, bytes([n]) * 65536)"
        daytona_server.fault("download", "rate")
        ended = await provider.execute(machine, python_command(code), pieces.append)
        assert ended == CommandResult(0)
        assert b"".join(pieces) == b"".join(bytes([n]) * 65536 for n in range(50))
        assert max(map(len, pieces)) < 2 << 20
        assert daytona_server.state().requests["start"] == 1
        daytona_server.fault("download", "status:403")
        with pytest.raises(UnreachableError, match="the command's output cannot be read"):
            await provider.execute(machine, python_command(code), pieces.append)
        assert (await told(provider, machine, "ls", "-A", "/tmp"))[1].count(b"\n") == 1


async def test_output_is_heard_while_the_command_runs(daytona_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "_LOOKS", (0.2, 0.2))
    code = "import os, time\nfor n in range(4):\n  os.write(1, b'%d\\n' % n); time.sleep(0.4)"

    async with new_machine(daytona_server) as (provider, machine):
        pieces: list[bytes] = []
        ended = await provider.execute(machine, python_command(code), pieces.append)
        assert (ended.code, b"".join(pieces)) == (0, b"0\n1\n2\n3\n")
        assert len(pieces) > 2


async def test_its_life_ends_unless_it_is_extended() -> None:
    with Server.start("tests.remote.daytona_server", minute=2) as server:
        async with opened(server) as provider:
            machine = await provider.create(order(lifetime=60))
            for _ in range(5):
                await asyncio.sleep(0.5)
                await provider.extend(machine, 60)
            assert len(server.state().machines) == 1
            while server.state().machines:  # pytest's own limit is the end of this
                await asyncio.sleep(0.1)
            assert await provider.find(machine.key) is None


@pytest.mark.parametrize(
    ("api", "toolbox"),
    [
        ("https://api.test/api", "http://proxy.test/toolbox"),
        ("https://api.test/api", "http://127.0.0.1:9/toolbox"),
        ("https://api.test/api", "https://user:pass@proxy.test/toolbox"),
        ("https://api.test/api", "file:///toolbox"),
        ("https://api.test/api", "https://["),
        ("http://127.0.0.1:9/api", "http://proxy.test/toolbox"),
    ],
)
def test_the_key_goes_to_no_unsafe_toolbox(api: str, toolbox: str) -> None:
    provider = DaytonaProvider({"DAYTONA_API_KEY": "dtn_x", "DAYTONA_API_URL": api})
    with pytest.raises(RefusedError, match="unsafe toolbox address"):
        provider._toolbox({"toolboxProxyUrl": toolbox})
    assert provider._toolbox({"toolboxProxyUrl": "https://proxy.test/toolbox/"}) == "https://proxy.test/toolbox"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, "DAYTONA_API_KEY is not set"),
        ({"DAYTONA_API_KEY": "dtn_\nx"}, "DAYTONA_API_KEY is not a valid key"),
        ({"DAYTONA_API_KEY": "dtn_x", "DAYTONA_API_URL": "http://daytona.test/api"}, "DAYTONA_API_URL"),
    ],
)
def test_settings_that_cannot_be_used_are_named(values: dict[str, str], names: str) -> None:
    with pytest.raises(SandboxUnavailableError, match=names) as raised:
        DaytonaProvider(values)
    assert "dtn_" not in str(raised.value)


@pytest.mark.parametrize("said", [None, 7, "soon", "9999-12-31T23:59:59-23:59"])
def test_an_age_that_makes_no_sense_is_none(said: object) -> None:
    assert datetime.now(UTC) - _since({"createdAt": said}) < timedelta(seconds=5)


def test_the_key_is_in_nothing_that_is_shown() -> None:
    provider = DaytonaProvider({"DAYTONA_API_KEY": "dtn_secret"})
    assert provider.address.startswith("https://app.daytona.io/api/key-")
    assert "dtn_secret" not in repr(vars(provider))
    assert "proxy" not in repr(Machine("i", "k", "https://proxy.test"))


_SUDO = """#!/bin/sh
[ -e ~/refuses ] && exit 1
while [ "$1" != -- ]; do printf '%s\\n' "$1" >>~/asked; shift; done
shift
exec env AS=root "$@"
"""


async def test_a_command_is_root_s_where_sudo_lets_it(daytona_server: Server) -> None:
    variables = {"PATH": "/home/user/bin:/usr/local/bin:/usr/bin:/bin", "A": "1", "B": "2"}
    put = Command(("sh", "-c", "mkdir ~/bin && cat >~/bin/sudo && chmod +x ~/bin/sudo"), input=_SUDO.encode())
    who = Command(("sh", "-c", 'echo "$AS$A$B$1"; cat ~/asked; rm -f ~/asked', "sh", " x y"), env=variables)

    async with new_machine(daytona_server) as (provider, machine):
        assert (await told(provider, machine, put))[0] == CommandResult(0)
        asked = "-n\n--preserve-env=PATH,A,B\n" * 2
        assert await told(provider, machine, who) == (CommandResult(0), f"root12 x y\n{asked}".encode())
        await told(provider, machine, Command(("sh", "-c", "touch ~/refuses")))
        assert (await told(provider, machine, who))[1] == b"12 x y\n"
