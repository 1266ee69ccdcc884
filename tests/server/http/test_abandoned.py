"""Slow work ends with its request, and with the server; what is no dataset is refused before it takes long."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from runner.core.errors import DatasetError
from runner.inputs.datasets.dataset import open_dataset
from runner.inputs.datasets.formats.text_rows import BLANKS
from runner.server.service.service import Service
from tests.server.http.live import Live
from tests.server.http.served import PATIENCE, Served

MB = 1 << 20


def packed(*parts: bytes, times: int = 1) -> bytes:
    """These parts, each repeated so often, as gzip members: quick to make, however large."""
    return b"".join(gzip.compress(part, 1) * times for part in parts)


LINES = packed(b"\n" * (8 * MB), times=30)
BLANK: dict[str, tuple[str, bytes]] = {
    "line ends": ("rows.jsonl.gz", LINES),
    "line ends and spaces": ("rows.jsonl.gz", packed(b" \r\n" * (3 * MB), times=25)),
    "behind a row": ("rows.jsonl.gz", gzip.compress(b'{"output": 1}\n') + LINES),
    "an array of blanks": ("rows.json.gz", gzip.compress(b"[") + packed(b" " * (8 * MB), times=30)),
    "blanks alone": ("rows.json.gz", packed(b" " * (8 * MB), times=30)),
    "before the comma": ("rows.json.gz", gzip.compress(b'[{"output": 1}') + LINES),
    "before a header": ("rows.csv.gz", LINES),
    "behind a header": ("rows.csv.gz", gzip.compress(b"output,reference\n") + LINES),
    "empty cells": ("rows.csv.gz", gzip.compress(b"output,reference\n") + packed(b",,\n" * (3 * MB), times=30)),
    "not packed": ("rows.jsonl", b"\n" * (60 * MB)),
    "deep": ("rows.json.gz", packed(b"[" * (8 * MB), times=30)),
}


@pytest.mark.parametrize("name", BLANK)
def test_blanks_without_a_row_are_not_read_on(tmp_path: Path, name: str) -> None:
    suffix, content = BLANK[name]
    path = tmp_path / suffix
    path.write_bytes(content)
    read: list[str | None] = []
    try:
        with open_dataset(path) as dataset:
            read = [case.broken for case in dataset]
            where = dataset.name
    except DatasetError as error:
        read, where = [str(error)], ""
    assert read[-1] is not None
    assert "blanks alone" in read[-1] or "nested" in read[-1], (where, read[-1])
    assert len(read) <= 2


def test_fewer_blanks_are_passed_over_and_places_stay_right(tmp_path: Path) -> None:
    few = b"\n" * (BLANKS - 5000)
    row = b'{"output": 1}\n'
    path = tmp_path / "rows.jsonl"
    path.write_bytes(few + row + b"\n \n" + row + few + row + b"nonsense\n")
    before = len(few)
    with open_dataset(path) as dataset:
        assert dataset.total() == 4
        where = [(case.where, case.broken is None) for case in dataset]
    places = [before + 1, before + 4, 2 * before + 5, 2 * before + 6]
    assert where == [(f"rows.jsonl:{place}", place != places[-1]) for place in places]
    table = tmp_path / "rows.csv"
    table.write_bytes(b"output\n" + few + b'"a\n\n\nb"\n' + few + b"c\n")
    with open_dataset(table) as dataset:
        found = [(case.where, case.output) for case in dataset]
    assert found == [(f"rows.csv:{before + 2}", "a\n\n\nb"), (f"rows.csv:{2 * before + 6}", "c")]
    array = tmp_path / "rows.json"
    array.write_bytes(few + b"[" + few + b'{"output": 1}' + few + b"," + few + b'{"output": 2}' + few + b"]" + few)
    with open_dataset(array) as dataset:
        assert [case.output for case in dataset] == [1, 2]


def _hang_up(server: str, name: str, content: bytes) -> None:
    parts = urlsplit(server)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    connection.request("POST", f"/v1/datasets?name={name}", content)
    time.sleep(0.3)
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def read_endlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make files take for ever to read, as they do to who sees only a part. A server that starts reads its example."""

    def reads(path: Path) -> tuple[int | None, tuple[str, ...]]:
        with path.open("r+b") as file:
            while True:
                file.seek(0)
                for line in open_dataset(path):
                    assert line.broken is None

    monkeypatch.setattr("runner.server.service.service.looked_at", reads)


def test_who_hangs_up_takes_the_slow_work_along(
    server: Live, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_endlessly(monkeypatch)
    for number in range(6):  # more than there are threads for slow work
        _hang_up(server.url, f"slow-{number}.jsonl", b'{"output": 1}\n' * 1000)
    _until(lambda: not server.service._going)
    _until(lambda: not list((server.service.incoming or Path()).iterdir()))
    small = client.get("/v1/datasets/demo/rows", params={"first": 1500}).json()  # which takes such a thread
    assert small["rows"] == []


def test_a_server_that_stops_ends_slow_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import concurrent.futures

    from tests.server.http.live import live

    services: list[Service] = []
    with concurrent.futures.ThreadPoolExecutor() as threads, live(tmp_path) as server:
        services.append(server.service)
        read_endlessly(monkeypatch)

        def upload() -> httpx.Response:
            with server.client() as client:
                return client.post("/v1/datasets", params={"name": "a.jsonl"}, content=b'{"output": 1}\n')

        waiting = threads.submit(upload)
        _until(lambda: bool(server.service._going))
        time.sleep(0.1)
        server.loop.call_soon_threadsafe(server.service.end_slow_work)
        reply = waiting.result(PATIENCE)
        assert (reply.status_code, reply.json()["type"]) == (503, "/problems/stopping")
    services[0]._slow.shutdown(wait=True)  # nothing goes on in it


@pytest.mark.rotating("starts of the server", "server", "cli")
def test_uploads_of_blanks_hold_up_neither_others_nor_the_end(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        for number, (suffix, content) in enumerate(BLANK.values()):
            if len(content) < MB:
                _hang_up(served.url, f"b{number}-{suffix}", content)
        reply = httpx.post(f"{served.url}/v1/datasets?name=x.jsonl.gz", content=LINES, timeout=PATIENCE)
        assert (reply.status_code, reply.json()["type"]) == (422, "/problems/dataset")
        assert "blanks alone" in json.loads(reply.text)["detail"]
    finally:
        code, said = served.end()
    assert (code, "Traceback" in said) == (0, False)
