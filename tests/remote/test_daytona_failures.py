"""What each failure of Daytona becomes, and that nothing is done twice: against the local server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandboxes.remote.daytona import shell
from sandboxes.remote.provider import (
    BusyError,
    Command,
    CommandResult,
    FullError,
    GoneError,
    Order,
    ProviderError,
    RefusedError,
    UnreachableError,
)
from tests.remote.serving import Server
from tests.remote.use import new_machine, opened, order, python_command, told

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
async def test_every_failure_has_its_error(daytona_server: Server, op: str) -> None:
    async with new_machine(daytona_server) as (provider, machine):

        async def listed() -> list[Any]:
            return [each async for each in provider.list()]

        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: provider.create(order("k-2")),
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


async def test_a_life_or_an_end_is_not_believed_without_the_service_s_word(daytona_server: Server) -> None:
    async with new_machine(daytona_server) as (provider, machine):
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


async def test_a_command_whose_input_did_not_arrive_was_certainly_not_started(daytona_server: Server) -> None:
    async with new_machine(daytona_server) as (provider, machine):
        for do in ("status:503", "cut-before", "cut-after"):
            daytona_server.fault("upload", do)
            with pytest.raises(UnreachableError) as raised:
                await told(provider, machine, Command(("true",)))
            assert not raised.value.sent
        assert "start" not in daytona_server.state().requests


@pytest.mark.parametrize("do", ["cut-after", "cut-frame:1", "cut-frame:2"])
async def test_the_end_of_a_command_is_found_when_the_answer_is_lost(daytona_server: Server, do: str) -> None:
    code = "import sys, time; print(sys.stdin.read(), flush=True); time.sleep(0.5); sys.exit('b')"

    async with new_machine(daytona_server) as (provider, machine):
        command = python_command(code, input=b"a")
        while True:  # the cut may come before its first step
            daytona_server.fault("start", do)
            try:
                found = await told(provider, machine, command)
                break
            except UnreachableError as e:
                if e.sent:
                    raise
        assert found == (CommandResult(1, "b\n"), b"a\n")


async def test_a_command_that_is_killed_with_all_that_runs_it_is_unclear_at_once(daytona_server: Server) -> None:
    async with new_machine(daytona_server) as (provider, machine):
        with pytest.raises(UnreachableError, match="broke off") as raised:
            await told(provider, machine, Command(("sh", "-c", "kill -9 -1"), timeout=99))
        assert raised.value.sent
        assert (await told(provider, machine, Command(("true",))))[0] == CommandResult(0)


async def test_a_command_is_never_started_twice(daytona_server: Server) -> None:
    add = Command(("sh", "-c", "echo started >>~/log"))

    async with new_machine(daytona_server) as (provider, machine):
        sent = []
        for do in ("slow:0.5", "status:502", "cut-before", "cut-after", "cut-frame:1", "garbage", "late:0.5"):
            daytona_server.fault("start", do)
            try:
                await told(provider, machine, add)
                sent.append(True)
            except UnreachableError as e:
                sent.append(e.sent)
        _, log = await told(provider, machine, Command(("sh", "-c", "cat ~/log")))
        assert log.count(b"started") == sum(sent)


async def test_a_machine_that_dies_with_a_command_is_lost(daytona_server: Server) -> None:
    async with new_machine(daytona_server) as (provider, machine):
        daytona_server.fault("start", "die-frame:1")
        with pytest.raises(UnreachableError):
            await told(provider, machine, Command(("sleep", "9")))
        with pytest.raises(GoneError):
            await told(provider, machine, Command(("true",)))


async def test_a_creation_of_unclear_end_is_found_by_its_key(daytona_server: Server) -> None:
    async with opened(daytona_server) as provider:
        for number, (op, do) in enumerate([("create", "cut-after"), ("get", "status:503"), ("get", "rate")]):
            daytona_server.fault(op, do)
            with pytest.raises(UnreachableError) as raised:
                await provider.create(order(f"k-{number}"))
            assert raised.value.sent
            found = await provider.find(f"k-{number}")
            assert found
            await provider.kill(found.id)
        with pytest.raises(UnreachableError) as raised:
            async with opened(daytona_server, DAYTONA_API_URL="http://127.0.0.1:9/api") as nowhere:
                await nowhere.create(order())
        assert not raised.value.sent


async def test_a_machine_that_cannot_start_is_not_left(daytona_server: Server) -> None:
    async with opened(daytona_server, DAYTONA_TARGET="broken") as provider:
        with pytest.raises(UnreachableError, match="snapshot cannot be pulled"):
            await provider.create(order())
        assert daytona_server.state().requests["kill"] == 1
        assert [each async for each in provider.list()] == []


async def test_another_s_machine_of_the_name_is_not_taken(daytona_server: Server) -> None:
    async with opened(daytona_server) as provider:
        theirs = await provider.create(Order("theirs", {"owner": "somebody"}, 300, False, 1 << 30))
        with pytest.raises(ProviderError):
            await provider.create(order("theirs"))
        assert await provider.find("theirs") is None
        await provider.kill(theirs.id)


@pytest.mark.parametrize(
    "text", ["", "None", "mark 0 + +", "\nmark 0 +", "\nmark x + +", "\nmark 0 +??? +", "\nmark 0 + + +"]
)
def test_a_shell_that_tells_no_good_end_is_unclear(text: str) -> None:
    assert shell.parse_report("zsh: hello\n\nmark 3 +b3V0 +ZXJy\n", "mark") == shell.ShellReport(3, b"out", b"err")
    with pytest.raises(UnreachableError, match="no valid report"):
        shell.parse_report(text, "mark")
