"""Our side of Daytona against the local server: what every method does, and what every failure becomes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.daytona import shell
from sandboxes.remote.daytona.provider import DaytonaProvider, _since
from sandboxes.remote.provider import (
    ERRORS,
    BusyError,
    Command,
    CommandResult,
    FullError,
    GoneError,
    Machine,
    Order,
    ProviderError,
    RefusedError,
    UnreachableError,
)
from tests.remote.serving import Server

TAGS = {"owner": "evalcell", "key": "k-1", "run": "r", "host": "h"}
SERVER = "tests.remote.daytona_server"


@asynccontextmanager
async def _provider(server: Server, **other: str) -> AsyncIterator[DaytonaProvider]:
    provider = DaytonaProvider(server.environment | other)
    await provider.open()
    try:
        yield provider
    finally:
        await provider.close()
        await provider.close()


@asynccontextmanager
async def _machine(server: Server, network: bool = False) -> AsyncIterator[tuple[DaytonaProvider, Machine]]:
    async with _provider(server) as provider:
        machine = await provider.create(_order(f"k-{secrets.token_hex(4)}", network=network))
        try:
            yield provider, machine
        finally:
            await provider.kill(machine.id)


def _order(key: str = "k-1", *, network: bool = False, lifetime: int = 300) -> Order:
    return Order(key, TAGS | {"key": key}, lifetime, network, 1 << 30)


async def _ran(provider: DaytonaProvider, machine: Machine, command: Command) -> tuple[CommandResult, bytes]:
    heard = bytearray()
    ended = await provider.execute(machine, command, heard.extend)
    return ended, bytes(heard)


def _python(code: str, *words: str, **more: Any) -> Command:
    return Command(("python3", "-I", "-S", "-c", code, *words), **more)


def test_a_machine_is_made_once_found_listed_and_killed(daytona_server: Server) -> None:
    async def use() -> None:
        async with _provider(daytona_server) as provider:
            assert await provider.find("k-1") is None
            made = await provider.create(_order())
            again = await provider.create(_order())
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
                await provider.execute(made, _python("pass"), print)
            await asyncio.sleep(0.3)  # for so long the API still tells of it
            with pytest.raises(GoneError):
                await provider.extend(made, 60)

    asyncio.run(use())


def test_a_list_of_many_pages_tells_only_of_ours() -> None:
    orders = [_order(f"k-{n}") for n in range(5)]
    other = Order("other", {"owner": "somebody", "key": "other"}, 60, False, 1 << 30)

    async def use() -> None:
        with Server.start(SERVER, page=2) as server:
            async with _provider(server, DAYTONA_TARGET="slow") as provider:  # no machine of these ever runs
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
        async with _machine(daytona_server) as (provider, machine):
            command = _python(code, *words, input=data, env={"SECRET": "s3cr$t 'x'"})
            ended, heard = await _ran(provider, machine, command)
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
                ended, heard = await _ran(provider, machine, Command(argv))
                assert (ended.code, heard) == (expected, b"")
            ended, heard = await _ran(provider, machine, Command(("ls", "-A", "/tmp")))
            assert len(heard.split()) == 1  # the folder of this command; none of those before

    asyncio.run(use())


def test_much_output_comes_whole_and_bounded_in_memory(daytona_server: Server) -> None:
    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            pieces: list[bytes] = []
            code = "import os\nfor n in range(50): os.write(1, bytes([n]) * 65536)"
            daytona_server.fault("download", "rate")
            ended = await provider.execute(machine, _python(code), pieces.append)
            assert ended == CommandResult(0)
            assert b"".join(pieces) == b"".join(bytes([n]) * 65536 for n in range(50))
            assert max(map(len, pieces)) < 2 << 20
            assert daytona_server.state().requests["start"] == 1
            daytona_server.fault("download", "status:403")
            with pytest.raises(UnreachableError, match="the command's output cannot be read"):
                await provider.execute(machine, _python(code), pieces.append)
            assert (await _ran(provider, machine, Command(("ls", "-A", "/tmp"))))[1].count(b"\n") == 1

    asyncio.run(use())


def test_output_is_heard_while_the_command_runs(daytona_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "_LOOKS", (0.2, 0.2))
    code = "import os, time\nfor n in range(4):\n  os.write(1, b'%d\\n' % n); time.sleep(0.4)"

    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            pieces: list[bytes] = []
            ended = await provider.execute(machine, _python(code), pieces.append)
            assert (ended.code, b"".join(pieces)) == (0, b"0\n1\n2\n3\n")
            assert len(pieces) > 2

            def stop(piece: bytes) -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await provider.execute(machine, _python(code), stop)

    asyncio.run(use())


def test_a_command_over_its_time_is_ended_and_what_it_said_is_heard(daytona_server: Server) -> None:
    code = "import os, time; os.write(1, b'said'); os.write(2, b'why'); os.system('sleep 97 & sleep 98')"

    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            ended, heard = await _ran(provider, machine, _python(code, timeout=1))
            assert (ended, heard) == (CommandResult(None, "why"), b"said")
            await daytona_server.until_processes(0)
            assert (await _ran(provider, machine, Command(("ls", "-A", "/tmp"))))[1].count(b"\n") == 1

    asyncio.run(use())


def test_the_network_is_off_or_is_cut(daytona_server: Server) -> None:
    links = _python("import socket; print(len(socket.if_nameindex()), open('/proc/net/route').read().count(chr(10)))")

    async def use() -> None:
        async with _machine(daytona_server, network=True) as (provider, machine):
            assert daytona_server.state().machines[0]["network"] is True
            await provider.cut_network(machine)
            assert daytona_server.state().machines[0]["network"] is False
            assert (await _ran(provider, machine, links))[1] == b"1 1\n"

    asyncio.run(use())


def test_its_life_ends_unless_it_is_extended() -> None:
    async def use() -> None:
        with Server.start(SERVER, minute=2) as server:
            async with _provider(server) as provider:
                machine = await provider.create(_order(lifetime=60))
                for _ in range(5):
                    await asyncio.sleep(0.5)
                    await provider.extend(machine, 60)
                assert len(server.state().machines) == 1
                while server.state().machines:  # pytest's own limit is the end of this
                    await asyncio.sleep(0.1)
                assert await provider.find("k-1") is None

    asyncio.run(use())


FAILURES: list[tuple[str, dict[str, Any], type[ProviderError]]] = [
    ("rate", {"after": 7}, BusyError),
    ("full", {}, FullError),
    ("status:401", {"text": "Invalid credentials"}, RefusedError),
    ("status:403", {"text": "Forbidden resource"}, RefusedError),
    ("status:400", {"text": "name must be shorter"}, RefusedError),
    ("status:404", {"text": "Sandbox not found"}, GoneError),
    ("status:500", {}, UnreachableError),
    ("status:502", {"text": "runner is unreachable", "code": "RUNNER_UNREACHABLE"}, UnreachableError),
    ("status:503", {"headers": {"Retry-After": "3"}}, UnreachableError),
    ("garbage", {}, UnreachableError),
    ("cut-before", {}, UnreachableError),
    ("cut-after", {}, UnreachableError),
]


@pytest.mark.parametrize("op", ["create", "list", "network", "start"])
def test_every_failure_has_its_error(daytona_server: Server, op: str) -> None:
    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):

            async def listed() -> list[Any]:
                return [each async for each in provider.list()]

            asked: dict[str, Callable[[], Awaitable[object]]] = {
                "create": lambda: provider.create(_order("k-2")),
                "list": listed,
                "network": lambda: provider.cut_network(machine),
                "start": lambda: provider.execute(machine, Command(("true",)), print),
            }
            for do, more, expected in FAILURES:
                if op == "start" and do == "cut-after":
                    continue  # see below: its end is found
                if (op, do) == ("network", "status:404"):
                    expected = RefusedError  # the machine is there: what is not is the request
                daytona_server.fault(op, do, **more)
                with pytest.raises(expected) as raised:
                    await asked[op]()
                assert type(raised.value) is expected, do
                assert daytona_server.environment["DAYTONA_API_KEY"] not in str(raised.value)
                if isinstance(raised.value, BusyError | UnreachableError):
                    assert raised.value.after == {"rate": 7, "status:503": 3}.get(do), do
                if isinstance(raised.value, UnreachableError):
                    assert raised.value.sent == (op != "start"), do  # that it did not start is made certain
                if do == "status:401":
                    assert "DAYTONA_API_KEY" in str(raised.value)
            if made := await provider.find("k-2"):
                await provider.kill(made.id)

    asyncio.run(use())


def test_a_life_or_an_end_is_not_believed_without_the_service_s_word(daytona_server: Server) -> None:
    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            for nth in (1, 2):
                daytona_server.fault("extend", "garbage", nth=nth)
                with pytest.raises(UnreachableError):
                    await provider.extend(machine, 60)
            for do, text in (
                ("garbage", ""),
                ("status:409", "Sandbox is being changed"),
                ("status:400", "Sandbox state change in progress"),
            ):
                daytona_server.fault("kill", do, text=text)
                with pytest.raises(UnreachableError):
                    await provider.kill(machine.id)
                assert len(daytona_server.state().machines) == 1

    asyncio.run(use())


def test_a_command_whose_input_did_not_arrive_was_certainly_not_started(daytona_server: Server) -> None:
    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            for do in ("status:503", "cut-before", "cut-after"):
                daytona_server.fault("upload", do)
                with pytest.raises(UnreachableError) as raised:
                    await _ran(provider, machine, Command(("true",)))
                assert not raised.value.sent
            assert "start" not in daytona_server.state().requests

    asyncio.run(use())


@pytest.mark.parametrize("do", ["cut-after", "cut-frame:1", "cut-frame:2"])
def test_the_end_of_a_command_is_found_when_the_answer_is_lost(daytona_server: Server, do: str) -> None:
    code = "import sys, time; print(sys.stdin.read(), flush=True); time.sleep(0.5); sys.exit('b')"

    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            command = _python(code, input=b"a")
            while True:  # the cut may come before its first step
                daytona_server.fault("start", do)
                try:
                    found = await _ran(provider, machine, command)
                    break
                except UnreachableError as e:
                    if e.sent:
                        raise
            assert found == (CommandResult(1, "b\n"), b"a\n")

    asyncio.run(use())


def test_a_command_that_is_killed_with_all_that_runs_it_is_unclear_at_once(daytona_server: Server) -> None:
    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            with pytest.raises(UnreachableError, match="broke off") as raised:
                await _ran(provider, machine, Command(("sh", "-c", "kill -9 -1"), timeout=99))
            assert raised.value.sent
            assert (await _ran(provider, machine, Command(("true",))))[0] == CommandResult(0)

    asyncio.run(use())


def test_a_command_is_never_started_twice(daytona_server: Server) -> None:
    add = Command(("sh", "-c", "echo started >>~/log"))

    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            sent = []
            for do in ("slow:0.5", "status:502", "cut-before", "cut-after", "cut-frame:1", "garbage", "late:0.5"):
                daytona_server.fault("start", do)
                try:
                    await _ran(provider, machine, add)
                    sent.append(True)
                except UnreachableError as e:
                    sent.append(e.sent)
            _, log = await _ran(provider, machine, Command(("sh", "-c", "cat ~/log")))
            assert log.count(b"started") == sum(sent)

    asyncio.run(use())


def test_a_machine_that_dies_with_a_command_is_lost(daytona_server: Server) -> None:
    async def use() -> None:
        async with _machine(daytona_server) as (provider, machine):
            daytona_server.fault("start", "die-frame:1")
            with pytest.raises(UnreachableError):
                await _ran(provider, machine, Command(("sleep", "9")))
            with pytest.raises(GoneError):
                await _ran(provider, machine, Command(("true",)))

    asyncio.run(use())


def test_a_creation_of_unclear_end_is_found_by_its_key(daytona_server: Server) -> None:
    async def use() -> None:
        async with _provider(daytona_server) as provider:
            for number, (op, do) in enumerate([("create", "cut-after"), ("get", "status:503"), ("get", "rate")]):
                daytona_server.fault(op, do)
                with pytest.raises(UnreachableError) as raised:
                    await provider.create(_order(f"k-{number}"))
                assert raised.value.sent
                found = await provider.find(f"k-{number}")
                assert found
                await provider.kill(found.id)
            with pytest.raises(UnreachableError) as raised:
                async with _provider(daytona_server, DAYTONA_API_URL="http://127.0.0.1:9/api") as nowhere:
                    await nowhere.create(_order())
            assert not raised.value.sent

    asyncio.run(use())


def test_a_machine_that_cannot_start_is_not_left(daytona_server: Server) -> None:
    async def use() -> None:
        async with _provider(daytona_server, DAYTONA_TARGET="broken") as provider:
            with pytest.raises(UnreachableError, match="snapshot cannot be pulled"):
                await provider.create(_order())
            assert daytona_server.state().requests["kill"] == 1
            assert [each async for each in provider.list()] == []

    asyncio.run(use())


def test_another_s_machine_of_the_name_is_not_taken(daytona_server: Server) -> None:
    async def use() -> None:
        async with _provider(daytona_server) as provider:
            theirs = await provider.create(Order("theirs", {"owner": "somebody"}, 300, False, 1 << 30))
            with pytest.raises(ProviderError):
                await provider.create(_order("theirs"))
            assert await provider.find("theirs") is None
            await provider.kill(theirs.id)

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
        async with _machine(daytona_server) as (provider, machine):
            assert (await _ran(provider, machine, put))[0] == CommandResult(0)
            asked = "-n\n--preserve-env=PATH,A,B\n" * 2
            assert await _ran(provider, machine, who) == (CommandResult(0), f"root12 x y\n{asked}".encode())
            await _ran(provider, machine, Command(("sh", "-c", "touch ~/refuses")))
            assert (await _ran(provider, machine, who))[1] == b"12 x y\n"

    asyncio.run(use())


@pytest.mark.parametrize(
    "text", ["", "None", "mark 0 + +", "\nmark 0 +", "\nmark x + +", "\nmark 0 +??? +", "\nmark 0 + + +"]
)
def test_a_shell_that_tells_no_good_end_is_unclear(text: str) -> None:
    assert shell.parse_report("zsh: hello\n\nmark 3 +b3V0 +ZXJy\n", "mark") == shell.Report(3, b"out", b"err")
    with pytest.raises(UnreachableError, match="no valid report"):
        shell.parse_report(text, "mark")
