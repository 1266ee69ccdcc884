"""ModalProvider against the local Modal: every method, and what each failure becomes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.packages import RemotePython, resolve
from sandboxes.remote.modal.provider import ModalProvider
from sandboxes.remote.provider import (
    OWNER,
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
from tests.packages.wheels import wheel
from tests.remote.room import bubblewrap
from tests.remote.serving import Server

pytest.importorskip("grpclib", reason="the SDK is not here; run: pip install 'evalcell[modal]'")

TAGS = {"owner": OWNER, "key": "one", "run": "r", "host": "h", "pid": "7", "started": "1"}
MB = 1 << 20


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK waits by itself if somebody imported it with the settings of a user of this machine."""
    monkeypatch.setenv("MODAL_MAX_THROTTLE_WAIT", "0")


def order(key: str = "one", *, lifetime: int = 300, network: bool = False, lock: str | None = None) -> Order:
    return Order(key, TAGS | {"key": key}, lifetime, network, 256 * MB, lock)


def run(server: Server, work: Callable[[ModalProvider], Awaitable[None]], **values: str) -> None:
    async def main() -> None:
        provider = ModalProvider({**server.environment, **values})
        await provider.open()
        try:
            await work(provider)
        finally:
            await provider.close()
            await provider.close()

    asyncio.run(main())


@asynccontextmanager
async def machine(provider: ModalProvider, wanted: Order | None = None) -> AsyncIterator[Machine]:
    made = await provider.create(wanted or order())
    try:
        yield made
    finally:
        await provider.kill(made.id)


async def told(provider: ModalProvider, made: Machine, command: Command) -> tuple[bytes, CommandResult]:
    said: list[bytes] = []
    ended = await provider.execute(made, command, said.append)
    assert all(said)
    return b"".join(said), ended


def sh(script: str, data: bytes = b"", timeout: float = 20, **env: str) -> Command:
    return Command(("sh", "-c", script), data, env, timeout)


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


def test_a_machine_that_is_gone(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            running = asyncio.create_task(told(provider, made, sh("cat; sleep 60", os.urandom(3 * MB))))
            await asyncio.sleep(0.5)
            modal_server.die(made.id)
            with pytest.raises(GoneError):
                await running
            with pytest.raises(GoneError):
                await told(provider, made, sh("true"))
        with pytest.raises(GoneError):
            await told(provider, made, sh("true"))

    run(modal_server, work)


CREATION: list[tuple[str, float | None, int, type[ProviderError]]] = [
    ("status:401", None, 1, RefusedError),
    ("status:403", None, 1, RefusedError),
    ("status:400", None, 1, RefusedError),
    ("status:404", None, 1, RefusedError),
    ("rate", 2.5, 1, BusyError),
    ("rate", None, 1, BusyError),
    ("full", None, 1, FullError),
    ("garbage", None, 1, UnreachableError),
    ("status:503", None, 4, UnreachableError),
    ("status:500", None, 4, UnreachableError),
    ("cut-before", None, 4, UnreachableError),
]
"""What goes wrong, when to ask again, how often (the SDK itself asks four times), and what comes of it."""


def test_a_creation_that_fails(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        for do, after, times, expected in CREATION:
            modal_server.fault("create", do, times=times, after=after)
            with pytest.raises(expected, match=r"^Modal: ") as caught:
                await provider.create(order())
            assert type(caught.value) is expected, do
            assert getattr(caught.value, "after", None) == after
        assert modal_server.state().created == 0

    run(modal_server, work)


COMMAND: list[tuple[str, str, type[ProviderError]]] = [
    ("start", "rate", BusyError),
    ("start", "garbage", UnreachableError),
    ("stdin", "status:400", RefusedError),
    ("stdin", "garbage", UnreachableError),
    ("stdin", "rate", UnreachableError),
    ("read", "rate", UnreachableError),
    ("read", "garbage", UnreachableError),
    ("read", "status:409", GoneError),
    ("start", "die-frame:1", GoneError),
]


def test_a_command_that_fails(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        async with machine(provider) as made:
            for op, do, expected in COMMAND:
                modal_server.fault(op, do)
                with pytest.raises(expected):
                    await told(provider, made, sh("cat; sleep 60", b"in"))

    run(modal_server, work)


@pytest.mark.parametrize("do", ["cut-after", "cut-before", "status:503"])
def test_what_passes_by_itself_is_not_noticed(modal_server: Server, do: str) -> None:
    async def work(provider: ModalProvider) -> None:
        for op in ("app", "environment", "image", "token", "create", "start", "stdin", "read", "kill"):
            modal_server.fault(op, do)
        async with machine(provider) as made:
            assert await told(provider, made, sh("cat; echo end", b"in\n")) == (b"in\nend\n", CommandResult(0))
        state = modal_server.state()
        assert (state.machines, state.created) == ([], 1)

    run(modal_server, work)


def test_a_cancelled_creation_is_found_again(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        modal_server.fault("create", "late:1")
        creating = asyncio.create_task(provider.create(order()))
        await asyncio.sleep(0.5)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        found = await provider.find("one")
        assert found is not None
        assert await told(provider, found, sh("echo found")) == (b"found\n", CommandResult(0))
        await provider.kill(found.id)

    run(modal_server, work)


def test_a_wrong_token(modal_server: Server) -> None:
    async def work(provider: ModalProvider) -> None:
        for asked in (provider.create(order()), provider.find("one"), provider.kill("sb-1")):
            with pytest.raises(RefusedError, match="set MODAL_TOKEN_ID") as caught:
                await asked
            assert "as-wrong" not in str(caught.value)

    run(modal_server, work, MODAL_TOKEN_SECRET="as-wrong")


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


LEAVING = """
import asyncio, os
from sandboxes.remote.modal.provider import ModalProvider
from sandboxes.remote.provider import Command, Order

async def main():
    provider = ModalProvider(os.environ)
    await provider.open()
    made = await provider.create(Order("left", {"owner": "o"}, 600, False, 1 << 28))
    begun = asyncio.Event()
    command = Command(("sh", "-c", "echo begun; exec sleep 600"))
    asyncio.create_task(provider.execute(made, command, lambda said: begun.set()))
    await begun.wait()
    assert "MODAL_CONFIG_PATH" not in os.environ and os.environ["MODAL_PROFILE"] == "mine"

asyncio.run(main())
"""


def test_the_sdk_reads_no_file_and_holds_up_no_exit(modal_server: Server, tmp_path: Path) -> None:
    (tmp_path / ".modal.toml").write_text("[mine]\nthis is no TOML")
    env = {**os.environ, **modal_server.environment, "HOME": str(tmp_path), "MODAL_PROFILE": "mine"}
    done = subprocess.run([sys.executable, "-c", LEAVING], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert modal_server.state().machines, "what it left goes on for ten minutes, and did not hold it up"
    modal_server.clear()


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxes.remote.modal.provider._ASKING", 1.0)

    async def work() -> None:
        values = {"MODAL_TOKEN_ID": "ak", "MODAL_TOKEN_SECRET": "as", "MODAL_SERVER_URL": "http://127.0.0.1:9"}
        provider = ModalProvider(values)
        with pytest.raises(UnreachableError, match="no answer") as caught:
            await provider.open()
        assert caught.value.sent is False

    asyncio.run(work())


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "modal", raising=False)
    monkeypatch.setattr(sys, "meta_path", [])
    provider = ModalProvider({"MODAL_TOKEN_ID": "ak", "MODAL_TOKEN_SECRET": "as"})
    with pytest.raises(SandboxUnavailableError, match=r"pip install 'evalcell\[modal\]'"):
        asyncio.run(provider.open())
