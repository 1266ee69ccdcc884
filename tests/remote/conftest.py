"""The local servers, one process each for a whole test session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.serving import Server
from tests.remote.trying import PROVIDERS, Trying, at, served
from tests.remote.wheel import bring_deno


@pytest.fixture(scope="module", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Machines that the user of this computer owes are no tests' business, nor are containers of tests beside these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALCELL_ENGINE", "none")
        patch.setenv("EVALCELL_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


OTHERS = re.compile(r"(?<=[_/\[-])(modal|vercel|daytona)(?=[-_.\]])")
"""In the id of a test: it needs another provider than the one that each commit is tried with in full, which is e2b."""

TURNS = (
    "e2b_enemies",
    "e2b_failures",
    "e2b_templates",
    "garbled",
    "harness_attacks",
    "sdk_e2b",
    "talk",
    "typescript",
    "uncut",
)
"""Files of tests that only the code of providers can break, beside the promises that each commit tries with e2b."""

SERVERS = ("e2b_server", "modal_server", "vercel_server", "daytona_server")


def pytest_itemcollected(item: pytest.Item) -> None:
    if OTHERS.search(item.nodeid) or item.path.stem.removeprefix("test_") in TURNS:
        item.add_marker(pytest.mark.rotating("providers", "remote"))


@pytest.fixture(scope="session")
def e2b_server() -> Iterator[Server]:
    bring_deno()  # another test of this process may bring it later, when this server would not know of it
    yield from served("e2b")


@pytest.fixture(scope="session")
def modal_server() -> Iterator[Server]:
    yield from served("modal")


@pytest.fixture(scope="session")
def vercel_server() -> Iterator[Server]:
    yield from served("vercel")


@pytest.fixture(scope="session")
def daytona_server() -> Iterator[Server]:
    yield from served("daytona")


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


@pytest.fixture(params=PROVIDERS)
def trying(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trying]:
    yield from at(request.param, request.getfixturevalue(f"{request.param}_server"), tmp_path, monkeypatch)
