"""A disk without room: what does not fit is refused with a sentence, and a run goes on once there is room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.disks import OWN_MOUNTS, needs_mounts
from tests.server.http.live import finished
from tests.server.http.served import PATIENCE, Served

SOURCE = "def evaluate(output):\n    return {'score': 1.0, 'explanation': output * 4_000}\n"
ROWS = 3000


@needs_mounts
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="makes room in another's mounts, as root")
@pytest.mark.timeout(300)
@pytest.mark.rotating("kills of the server", "server")
def test_a_full_disk_is_said_and_outlived(tmp_path: Path) -> None:
    small = 'mount -t tmpfs -o size=24m none "$0" && head -c 13M /dev/zero > "$0/ballast" && exec "$@"'
    server = Served(tmp_path, before=[*OWN_MOUNTS, "sh", "-c", small, str(tmp_path)])
    seen = Path(f"/proc/{server.pid}/root{tmp_path}")
    try:
        with server.client() as client:
            large = client.post("/v1/datasets", params={"name": "large.jsonl"}, content=b'{"output": 1}\n' * (1 << 20))
            assert (large.status_code, large.json()["type"]) == (507, "/problems/write"), large.text
            assert "make room there" in large.json()["detail"]
            assert list((seen / "store" / "incoming").iterdir()) == []
            client.post("/v1/evaluators", json={"name": "long", "source": SOURCE})
            lines = b"".join(b'{"output": "%d"}\n' % (n % 10) for n in range(ROWS))
            assert client.post("/v1/datasets", params={"name": "some.jsonl"}, content=lines).status_code == 201
            id = client.post("/v1/runs", json={"evaluator": "long", "dataset": "some"}).json()["id"]
            with client.stream("GET", f"/v1/runs/{id}/events", timeout=PATIENCE) as events:
                assert any("the run waits: " in line for line in events.iter_lines())
            assert "the run waits: " in client.get(f"/runs/{id}").text
            (seen / "ballast").unlink()
            run = finished(client, id)
            assert (run["rows"], run["counts"], run["error"]) == (ROWS, {"scored": ROWS}, None)
    finally:
        code, said = server.end()
    assert code == 0, said
    assert "Traceback" not in said
