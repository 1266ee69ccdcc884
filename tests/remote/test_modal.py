"""ModalProvider against the local Modal: what every method does."""

from __future__ import annotations

import asyncio
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
    CommandResult,
    GoneError,
    RefusedError,
)
from tests.packages.wheels import wheel
from tests.remote.room import bubblewrap
from tests.remote.serving import Server
from tests.remote.use import TAGS, listed, machine, opened, order, sh, told

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


async def test_what_others_left_is_listed_and_killed(modal_server: Server) -> None:
    async with opened(modal_server) as provider:
        for number in range(23):  # more than Modal tells of at once
            await provider.create(order(f"k{number}"))
    async with opened(modal_server) as provider:
        found = await listed(provider)
        assert sorted(each.key for each in found) == sorted(f"k{number}" for number in range(23))
        assert all(TAGS.keys() <= each.tags.keys() for each in found)
        assert all(abs(each.since - datetime.now(UTC)) < timedelta(seconds=60) for each in found)
        await asyncio.gather(*(provider.kill(each.id) for each in found))
        assert await listed(provider) == []
    modal_server.clear()
    async with opened(modal_server, EVALCELL_MODAL_APP="never-made") as provider:
        assert await listed(provider) == []
        assert set(modal_server.state().requests) == {"app"}


async def test_its_life_ends(modal_server: Server) -> None:
    async with opened(modal_server) as provider:
        short = await provider.create(order(lifetime=1))
        await asyncio.sleep(1.3)
        with pytest.raises(GoneError):
            await told(provider, short, "true")


async def test_a_command_takes_three_requests(modal_server: Server) -> None:
    async with opened(modal_server) as provider, machine(provider) as made:
        before = modal_server.state().requests
        for _ in range(2):
            await told(provider, made, sh("cat; echo said >&2", b"in"))
        asked = modal_server.state().requests
        assert {op: n - before.get(op, 0) for op, n in asked.items() if n != before.get(op)} == {
            "start": 2,
            "stdin": 2,
            "read": 2,
        }


async def test_what_a_command_says_is_heard_at_once(modal_server: Server) -> None:
    heard: list[tuple[bytes, float]] = []

    async with opened(modal_server) as provider, machine(provider) as made:
        command = sh(r"printf 'one\n\036'; sleep 0.7; printf 'two\n'")
        await provider.execute(made, command, lambda piece: heard.append((piece, time.monotonic())))
    assert b"".join(piece for piece, _ in heard) == b"one\n\x1etwo\n"
    assert heard[0][0] == b"one\n"
    assert heard[-1][1] - heard[0][1] > 0.5


@contextmanager
def started(**options: float) -> Iterator[Server]:
    """A server of the test's own."""
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start("tests.remote.modal_server", **options) as server:
        yield server


async def test_access_to_a_machine_is_renewed() -> None:
    with started(access_lives=-1) as server:
        async with opened(server) as provider, machine(provider) as made:
            assert (await told(provider, made, "echo", "1"))[1] == b"1\n"
            assert server.state().requests["access"] == 1


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


async def test_packages_are_baked_in(shop: tuple[Server, Path]) -> None:
    server, wheels = shop
    see = "import site, sys; sys.path += site.getsitepackages(); import tiny; print(tiny.version)"

    async with opened(server) as provider:
        deadline = asyncio.get_running_loop().time() + 60
        version = RemotePython(provider.python or "", "x86_64")
        lock = await resolve(("tiny",), version, say=lambda line: None, deadline=deadline)
        async with machine(provider, lock=lock.text) as made, machine(provider, lock=lock.text):
            for options in ("-c", "-ISc"):
                said = await told(provider, made, "python3", options, see)
                assert said == (CommandResult(0), b"1.5\n")
            assert server.state().requests["image"] == 2
        async with machine(provider) as plain:
            assert (await told(provider, plain, "python3", "-c", see))[0].code == 1
        wheel(wheels, "tiny", "1.5", {"changed.py": ""})
        with pytest.raises(RefusedError, match=r"Expected sha256 .* Got"):
            await provider.create(order("three", lock=lock.text + "\n"))
