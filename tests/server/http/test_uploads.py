"""Files that come: none is held in memory, and who hangs up fills no log."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import time
from pathlib import Path

import httpx
import pytest

from runner.core.errors import DatasetError
from runner.server.client.client import Client
from runner.server.http.v1.parts import StrictRequest
from tests.server.http.live import Live, finished
from tests.server.http.served import PATIENCE


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


def test_rows_within_a_json_file(server: Live, client: httpx.Client, tmp_path: Path) -> None:
    data = json.dumps({"version": 1, "data": [{"output": "ä"}, {"output": "b"}]})
    refused = client.post("/v1/datasets", params={"name": "nested.json"}, content=data)
    assert refused.status_code == 422
    said = refused.json()["detail"]
    assert said == 'nested.json holds an object whose rows seem to be in `data`: give "rows": "data"'
    wrong = client.post("/v1/datasets", params={"name": "nested.json", "rows": "dta"}, content=data)
    assert wrong.json()["detail"].endswith('no array at "rows": "dta"; arrays of objects are at `data`')
    no_place = client.post("/v1/datasets", params={"name": "nested.json", "rows": "a[?@.b]"}, content=data)
    assert (no_place.status_code, "names, numbers from 0" in no_place.text) == (422, True)
    kept = client.post("/v1/datasets", params={"name": "nested.json", "rows": "data"}, content=data)
    assert (kept.status_code, kept.json()["rows"], kept.json()["columns"]) == (201, 2, ["output"])
    rows = client.get("/v1/datasets/nested/rows").json()["rows"]
    assert rows[0]["row"]["output"] == "ä"
    assert client.delete("/v1/datasets/nested").status_code == 204
    us, file = Client(server.url), tmp_path / "other.json"
    file.write_text(data)
    with pytest.raises(DatasetError, match='give rows="data"'):
        us.add_dataset(file)
    assert us.add_dataset(file, rows="data").rows == 2
    script = tmp_path / "same.py"
    script.write_text("def evaluate(output):\n    return 1\n")
    assert us.evaluate(script, file, rows="data").summary.scored == 2


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


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        (
            "array.jsonl",
            json.dumps([{"output": 1}, {"output": 2}], indent=1).encode(),
            "is one JSON array, and is read so",
        ),
        ("packed.csv", gzip.compress(b"output\n1\n2\n", mtime=0), "packed.csv is compressed with gzip, and is read so"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_read_and_told(
    client: httpx.Client, name: str, data: bytes, note: str
) -> None:
    kept = client.post("/v1/datasets", params={"name": name}, content=data)
    assert kept.status_code == 201
    assert (kept.json()["rows"], kept.json()["columns"]) == (2, ["output"])
    assert note in " ".join(kept.json()["notes"])
    rows = client.get(f"/v1/datasets/{kept.json()['name']}/rows").json()["rows"]
    assert [str(row["row"]["output"]) for row in rows] == ["1", "2"]
    client.delete(f"/v1/datasets/{kept.json()['name']}").raise_for_status()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (
            "data.csv",
            "output\ncafé\n".encode("cp1252"),
            "data.csv is not UTF-8: in cp1252, line 2 has 'café'; save the file as UTF-8",
        ),
        ("data.csv", b'[{"output": 1}]', "data.csv is JSON, whatever its name says; name it so: mv data.csv data.json"),
        (
            "data.csv",
            b"PAR1\x15\x04",
            "data.csv is Parquet, whatever its name says; name it so: mv data.csv data.parquet",
        ),
        ("data.csv", b"version https://git-lfs.github.com/spec/v1\n", "run: git lfs pull --include data.csv"),
    ],
)
def test_a_file_that_is_refused_is_called_as_its_sender_does(
    client: httpx.Client, name: str, data: bytes, words: str
) -> None:
    refused = client.post("/v1/datasets", params={"name": name}, content=data)
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/dataset")
    assert refused.json()["detail"].endswith(words)


def test_a_run_whose_first_rows_fail_for_one_cause_is_stopped(client: httpx.Client) -> None:
    rows = "".join(json.dumps({"output": n}) + "\n" for n in range(400)).encode()
    name = client.post("/v1/datasets", params={"name": "fail.jsonl"}, content=rows).json()["name"]
    source = "def evaluate(output):\n    return 1 / 0\n"
    client.post("/v1/evaluators", json={"name": "broken", "source": source}).raise_for_status()
    ended = {}
    for allowed in (None, "100%"):
        body = {"evaluator": "broken", "dataset": name, **({"max_failed": allowed} if allowed else {})}
        ended[allowed] = finished(client, client.post("/v1/runs", json=body).json()["id"], "failed", "finished")
    stopped = ended[None]
    assert stopped["state"] == "failed"
    assert "failed for one cause" in str(stopped["error"])
    assert 51 <= stopped["summary"]["rows"] < 400  # type: ignore[index]
    assert ended["100%"]["summary"]["rows"] == 400  # type: ignore[index]
