"""A run that goes on has the packages that it began with, whatever the index has by then."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxes.errors import SandboxUnavailableError
from sandboxes.packages import find_uv
from tests.packages.wheels import wheel
from tests.server.http.live import finished
from tests.server.http.served import PATIENCE, Served

ROWS = 2000
SOURCE = """\
# /// script
# dependencies = ["tiny"]
# ///
import time
import tiny


def evaluate(output):
    time.sleep(0.005)
    return tiny.version
"""


@pytest.mark.timeout(300)
@pytest.mark.rotating("kills of the server", "server")
def test_a_run_that_goes_on_keeps_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        find_uv()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    wheels, index = tmp_path / "wheels", tmp_path / "index"
    index.mkdir()
    wheel(wheels, "tiny", "1.0")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.as_uri())
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    server = Served(tmp_path / "state", EVALCELL_CACHE_DIR=str(tmp_path / "cache"))
    with server.client() as client:
        client.post("/v1/evaluators", json={"name": "packed", "source": SOURCE})
        lines = b"".join(b'{"output": %d}\n' % n for n in range(ROWS))
        client.post("/v1/datasets", params={"name": "many.jsonl"}, content=lines)
        id = client.post("/v1/runs", json={"evaluator": "packed", "dataset": "many"}).json()["id"]
        with client.stream("GET", f"/v1/runs/{id}/events", timeout=PATIENCE) as events:
            assert any('"rows":' in line for line in events.iter_lines())
    server.kill()
    wheel(wheels, "tiny", "2.0")
    # Another cache remembers nothing of what was resolved before.
    server = Served(tmp_path / "state", EVALCELL_CACHE_DIR=str(tmp_path / "other"))
    try:
        with server.client() as client:
            first = client.get(f"/v1/runs/{id}").json()["rows"]
            assert 0 < first < ROWS
            run = finished(client, id)
            assert isinstance(run["summary"], dict)
            assert run["summary"]["labels"] == {"1.0": ROWS}
            again = client.post("/v1/runs", json={"evaluator": "packed", "dataset": "many", "limit": 2}).json()["id"]
            found = finished(client, again)
            assert isinstance(found["summary"], dict)
            assert found["summary"]["labels"] == {"2.0": 2}
    finally:
        server.end()
