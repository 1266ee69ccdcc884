"""The server is killed in the middle of a run: after a restart each row is there once, with the right score."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.postgres import postgres
from tests.server.http.live import finished
from tests.server.http.served import PATIENCE, Served

__all__ = ["postgres"]
ROWS = 4000
SOURCE = "def evaluate(output):\n    sum(range(20000))\n    return output / 7\n"


def scores(client: httpx.Client, id: str) -> list[float]:
    found: list[float] = []
    with client.stream("GET", f"/v1/runs/{id}/download") as reply:
        for line in reply.iter_lines():
            row = json.loads(line)
            assert row["outcome"] == "scored"
            assert row["id"] == f"row-{len(found)}"
            found.append(row["score"])
    return found


def stored(client: httpx.Client, id: str) -> int:
    return int(client.get(f"/v1/runs/{id}").json()["rows"])


def kills(state: Path, number: int, seed: int, **variables: str) -> None:
    """So many kills at moments of one run, each followed by a restart."""
    chance = random.Random(seed)
    server = Served(state, **variables)
    with server.client() as client:
        client.post("/v1/evaluators", json={"name": "seventh", "source": SOURCE})
        lines = b"".join(b'{"id": "row-%d", "output": %d}\n' % (n, n) for n in range(ROWS))
        assert client.post("/v1/datasets", params={"name": "many.jsonl"}, content=lines).status_code == 201
        begun = client.post("/v1/runs", json={"evaluator": "seventh", "dataset": "many"})
        assert begun.status_code == 202, begun.text
        id = str(begun.json()["id"])
    before = 0
    for _ in range(number):
        with server.client() as client:
            # From time to time before anything is stored, else after some more segments.
            until = before + chance.choice((0, 0, 1, 200, 500))
            late = time.monotonic() + PATIENCE
            while stored(client, id) < min(until, ROWS) and time.monotonic() < late:
                time.sleep(0.01)
            time.sleep(chance.random() / 5)
            now = stored(client, id)
            assert now >= before
            before = now
        server.kill()
        server = Served(state, **variables)
    try:
        with server.client() as client:
            run = finished(client, id)
            assert (run["rows"], run["counts"]) == (ROWS, {"scored": ROWS})
            assert scores(client, id) == [n / 7 for n in range(ROWS)]
    finally:
        code, said = server.end()
    assert code == 0, said


@pytest.mark.timeout(300)
@pytest.mark.rotating("kills of the server", "server")
def test_a_run_survives_two_kills(tmp_path: Path) -> None:
    kills(tmp_path, 2, seed=1)


@pytest.mark.timeout(300)
@pytest.mark.rotating("kills of the server", "server")
def test_a_run_survives_two_kills_on_postgresql(tmp_path: Path, postgres: Callable[[], str]) -> None:
    kills(tmp_path, 2, seed=2, EVALCELL_DATABASE_URL=postgres())


@pytest.mark.timeout(1200)
@pytest.mark.thorough("20 kills: those with 2 stand for it")
@pytest.mark.parametrize("seed", range(2))
def test_a_run_survives_ten_kills(tmp_path: Path, seed: int) -> None:
    kills(tmp_path, 10, seed=seed)


@pytest.mark.timeout(1200)
@pytest.mark.thorough("20 kills: those with 2 stand for it")
@pytest.mark.parametrize("seed", range(2))
def test_a_run_survives_ten_kills_on_postgresql(tmp_path: Path, postgres: Callable[[], str], seed: int) -> None:
    kills(tmp_path, 10, seed=seed, EVALCELL_DATABASE_URL=postgres())


@pytest.mark.timeout(300)
@pytest.mark.rotating("kills of the server", "server")
def test_a_server_that_is_stopped_parks_its_run_and_goes_on(tmp_path: Path) -> None:
    source = "import time\ndef evaluate(output):\n    time.sleep(0.005)\n    return output\n"
    server = Served(tmp_path)
    with server.client() as client:
        client.post("/v1/evaluators", json={"name": "slow", "source": source})
        lines = b"".join(b'{"output": %d}\n' % n for n in range(1500))
        client.post("/v1/datasets", params={"name": "some.jsonl"}, content=lines)
        id = str(client.post("/v1/runs", json={"evaluator": "slow", "dataset": "some"}).json()["id"])
        with client.stream("GET", f"/v1/runs/{id}/events") as reply:
            events = reply.iter_lines()
            assert any('"state":"running"' in line for line in events)
            code, said = server.end()
            assert any('"state":"parked"' in line for line in events)
    assert code == 0, said
    server = Served(tmp_path)
    try:
        with server.client() as client:
            assert finished(client, id)["rows"] == 1500
    finally:
        server.end()
