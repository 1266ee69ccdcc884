"""The local servers, one process each for a whole test session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the local servers need aiohttp; run: pip install aiohttp")

from sandboxes.registry import find
from tests.remote.room import bubblewrap
from tests.remote.serving import Server
from tests.remote.trying import PROVIDERS, Trying

SERVERS = ("e2b_server", "modal_server", "vercel_server", "daytona_server")


def _served(name: str) -> Iterator[Server]:
    works, reason = bubblewrap()
    if works is None:
        pytest.skip(reason)
    with Server.start(f"tests.remote.{name}") as server:
        yield server


@pytest.fixture(scope="session")
def e2b_server() -> Iterator[Server]:
    yield from _served("e2b_server")


@pytest.fixture(scope="session")
def modal_server() -> Iterator[Server]:
    yield from _served("modal_server")


@pytest.fixture(scope="session")
def vercel_server() -> Iterator[Server]:
    yield from _served("vercel_server")


@pytest.fixture(scope="session")
def daytona_server() -> Iterator[Server]:
    yield from _served("daytona_server")


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test finds its server as new, and leaves no machine behind."""
    used: list[Server] = [request.getfixturevalue(name) for name in SERVERS if name in request.fixturenames]
    for server in used:
        server.clear()
    yield
    left = [(server.module, machine) for server in used for machine in server.state().machines]
    for server in used:
        server.clear()
    assert not left, f"machines were left: {left}"


def at(name: str, server: Server, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Trying]:
    """Runs at a server that is as new, with a ledger of their own, and machines created as fast as they are wanted."""
    server.clear()
    patch.setenv("EVALCELL_STATE_DIR", str(folder / "state"))
    patch.setattr(find(name).provider, "pace", 1000.0)  # type: ignore[attr-defined]
    yield Trying(name, server, folder)
    server.clear()


@pytest.fixture(params=PROVIDERS)
def trying(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trying]:
    if request.param == "modal":
        pytest.importorskip("grpclib", reason="Modal's SDK is not here; run: pip install 'evalcell[modal]'")
    yield from at(request.param, request.getfixturevalue(f"{request.param}_server"), tmp_path, monkeypatch)
