"""ModalProvider against the local Modal: what every method does."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.packages import RemotePython, resolve
from sandboxes.remote.modal.provider import ModalProvider
from sandboxes.remote.provider import (
    Command,
    CommandResult,
    GoneError,
    RefusedError,
)
from tests.packages.wheels import wheel
from tests.remote.modal_use import TAGS, machine, order, run, sh, told
from tests.remote.room import bubblewrap
from tests.remote.serving import Server

pytest.importorskip("grpclib", reason="the SDK is not here; run: pip install 'evalcell[modal]'")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK waits by itself if somebody imported it with the settings of a user of this machine."""
    monkeypatch.setenv("MODAL_MAX_THROTTLE_WAIT", "0")


def test_settings() -> None:
    whole = {"MODAL_TOKEN_ID": "ak-1", "MODAL_TOKEN_SECRET": "as-very-secret"}
    provider = ModalProvider(whole)
    assert provider.address.startswith("https://api.modal.com/default/evalcell/key-")
    assert provider.python == "3.13"
    assert "as-very-secret" not in repr(vars(provider))
    elsewhere = ModalProvider({**whole, "MODAL_ENVIRONMENT": "dev", "EVALCELL_MODAL_APP": "a"})
    assert elsewhere.address.startswith("https://api.modal.com/dev/a/key-")
    for name in whole:
        with pytest.raises(SandboxUnavailableError, match="set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"):
            ModalProvider({**whole, name: " "})
    for name, value in (("MODAL_SERVER_URL", "http://modal.example"), ("EVALCELL_MODAL_PYTHON", "3.9")):
        with pytest.raises(SandboxUnavailableError, match=name):
            ModalProvider({**whole, name: value})


def test_one_machine_for_one_order(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            (state,) = modal_server.state().machines
            assert (state["id"], state["key"], state["network"]) == (made.id, "one", False)
            assert TAGS.items() <= state["tags"].items()
            again, found = await provider.create(order()), await provider.find("one")
            assert found is not None
            assert again.id == found.id == made.id
            assert await told(provider, found, sh("echo found")) == (b"found\n", CommandResult(0))
            assert await provider.find("two") is None
        assert await provider.find("one") is None
        await provider.kill(made.id)
        await provider.kill("sb-never")
        async with machine(provider, order(network=True)) as new:
            assert new.id != made.id
            assert modal_server.state().machines[0]["network"]

    run(modal_server, work)


def test_what_others_left_is_listed_and_killed(modal_server: Server) -> None:
    async def left(provider: ModalProvider) -> None:
        for number in range(23):  # more than Modal tells of at once
            await provider.create(order(f"k{number}"))

    async def work(provider: ModalProvider) -> None:
        found = [each async for each in provider.list()]
        assert sorted(each.key for each in found) == sorted(f"k{number}" for number in range(23))
        assert all(TAGS.keys() <= each.tags.keys() for each in found)
        assert all(abs(each.since - datetime.now(UTC)) < timedelta(seconds=60) for each in found)
        await asyncio.gather(*(provider.kill(each.id) for each in found))
        assert [each async for each in provider.list()] == []

    async def nothing(provider: ModalProvider) -> None:
        assert [each async for each in provider.list()] == []
        assert set(modal_server.state().requests) == {"app"}

    run(modal_server, left)
    run(modal_server, work)
    modal_server.clear()
    run(modal_server, nothing, EVALCELL_MODAL_APP="never-made")


def test_a_command_and_what_it_says(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            assert await told(provider, made, sh("cat; exit 3", b"in\x1e")) == (b"in\x1e", CommandResult(3))
            assert await told(provider, made, sh("echo $A $B", A="a b", B="1")) == (b"a b 1\n", CommandResult(0))
            assert (await told(provider, made, sh("echo why >&2; kill -9 $$")))[1] == CommandResult(
                137, "why\nKilled\n"
            )
            assert (await told(provider, made, Command(("no-such-program",))))[1].code == 127
            _, ended = await told(provider, made, sh("yes wrong | head -c 300000 >&2; exit 1"))
            assert len(ended.errors) == 64 * 1024
            large = os.urandom(20_000_000)
            assert await told(provider, made, Command(("cat",), large)) == (large, CommandResult(0))

    run(modal_server, work)


def test_a_command_takes_three_requests(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            before = modal_server.state().requests
            for _ in range(2):
                await told(provider, made, sh("cat; echo said >&2", b"in"))
            asked = modal_server.state().requests
            assert {op: n - before.get(op, 0) for op, n in asked.items() if n != before.get(op)} == {
                "start": 2,
                "stdin": 2,
                "read": 2,
            }

    run(modal_server, work)


def test_what_a_command_says_is_heard_at_once(modal_server: Server) -> None:
    heard: list[tuple[bytes, float]] = []

    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            command = sh(r"printf 'one\n\036'; sleep 0.7; printf 'two\n'")
            await provider.execute(made, command, lambda piece: heard.append((piece, time.monotonic())))

    run(modal_server, work)
    assert b"".join(piece for piece, _ in heard) == b"one\n\x1etwo\n"
    assert heard[0][0] == b"one\n"
    assert heard[-1][1] - heard[0][1] > 0.5


@pytest.mark.parametrize("raised", [ValueError("unclear"), TimeoutError("own"), GoneError("own")])
def test_who_hears_may_stop_it(modal_server: Server, raised: Exception) -> None:
    def on_output(piece: bytes) -> None:
        raise raised

    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            with pytest.raises(type(raised)) as caught:
                await provider.execute(made, sh("echo one; sleep 60"), on_output)
            assert caught.value is raised

    run(modal_server, work)


def test_a_command_over_its_time(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            said, ended = await told(provider, made, sh("echo before; sleep 600; true", timeout=0.6))
            assert (said, ended.code) == (b"before\n", None)
            await modal_server.until_processes(0)

    run(modal_server, work)


@contextmanager
def started(**options: float) -> Iterator[Server]:
    """A server of the test's own."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.modal_server", **options) as server:
        yield server


def test_access_to_a_machine_is_renewed() -> None:
    with started(access_lives=-1) as server:

        async def work(provider: ModalProvider) -> None:
            async with machine(provider) as made:
                assert (await told(provider, made, sh("echo 1")))[0] == b"1\n"
                assert server.state().requests["access"] == 1

        run(server, work)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Path]]:
    """A server whose machines get packages out of a folder."""
    wheels = tmp_path / "wheels"
    wheel(wheels, "tiny", "1.5")
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("EVALCELL_CACHE_DIR", str(tmp_path / "cache"))
    with started() as server:
        yield server, wheels


def test_packages_are_baked_in(shop: tuple[Server, Path]) -> None:
    server, wheels = shop
    see = "import site, sys; sys.path += site.getsitepackages(); import tiny; print(tiny.version)"

    async def work(provider: ModalProvider) -> None:
        deadline = asyncio.get_running_loop().time() + 60
        version = RemotePython(provider.python or "", "x86_64")
        lock = await resolve(("tiny",), version, say=lambda line: None, deadline=deadline)
        async with machine(provider, order(lock=lock.text)) as made, machine(provider, order("two", lock=lock.text)):
            for options in ("-c", "-ISc"):
                said = await told(provider, made, Command(("python3", options, see)))
                assert said == (b"1.5\n", CommandResult(0))
            assert server.state().requests["image"] == 2
        async with machine(provider) as plain:
            assert (await told(provider, plain, Command(("python3", "-c", see))))[1].code == 1
        wheel(wheels, "tiny", "1.5", {"changed.py": ""})
        with pytest.raises(RefusedError, match=r"Expected sha256 .* Got"):
            await provider.create(order("three", lock=lock.text + "\n"))

    run(server, work)
