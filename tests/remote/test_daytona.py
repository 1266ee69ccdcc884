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
    GoneError,
    Machine,
    Order,
    RefusedError,
    UnreachableError,
)
from tests.remote.daytona_use import SERVER, TAGS, an_order, new_machine, opened, python_command, ran
from tests.remote.serving import Server


def test_a_machine_is_made_once_found_listed_and_killed(daytona_server: Server) -> None:
    async def use() -> None:
        async with opened(daytona_server) as provider:
            assert await provider.find("k-1") is None
            made = await provider.create(an_order())
            again = await provider.create(an_order())
            found = await provider.find("k-1")
            assert made == again == found
            assert daytona_server.state().created == 1
            assert [(m["key"], m["network"]) for m in daytona_server.state().machines] == [("k-1", False)]
            listed = [each async for each in provider.list()]
            assert [(each.id, each.key, dict(each.tags)) for each in listed] == [(made.id, "k-1", TAGS)]
            assert listed[0].since.tzinfo
            await provider.kill(made.id)
            await provider.kill(made.id)
            assert await provider.find("k-1") is None
            assert [each async for each in provider.list()] == []
            assert daytona_server.state().machines == []
            with pytest.raises(GoneError):
                await provider.execute(made, python_command("pass"), print)
            await asyncio.sleep(0.3)  # for so long the API still tells of it
            with pytest.raises(GoneError):
                await provider.extend(made, 60)

    asyncio.run(use())


def test_a_list_of_many_pages_tells_only_of_ours() -> None:
    orders = [an_order(f"k-{n}") for n in range(5)]
    other = Order("other", {"owner": "somebody", "key": "other"}, 60, False, 1 << 30)

    async def use() -> None:
        with Server.start(SERVER, page=2) as server:
            async with opened(server, DAYTONA_TARGET="slow") as provider:  # no machine of these ever runs
                tasks = [asyncio.create_task(provider.create(order)) for order in [*orders, other]]
                while (await asyncio.to_thread(server.state)).requests.get("create", 0) < 6:
                    await asyncio.sleep(0.05)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert sorted([each.key async for each in provider.list()]) == sorted(order.key for order in orders)
                assert server.state().requests["list"] == 3

    asyncio.run(use())


def test_a_command_has_its_input_variables_output_and_code(daytona_server: Server) -> None:
    code = (
        "import sys, os; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1]); sys.stdout.flush();"
        " sys.stderr.buffer.write(b'x' * 70000 + b'\\xff.');"
        " sys.stdout.write('|'.join([*sys.argv[1:], os.environ['SECRET']])); sys.exit(7)"
    )
    words, data = ("a b", "'\"$(id) `id` \\ \n*;", "-"), bytes(range(256)) * 3000

    async def use() -> None:
        async with new_machine(daytona_server) as (provider, machine):
            command = python_command(code, *words, input=data, env={"SECRET": "s3cr$t 'x'"})
            ended, heard = await ran(provider, machine, command)
            assert ended.code == 7
            assert ended.errors == ("x" * ERRORS + "\ufffd.")[-ERRORS:]
            assert heard == data[::-1] + "|".join([*words, "s3cr$t 'x'"]).encode()
            requests = daytona_server.state().requests
            assert {op: n for op, n in requests.items() if op != "get"} == {"create": 1, "upload": 1, "start": 1}
            for argv, expected in (
                (("no-such-program",), 127),
                (("sh", "-c", "kill -9 $$"), 137),
                (("sh", "-c", "exit 0"), 0),
            ):
                ended, heard = await ran(provider, machine, Command(argv))
                assert (ended.code, heard) == (expected, b"")
            ended, heard = await ran(provider, machine, Command(("ls", "-A", "/tmp")))
            assert len(heard.split()) == 1  # the folder of this command; none of those before

    asyncio.run(use())


def test_much_output_comes_whole_and_bounded_in_memory(daytona_server: Server) -> None:
    async def use() -> None:
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
            assert (await ran(provider, machine, Command(("ls", "-A", "/tmp"))))[1].count(b"\n") == 1

    asyncio.run(use())


def test_output_is_heard_while_the_command_runs(daytona_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "_LOOKS", (0.2, 0.2))
    code = "import os, time\nfor n in range(4):\n  os.write(1, b'%d\\n' % n); time.sleep(0.4)"

    async def use() -> None:
        async with new_machine(daytona_server) as (provider, machine):
            pieces: list[bytes] = []
            ended = await provider.execute(machine, python_command(code), pieces.append)
            assert (ended.code, b"".join(pieces)) == (0, b"0\n1\n2\n3\n")
            assert len(pieces) > 2

            def stop(piece: bytes) -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await provider.execute(machine, python_command(code), stop)

    asyncio.run(use())


def test_a_command_over_its_time_is_ended_and_what_it_said_is_heard(daytona_server: Server) -> None:
    code = "import os, time; os.write(1, b'said'); os.write(2, b'why'); os.system('sleep 97 & sleep 98')"

    async def use() -> None:
        async with new_machine(daytona_server) as (provider, machine):
            ended, heard = await ran(provider, machine, python_command(code, timeout=1))
            assert (ended, heard) == (CommandResult(None, "why"), b"said")
            await daytona_server.until_processes(0)
            assert (await ran(provider, machine, Command(("ls", "-A", "/tmp"))))[1].count(b"\n") == 1

    asyncio.run(use())


def test_the_network_is_off_or_is_cut(daytona_server: Server) -> None:
    links = python_command(
        "import socket; print(len(socket.if_nameindex()), open('/proc/net/route').read().count(chr(10)))"
    )

    async def use() -> None:
        async with new_machine(daytona_server, network=True) as (provider, machine):
            assert daytona_server.state().machines[0]["network"] is True
            await provider.cut_network(machine)
            assert daytona_server.state().machines[0]["network"] is False
            assert (await ran(provider, machine, links))[1] == b"1 1\n"

    asyncio.run(use())


def test_its_life_ends_unless_it_is_extended() -> None:
    async def use() -> None:
        with Server.start(SERVER, minute=2) as server:
            async with opened(server) as provider:
                machine = await provider.create(an_order(lifetime=60))
                for _ in range(5):
                    await asyncio.sleep(0.5)
                    await provider.extend(machine, 60)
                assert len(server.state().machines) == 1
                while server.state().machines:  # pytest's own limit is the end of this
                    await asyncio.sleep(0.1)
                assert await provider.find("k-1") is None

    asyncio.run(use())


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


def test_a_command_is_root_s_where_sudo_lets_it(daytona_server: Server) -> None:
    variables = {"PATH": "/home/user/bin:/usr/local/bin:/usr/bin:/bin", "A": "1", "B": "2"}
    put = Command(("sh", "-c", "mkdir ~/bin && cat >~/bin/sudo && chmod +x ~/bin/sudo"), input=_SUDO.encode())
    who = Command(("sh", "-c", 'echo "$AS$A$B$1"; cat ~/asked; rm -f ~/asked', "sh", " x y"), env=variables)

    async def use() -> None:
        async with new_machine(daytona_server) as (provider, machine):
            assert (await ran(provider, machine, put))[0] == CommandResult(0)
            asked = "-n\n--preserve-env=PATH,A,B\n" * 2
            assert await ran(provider, machine, who) == (CommandResult(0), f"root12 x y\n{asked}".encode())
            await ran(provider, machine, Command(("sh", "-c", "touch ~/refuses")))
            assert (await ran(provider, machine, who))[1] == b"12 x y\n"

    asyncio.run(use())
