"""Files that come: none is held in memory, and who hangs up fills no log."""

from __future__ import annotations

import logging
import socket
import time

import httpx
import pytest

from runner.server.v1.parts import StrictRequest
from tests.server.live import Live
from tests.server.served import PATIENCE


@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream"])
def test_a_file_is_not_held_whatever_its_type_and_key(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    async def held(self: StrictRequest) -> bytes:
        raise AssertionError("the file is read into memory")

    monkeypatch.setattr(StrictRequest, "body", held)
    headers = {"idempotency-key": kind, "content-type": kind}
    rows = b'{"output": 1}\n'
    one, other = (
        client.post("/v1/datasets", params={"name": "kept.jsonl"}, content=rows, headers=headers) for _ in range(2)
    )
    assert (one.status_code, one.json()) == (201, other.json())
    assert client.delete("/v1/datasets/kept").status_code == 204


def test_a_key_stands_for_one_file_by_its_content(client: httpx.Client) -> None:
    def sent(rows: bytes) -> httpx.Response:
        headers = {"idempotency-key": "one file"}
        return client.post("/v1/datasets", params={"name": "told-apart.jsonl"}, content=rows, headers=headers)

    first, again, other = sent(b'{"output": 1}\n'), sent(b'{"output": 1}\n'), sent(b'{"output": 2}\n')
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency")
    assert client.delete("/v1/datasets/told-apart").status_code == 204


def test_who_hangs_up_within_a_file_leaves_nothing_and_no_traceback(
    server: Live, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    folder = server.service.incoming
    assert folder is not None
    host, _, port = server.url.removeprefix("http://").partition(":")
    until = time.monotonic() + PATIENCE
    with socket.create_connection((host, int(port))) as made:
        made.sendall(
            b"POST /v1/datasets?name=half.jsonl HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{}\n"
        )
        while not list(folder.iterdir()) and time.monotonic() < until:
            time.sleep(0.01)
    while list(folder.iterdir()) and time.monotonic() < until:
        time.sleep(0.01)
    assert list(folder.iterdir()) == []
    assert client.get("/healthz").status_code == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
