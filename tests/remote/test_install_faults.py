"""Packages are there in the end, or nothing is judged: whatever goes wrong while a machine gets them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from sandboxes import SandboxUnavailableError
from tests.packages.wheels import wheel
from tests.remote.serving import Server
from tests.remote.trying import PROVIDERS, Trying, at, served

pytestmark = [pytest.mark.timeout(60), pytest.mark.rotating("faults at a provider", "remote")]

SCRIPT = "import tiny\ndef evaluate(output):\n    assert tiny.version == '1.5'\n    return len(output)\n"
GREET, INSTALL = 1, 2

Fault = tuple[str, str, int]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    wheel(folder, "tiny", "1.5")
    return folder


@pytest.fixture(scope="module", params=PROVIDERS)
def server(request: pytest.FixtureRequest, wheels: Path) -> Iterator[Server]:
    """Its machines get packages out of a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        yield from served(request.param)


@pytest.fixture
def trying(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Trying]:
    yield from at(request.node.callspec.params["server"], server, tmp_path, monkeypatch)


@pytest.fixture
def lock(wheels: Path) -> str:
    (made,) = wheels.glob("*.whl")
    return f"tiny==1.5 --hash=sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}\n"


FAULTS: dict[str, list[list[Fault]]] = {
    "e2b": [
        [("start", "status:503", INSTALL), ("network", "status:503", 1)],
        [("start", "die-frame:2", INSTALL), ("network", "cut-after", 1)],
        [("start", "die-frame:1", GREET), ("network", "rate", 1)],
    ],
    "modal": [
        [("image", "status:503", 1), ("build", "cut-before", 1)],
        [("image", "cut-after", 1), ("build", "status:503", 1)],
        [("start", "die-frame:1", GREET)],
    ],
}


@pytest.mark.parametrize("number", range(3))
def test_a_machine_that_failed_on_the_way_is_replaced(trying: Trying, lock: str, number: int) -> None:
    for op, do, nth in FAULTS[trying.name][number]:
        trying.server.fault(op, do, nth=nth, after=0.1)
    # One more hash each time: a set that was built before is not built again.
    trying.recovered(source=SCRIPT, lock=f"{lock.strip()} --hash=sha256:{number:064x}\n")


def test_packages_that_cannot_be_installed_leave_no_machine(trying: Trying, lock: str) -> None:
    tried = trying.run(source=SCRIPT, lock=lock.replace("1.5", "1.6"))
    trying.after(tried)
    assert isinstance(tried.error, SandboxUnavailableError)
    assert "tiny==1.6" in str(tried.error)
    assert tried.results == []


class _Index(BaseHTTPRequestHandler):
    """A page with a link to the wheel, and the wheel, of which the first reader gets half."""

    wheel: Path
    asked: ClassVar[list[str]]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        name, data = self.wheel.name, self.wheel.read_bytes()
        if not self.path.endswith(name):
            data = f'<a href="/{name}">{name}</a>'.encode()
        elif self.asked.count(self.path) == 1:
            data = data[: len(data) // 2]
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "application/octet-stream")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def test_a_download_that_breaks_off_is_tried_again(
    wheels: Path, lock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = wheels.glob("*.whl")

    class Handler(_Index):
        wheel = made
        asked: ClassVar[list[str]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as index, pytest.MonkeyPatch.context() as patch:
        Thread(target=index.serve_forever, daemon=True).start()
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{index.server_port}/")
        for server in served("e2b"):
            for trying in at("e2b", server, tmp_path, monkeypatch):
                trying.recovered(source=SCRIPT, lock=lock)
        index.shutdown()
    assert Handler.asked.count(f"/{made.name}") == 2


def test_a_network_that_cannot_be_cut_is_not_used(trying: Trying, lock: str) -> None:
    if trying.name == "modal":
        pytest.skip("packages are in the image there, and the network is never open")
    trying.server.fault("network", "garbage", times=1000)
    tried = trying.run(source=SCRIPT, lock=lock, pauses={"first": 0.02, "longest": 0.1, "total": 0.3})
    trying.after(tried)
    assert tried.error is not None
    assert tried.results == []
