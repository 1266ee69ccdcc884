"""Our E2B provider against the local E2B: every method, every failure."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from sandboxes.e2b import E2BProvider
from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.provider import (
    OWNER,
    BusyError,
    Command,
    Ended,
    Found,
    FullError,
    GoneError,
    Machine,
    Order,
    ProviderError,
    RefusedError,
    UnreachableError,
)
from tests.remote.e2b_server import KEY
from tests.remote.room import bubblewrap
from tests.remote.serving import Server

Work = Callable[[E2BProvider], Awaitable[None]]


def using(values: Mapping[str, str], work: Work) -> None:
    async def body() -> None:
        provider = E2BProvider(values)
        await provider.open()
        try:
            async with asyncio.timeout(60):
                await work(provider)
        finally:
            await provider.close()
            await provider.close()

    asyncio.run(body())


def order(key: str = "", *, network: bool = False, lifetime: int = 60) -> Order:
    key = key or f"key-{secrets.token_hex(4)}"
    return Order(key, {"owner": OWNER, "key": key, "run": "r1"}, lifetime, network, 1 << 28)


async def ran(provider: E2BProvider, machine: Machine, *argv: str, **more: Any) -> tuple[Ended, bytes]:
    heard: list[bytes] = []
    ended = await provider.execute(machine, Command(argv, **more), heard.append)
    return ended, b"".join(heard)


async def listed(provider: E2BProvider) -> list[Found]:
    return [found async for found in provider.list()]


@pytest.fixture(scope="module")
def old_server() -> Iterator[Server]:
    """A deployment that knows version 1 alone, gives tokens for its proxy, and has room for two machines."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.e2b_server", v2=False, private=True, cap=2) as server:
        yield server


def test_a_machine_lives_and_is_found_and_ended(e2b_server: Server) -> None:
    async def work(provider: E2BProvider) -> None:
        wanted = order()
        machine = await provider.create(wanted)
        assert (machine.id, machine.key) == ((await provider.create(wanted)).id, wanted.key)
        again = await provider.find(wanted.key)
        assert again is not None
        assert again.id == machine.id
        assert (await ran(provider, again, "echo", "there"))[1] == b"there\n"
        assert await provider.find("another") is None
        (found,) = await listed(provider)
        assert (found.id, found.key, found.tags) == (machine.id, wanted.key, wanted.tags)
        assert abs((datetime.now(UTC) - found.since).total_seconds()) < 30
        await provider.kill(machine.id)
        await provider.kill(machine.id)
        assert await provider.find(wanted.key) is None
        for work in (ran(provider, machine, "true"), ran(provider, machine, "true", input=b"x")):
            with pytest.raises(GoneError):
                await work
        with pytest.raises(GoneError):
            await provider.extend(machine, 60)

    using(e2b_server.environment, work)
    assert e2b_server.state().created == 1


def test_commands_run_as_root_with_input_and_variables(e2b_server: Server) -> None:
    script = "import os, sys; data = sys.stdin.buffer.read(); print(len(data), data[:2], os.getenv('A')); "
    script += "print(os.getuid() in (0, 1000), [n for n in os.listdir('/root') if 'evalcell' in n])"

    async def work(provider: E2BProvider) -> None:
        machine = await provider.create(order())
        ended, said = await ran(provider, machine, "python3", "-c", script, input=b"\0\xff" * (5 << 20), env={"A": "ä"})
        assert (ended.code, said.decode()) == (0, "10485760 b'\\x00\\xff' ä\nTrue []\n")
        assert (await ran(provider, machine, "cat"))[1] == b""
        ended, said = await ran(provider, machine, "sh", "-c", "printf '\\303'; echo why >&2; exit 3", input=b"x")
        assert (ended, said) == (Ended(3, "why\n"), b"\303")
        ended, _ = await ran(provider, machine, "sh", "-c", "yes err | head -c 200000 >&2; kill -TERM $$")
        assert (ended.code, len(ended.errors)) == (128 + 15, 64 * 1024)
        assert (await ran(provider, machine, "no-such-program", input=b"x"))[0].code == 127
        ended, said = await ran(provider, machine, "sh", "-c", "head -c 3000000 /dev/zero")
        assert (ended.code, len(said)) == (0, 3_000_000)
        began = time.monotonic()
        ended, said = await ran(provider, machine, "sh", "-c", "echo half; exec sleep 41", input=b"x", timeout=0.7)
        assert (ended.code, said) == (None, b"half\n")
        assert time.monotonic() - began < 10
        await provider.kill(machine.id)

    using(e2b_server.environment, work)


def test_an_error_of_who_hears_passes_through(e2b_server: Server) -> None:
    class Enough(Exception):
        pass

    def hear(piece: bytes) -> None:
        raise Enough

    async def work(provider: E2BProvider) -> None:
        machine = await provider.create(order())
        with pytest.raises(Enough):
            await provider.execute(machine, Command(("yes",)), hear)
        await provider.kill(machine.id)

    using(e2b_server.environment, work)


def test_a_life_is_prolonged_and_the_network_cut(e2b_server: Server) -> None:
    async def work(provider: E2BProvider) -> None:
        short = await provider.create(order(lifetime=2, network=True))
        assert e2b_server.state().machines[0]["network"]
        await provider.extend(short, 60)
        await provider.cut_network(short)
        assert not e2b_server.state().machines[0]["network"]
        await asyncio.sleep(2.2)
        assert (await ran(provider, short, "true"))[0].code == 0
        await provider.extend(short, 1)
        await asyncio.sleep(1.3)
        with pytest.raises(GoneError):
            await ran(provider, short, "true")
        closed = await provider.create(order())
        assert not e2b_server.state().machines[0]["network"]
        await provider.kill(closed.id)

    using(e2b_server.environment, work)


def test_machines_of_others_are_not_listed() -> None:
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    other = {"owner": "somebody", "key": "k"}

    async def work(provider: E2BProvider) -> None:
        keys = [f"page-{n}" for n in range(5)]
        machines = await asyncio.gather(*(provider.create(order(key)) for key in keys))
        await provider.create(Order("k", other, 60, False, 1))
        assert sorted(found.key for found in await listed(provider)) == keys
        assert server.state().requests["list"] == 3
        await asyncio.gather(*(provider.kill(machine.id) for machine in machines))

    with Server.start("tests.remote.e2b_server", page=2) as server:
        using(server.environment, work)


def test_an_older_deployment_is_spoken_to_in_version_1(old_server: Server) -> None:
    async def work(provider: E2BProvider) -> None:
        wanted = order()
        first, again = await provider.create(wanted), await provider.create(wanted)
        assert first.id == again.id
        assert (await ran(provider, again, "cat", input=b"text"))[1] == b"text"
        second = await provider.create(order())
        assert [found.key for found in await listed(provider)] == [second.key, first.key]
        with pytest.raises(FullError, match="maximum number"):
            await provider.create(order())
        await provider.kill(first.id)
        await provider.kill(second.id)
        state = old_server.state()
        assert state.created == 2
        assert state.log.count(["create", ""]) == 4  # once in vain for version 2

    old_server.clear()
    using(old_server.environment, work)
    assert not old_server.state().machines


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
def test_failures_of_the_control_plane(
    e2b_server: Server, do: str, more: dict[str, Any], kind: type[ProviderError]
) -> None:
    async def work(provider: E2BProvider) -> None:
        e2b_server.fault("create", do, **more)
        with pytest.raises(kind) as failed:
            await provider.create(order())
        assert KEY not in str(failed.value)
        assert getattr(failed.value, "after", None) == {"rate": 3, "status:503": 7}.get(do)
        assert getattr(failed.value, "sent", True)
        assert ("E2B_API_KEY" in str(failed.value)) == (do in ("status:401", "status:403"))

    using(e2b_server.environment, work)
    assert e2b_server.state().created == 0


@pytest.mark.parametrize("op", ["find", "list", "connect", "extend", "network", "kill"])
def test_failures_of_every_request(e2b_server: Server, op: str) -> None:
    async def work(provider: E2BProvider) -> None:
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
        await provider.kill(machine.id)

    using(e2b_server.environment, work)


def test_a_wrong_key_or_template_names_the_next_step(e2b_server: Server) -> None:
    async def wrong_key(provider: E2BProvider) -> None:
        with pytest.raises(RefusedError, match="set E2B_API_KEY"):
            await provider.create(order())
        with pytest.raises(RefusedError, match="set E2B_API_KEY"):
            await listed(provider)

    async def wrong_template(provider: E2BProvider) -> None:
        with pytest.raises(RefusedError, match=r"check EVALCELL_E2B_TEMPLATE \(mine\)"):
            await provider.create(order())

    using(e2b_server.environment | {"E2B_API_KEY": "e2b_" + "f" * 40}, wrong_key)
    using(e2b_server.environment | {"EVALCELL_E2B_TEMPLATE": "mine"}, wrong_template)


def test_an_order_whose_answer_is_lost_is_found_again(e2b_server: Server) -> None:
    async def work(provider: E2BProvider) -> None:
        wanted = order()
        e2b_server.fault("create", "cut-after")
        with pytest.raises(UnreachableError) as failed:
            await provider.create(wanted)
        assert failed.value.sent
        found = await provider.find(wanted.key)
        assert found is not None
        assert (await provider.create(wanted)).id == found.id
        await provider.kill(found.id)

    using(e2b_server.environment, work)
    assert e2b_server.state().created == 1


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
def test_failures_on_the_way_to_a_machine(
    e2b_server: Server, op: str, do: str, kind: type[ProviderError], sent: bool | None
) -> None:
    async def work(provider: E2BProvider) -> None:
        machine = await provider.create(order())
        e2b_server.fault(op, do)
        with pytest.raises(kind) as failed:
            await ran(provider, machine, "sh", "-c", "echo ran; cat", input=b"x")
        assert getattr(failed.value, "sent", None) == sent
        assert e2b_server.state().requests.get("start", 0) == (op == "start")
        await provider.kill(machine.id)

    using(e2b_server.environment, work)


def test_a_stream_that_is_cut_is_never_taken_for_an_end(e2b_server: Server) -> None:
    # start, two pieces of stdout, the end, the end of the stream
    script = "echo one; sleep 0.2; echo two"

    async def work(provider: E2BProvider) -> None:
        machine = await provider.create(order())
        for number in range(1, 5):
            heard: list[bytes] = []
            e2b_server.fault("start", f"cut-frame:{number}")
            with pytest.raises(UnreachableError) as failed:
                await provider.execute(machine, Command(("sh", "-c", script), b"x"), heard.append)
            assert failed.value.sent
            assert b"".join(heard) == b"one\ntwo\n"[: 4 * max(0, number - 2)]
        e2b_server.fault("start", "cut-frame:5")
        assert (await ran(provider, machine, "sh", "-c", script))[0].code == 0
        await provider.kill(machine.id)

    using(e2b_server.environment, work)
    assert e2b_server.state().requests["start"] == 5


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "E2B_API_KEY is not set; set E2B_API_KEY"),
        ({"E2B_API_KEY": "e2b_\n1"}, "E2B_API_KEY is no usable key"),
        ({"E2B_API_KEY": "e2b_ä"}, "E2B_API_KEY is no usable key"),
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
    assert provider.address == "https://api.e2b.example.org"
    assert KEY not in repr(vars(provider))
