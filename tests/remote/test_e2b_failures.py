"""What our E2B provider makes of every failure of the service, and of the way to a machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from sandboxes.remote.provider import (
    BusyError,
    Command,
    FullError,
    GoneError,
    ProviderError,
    RefusedError,
    UnreachableError,
)
from tests.remote.e2b_server import KEY
from tests.remote.serving import Server
from tests.remote.use import listed, opened, order, told


@pytest.mark.parametrize(
    ("do", "more", "kind"),
    [
        ("status:400", {"text": "Timeout cannot be greater than 1 hours"}, RefusedError),
        ("status:401", {}, RefusedError),
        ("status:403", {}, RefusedError),
        ("status:422", {"code": "idempotency_request_mismatch"}, RefusedError),
        ("status:409", {"code": "idempotency_in_progress"}, UnreachableError),
        ("status:500", {"code": "idempotency_outcome_unknown"}, UnreachableError),
        ("status:500", {"code": "sandbox_create_failed"}, UnreachableError),
        ("status:500", {"code": "sandbox_create_refused"}, RefusedError),
        ("status:503", {"code": "sandbox_capacity_unavailable", "headers": {"Retry-After": "7"}}, UnreachableError),
        ("status:504", {"code": "sandbox_placement_timeout"}, UnreachableError),
        ("status:302", {"headers": {"Location": "/elsewhere"}}, ProviderError),
        ("rate", {"after": 3}, BusyError),
        ("full", {}, FullError),
        ("garbage", {}, UnreachableError),
        ("cut-before", {}, UnreachableError),
    ],
)
async def test_failures_of_the_control_plane(
    e2b_server: Server, do: str, more: dict[str, Any], kind: type[ProviderError]
) -> None:
    async with opened(e2b_server) as provider:
        e2b_server.fault("create", do, **more)
        with pytest.raises(kind) as failed:
            await provider.create(order())
        assert KEY not in str(failed.value)
        assert getattr(failed.value, "after", None) == {"rate": 3, "status:503": 7}.get(do)
        assert getattr(failed.value, "sent", True)
        assert ("E2B_API_KEY" in str(failed.value)) == (do in ("status:401", "status:403"))
    assert e2b_server.state().created == 0


@pytest.mark.parametrize("op", ["find", "list", "connect", "extend", "network", "kill"])
async def test_failures_of_every_request(e2b_server: Server, op: str) -> None:
    async with opened(e2b_server) as provider:
        machine = await provider.create(order())
        asked: dict[str, Callable[[], Awaitable[Any]]] = {
            "find": lambda: provider.find(machine.key),
            "list": lambda: listed(provider),
            "connect": lambda: provider.find(machine.key),
            "extend": lambda: provider.extend(machine, 60),
            "network": lambda: provider.cut_network(machine),
            "kill": lambda: provider.kill(machine.id),
        }
        for do, kind in (
            ("status:503", UnreachableError),
            ("rate", BusyError),
            ("cut-before", UnreachableError),
            ("status:401", RefusedError),
            ("status:302", ProviderError),
            ("garbage", UnreachableError),
        ):
            e2b_server.fault(op, do)
            with pytest.raises(kind):
                await asked[op]()
        assert len(e2b_server.state().machines) == 1
        await asked[op]()
        if op != "kill":
            await provider.kill(machine.id)


async def test_a_machine_that_is_being_killed_is_not_found(e2b_server: Server) -> None:
    async with opened(e2b_server) as provider:
        machine = await provider.create(order())
        e2b_server.fault("connect", "status:409")
        assert await provider.find(machine.key) is None
        e2b_server.fault("kill", "status:409")
        with pytest.raises(UnreachableError):
            await provider.kill(machine.id)
        await provider.kill(machine.id)


async def test_a_wrong_key_or_template_names_the_next_step(e2b_server: Server) -> None:
    async with opened(e2b_server, E2B_API_KEY="e2b_" + "f" * 40) as provider:
        with pytest.raises(RefusedError, match="set E2B_API_KEY"):
            await provider.create(order())
        with pytest.raises(RefusedError, match="set E2B_API_KEY"):
            await listed(provider)
    async with opened(e2b_server, EVALCELL_E2B_TEMPLATE="mine") as provider:
        with pytest.raises(RefusedError, match=r"check EVALCELL_E2B_TEMPLATE \(mine\)"):
            await provider.create(order())


@pytest.mark.parametrize(
    ("op", "do", "kind", "sent"),
    [
        ("upload", "status:503", UnreachableError, False),
        ("upload", "cut-before", UnreachableError, False),
        ("upload", "cut-after", UnreachableError, False),
        ("upload", "rate", BusyError, None),
        ("upload", "status:507", RefusedError, None),
        ("start", "rate", BusyError, None),
        ("start", "status:401", RefusedError, None),
        ("start", "status:415", RefusedError, None),
        ("start", "status:404", RefusedError, None),
        ("start", "status:502", UnreachableError, True),
        ("start", "cut-before", UnreachableError, True),
        ("start", "garbage", UnreachableError, True),
        ("start", "die-frame:2", UnreachableError, True),
    ],
)
async def test_failures_on_the_way_to_a_machine(
    e2b_server: Server, op: str, do: str, kind: type[ProviderError], sent: bool | None
) -> None:
    async with opened(e2b_server) as provider:
        machine = await provider.create(order())
        e2b_server.fault(op, do)
        with pytest.raises(kind) as failed:
            await told(provider, machine, "sh", "-c", "echo ran; cat", input=b"x")
        assert getattr(failed.value, "sent", None) == sent
        assert e2b_server.state().requests.get("start", 0) == (op == "start")
        with suppress(GoneError):  # it has died
            await provider.kill(machine.id)


async def test_a_stream_that_is_cut_is_never_taken_for_an_end(e2b_server: Server) -> None:
    # start, two pieces of stdout, the end, the end of the stream
    script = "echo one; sleep 0.2; echo two"

    async with opened(e2b_server) as provider:
        machine = await provider.create(order())
        for number in range(1, 5):
            heard: list[bytes] = []
            e2b_server.fault("start", f"cut-frame:{number}")
            with pytest.raises(UnreachableError) as failed:
                await provider.execute(machine, Command(("sh", "-c", script), b"x"), heard.append)
            assert failed.value.sent
            assert b"".join(heard) == b"one\ntwo\n"[: 4 * max(0, number - 2)]
        e2b_server.fault("start", "cut-frame:5")
        assert (await told(provider, machine, "sh", "-c", script))[0].code == 0
        await provider.kill(machine.id)
    assert e2b_server.state().requests["start"] == 5
