"""What becomes of everything that goes wrong between VercelProvider and the local API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandboxes.remote.provider import (
    BusyError,
    CommandResult,
    FullError,
    GoneError,
    ProviderError,
    RefusedError,
    UnreachableError,
)
from tests.remote.serving import Server
from tests.remote.use import machine, opened, order, told

INPUT = [("status:503", 2), ("status:504", 1), ("cut-before", 1), ("cut-after", 2), ("cut-after", 3), ("rate", 3)]
"""What happens to which of the three pieces."""

STARTS = [
    ("status:503", UnreachableError),
    ("status:500", UnreachableError),
    ("cut-before", UnreachableError),
    ("garbage", UnreachableError),
    ("cut-frame:1", UnreachableError),
    ("cut-frame:2", UnreachableError),
    ("cut-frame:3", UnreachableError),
    ("rate", BusyError),
    ("die-frame:2", UnreachableError),
]

FAILURES: list[tuple[str, dict[str, Any], type[ProviderError]]] = [
    ("status:500", {}, UnreachableError),
    ("status:502", {}, UnreachableError),
    ("status:503", {"headers": {"retry-after": "7"}}, UnreachableError),
    ("status:400", {}, RefusedError),
    ("status:401", {}, RefusedError),
    ("status:402", {}, RefusedError),
    ("status:404", {}, GoneError),
    ("status:409", {"code": "sandbox_stopped"}, GoneError),
    ("status:410", {"code": "sandbox_stopped"}, GoneError),
    ("status:410", {"code": "sandbox_stream_closed"}, UnreachableError),
    ("status:422", {"code": "sandbox_stopping"}, GoneError),
    ("rate", {"after": 3}, BusyError),
    ("full", {}, FullError),
    ("garbage", {}, UnreachableError),
    ("cut-before", {}, UnreachableError),
    ("cut-after", {}, UnreachableError),
]


async def test_input_arrives_once_whatever_happens_on_the_way(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider:
        data = bytes(range(32, 127)) * 12_000
        async with machine(provider) as made:
            for number, (do, piece) in enumerate(INPUT, start=1):
                vercel_server.fault("stdin", do, nth=piece, after=0.1)
                assert (await told(provider, made, "cat", input=data)) == (CommandResult(0, ""), data), do
                assert vercel_server.state().requests["start"] == number
            # Where the last answer was lost, the command may have ended before it is asked for again.
            assert 4 * len(INPUT) - vercel_server.state().requests["stdin"] in (0, 1)


async def test_input_that_cannot_be_written(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider, machine(provider) as made:
        vercel_server.fault("stdin", "status:400")
        with pytest.raises(UnreachableError, match="input could not be written") as lost:
            await told(provider, made, "sh", "-c", "cat; sleep 60", input=b"x")
        assert lost.value.sent


async def test_a_command_is_never_started_twice(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider, machine(provider) as made:
        for number, (do, expected) in enumerate(STARTS, start=1):
            vercel_server.fault("start", do)
            script = "echo said; " + ("sleep 60" if do.startswith("die") else "read a")
            with pytest.raises(ProviderError) as failed:
                await told(provider, made, "sh", "-c", script, input=b"x\n")
            assert type(failed.value) is expected, do
            assert getattr(failed.value, "sent", True), do
            assert vercel_server.state().requests["start"] == number, do


async def test_failures(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider, machine(provider) as made:
        for do, more, expected in FAILURES:
            vercel_server.fault("network", do, **more)
            with pytest.raises(ProviderError) as failed:
                await provider.cut_network(made)
            assert type(failed.value) is expected, (do, more)
            assert getattr(failed.value, "after", None) == {"status:503": 7, "rate": 3}.get(do), do
            assert vercel_server.environment["VERCEL_TOKEN"] not in str(failed.value)


async def test_a_machine_that_cannot_be_deleted_yet_is_not_said_to_be_gone(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider:
        made = await provider.create(order("evalcell-late"))
        vercel_server.fault("kill", "status:422", code="sandbox_stopping")
        with pytest.raises(UnreachableError):
            await provider.kill(made.id)
        assert vercel_server.state().machines == []
        await provider.kill(made.id)


async def test_a_command_whose_machine_is_killed(vercel_server: Server) -> None:
    async with opened(vercel_server) as provider:
        made = await provider.create(order("evalcell-killed"))
        running = asyncio.create_task(told(provider, made, "sleep", "60"))
        while not vercel_server.state().processes:
            await asyncio.sleep(0.05)
        await provider.kill(made.id)
        with pytest.raises(GoneError):
            await running


async def test_who_may_not(vercel_server: Server) -> None:
    async with opened(vercel_server, VERCEL_TOKEN="another-token") as provider:
        with pytest.raises(RefusedError, match="VERCEL_TOKEN") as failed:
            await provider.create(order("evalcell-no"))
        assert "another-token" not in str(failed.value)
    async with opened(vercel_server, VERCEL_PROJECT_ID="prj_other") as provider:
        with pytest.raises(RefusedError, match="VERCEL_PROJECT_ID"):
            await provider.create(order("evalcell-no"))
        with pytest.raises(RefusedError, match="VERCEL_PROJECT_ID"):
            [found async for found in provider.list()]
    async with opened(vercel_server, EVALCELL_VERCEL_URL="http://127.0.0.1:1") as provider:
        with pytest.raises(UnreachableError) as unreached:
            await provider.find("evalcell-no")
        assert not unreached.value.sent
