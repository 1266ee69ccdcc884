"""What each failure of Modal becomes, against the local server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.remote.modal.provider import ModalProvider
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
from tests.remote.use import machine, opened, order, sh, told

pytest.importorskip("grpclib", reason="the SDK is not here; run: pip install 'evalcell[modal]'")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK waits by itself if somebody imported it with the settings of a user of this machine."""
    monkeypatch.setenv("MODAL_MAX_THROTTLE_WAIT", "0")


async def test_a_machine_that_is_gone(modal_server: Server) -> None:
    async with opened(modal_server) as provider:
        async with machine(provider) as made:
            running = asyncio.create_task(told(provider, made, sh("cat; sleep 60", os.urandom(3 << 20))))
            await asyncio.sleep(0.5)
            modal_server.die(made.id)
            with pytest.raises(GoneError):
                await running
            with pytest.raises(GoneError):
                await told(provider, made, sh("true"))
        with pytest.raises(GoneError):
            await told(provider, made, sh("true"))


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


async def test_a_creation_that_fails(modal_server: Server) -> None:
    async with opened(modal_server) as provider:
        for do, after, times, expected in CREATION:
            modal_server.fault("create", do, times=times, after=after)
            with pytest.raises(expected, match=r"^Modal: ") as caught:
                await provider.create(order())
            assert type(caught.value) is expected, do
            assert getattr(caught.value, "after", None) == after
        assert modal_server.state().created == 0


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


async def test_a_command_that_fails(modal_server: Server) -> None:
    async with opened(modal_server) as provider, machine(provider) as made:
        for op, do, expected in COMMAND:
            modal_server.fault(op, do)
            with pytest.raises(expected):
                await told(provider, made, sh("cat; sleep 60", b"in"))


@pytest.mark.parametrize("do", ["cut-after", "cut-before", "status:503"])
async def test_what_passes_by_itself_is_not_noticed(modal_server: Server, do: str) -> None:
    async with opened(modal_server) as provider:
        for op in ("app", "environment", "image", "token", "create", "start", "stdin", "read", "kill"):
            modal_server.fault(op, do)
        async with machine(provider) as made:
            assert await told(provider, made, sh("cat; echo end", b"in\n")) == (CommandResult(0), b"in\nend\n")
        state = modal_server.state()
        assert (state.machines, state.created) == ([], 1)


async def test_a_cancelled_creation_is_found_again(modal_server: Server) -> None:
    async with opened(modal_server) as provider:
        modal_server.fault("create", "late:60")
        creating = asyncio.create_task(provider.create(order("one")))
        while not modal_server.state().machines:  # pytest's own limit is the end of this
            await asyncio.sleep(0.05)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        found = await provider.find("one")
        assert found is not None
        assert await told(provider, found, sh("echo found")) == (CommandResult(0), b"found\n")
        await provider.kill(found.id)


async def test_a_wrong_token(modal_server: Server) -> None:
    async with opened(modal_server, MODAL_TOKEN_SECRET="as-wrong") as provider:
        for asked in (provider.create(order()), provider.find("one"), provider.kill("sb-1")):
            with pytest.raises(RefusedError, match="set MODAL_TOKEN_ID") as caught:
                await asked
            assert "as-wrong" not in str(caught.value)


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


async def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxes.remote.modal.provider._ASKING", 1.0)

    values = {"MODAL_TOKEN_ID": "ak", "MODAL_TOKEN_SECRET": "as", "MODAL_SERVER_URL": "http://127.0.0.1:9"}
    provider = ModalProvider(values)
    with pytest.raises(UnreachableError, match="no answer") as caught:
        await provider.open()
    assert caught.value.sent is False


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "modal", raising=False)
    monkeypatch.setattr(sys, "meta_path", [])
    provider = ModalProvider({"MODAL_TOKEN_ID": "ak", "MODAL_TOKEN_SECRET": "as"})
    with pytest.raises(SandboxUnavailableError, match=r"pip install 'evalcell\[modal\]'"):
        asyncio.run(provider.open())
