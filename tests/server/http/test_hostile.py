"""Requests of an enemy: each gets its 4xx, changes nothing, and the server goes on."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner.server.http import middleware
from runner.server.http.authentication import LOCAL, AuthMiddleware
from runner.server.http.connection import HttpProtocol
from runner.server.service.settings import ServiceSettings
from tests.sandboxes.hostile.scripts import ATTACK, CLEAN, DISTANCE, SHELL, Hostile, scripts
from tests.server.http.live import Live, finished, live
from tests.server.http.served import PATIENCE

pytestmark = pytest.mark.rotating("hostile requests", "server")

TOKEN = "a-token-that-nobody-guesses"
SAME = "def evaluate(output, reference):\n    return output == reference\n"


def raw(server: Live, data: bytes, wait: float = PATIENCE) -> bytes:
    """What the server says to these bytes, until it hangs up."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=wait) as made:
        made.sendall(data)
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := made.recv(65536):
                found += part
    return found


def kept(client: httpx.Client) -> list[Any]:
    """All that the server keeps."""
    names = ("evaluators", "datasets", "configs", "runs")
    return [client.get(f"/v1/{name}", params={"count": 500}).json()["items"] for name in names]


@pytest.fixture
def unchanged(client: httpx.Client) -> Iterator[None]:
    before = kept(client)
    yield
    assert kept(client) == before
    assert client.get("/healthz").status_code == 200


def refused(reply: httpx.Response, *statuses: int) -> None:
    assert reply.status_code in statuses, (reply.status_code, reply.text[:300])
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["content-security-policy"].startswith("default-src 'self'; script-src 'self'; ")
    found = reply.json()
    assert found["type"].startswith("/problems/")
    assert found["detail"]
    assert "Traceback" not in reply.text


BODIES = {
    "no JSON": b"nonsense",
    "half": b'{"source": "x',
    "NaN": b'{"source": "x", "seed": NaN}',
    "infinity": b'{"source": "x", "limits": {"timeout": Infinity}}',
    "a number that is too large": b'{"source": "x", "limits": {"timeout": 1e999}}',
    "digits": b'{"source": "x", "seed": ' + b"9" * 5000 + b"}",
    "deep": b'{"source": "x", "rows": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a": ' * 50_000 + b"1" + b"}" * 50_000,
    "UTF-16": '{"source": "x"}'.encode("utf-16"),
    "Latin-1": b'{"source": "caf\xe9"}',
    "half a surrogate": b'{"source": "\\ud800", "rows": []}',
    "a null byte": b'{"source": "x\\u0000y", "rows": []}',
    "null": b"null",
    "a list": b"[]",
    "text": b'"x"',
    "nothing": b"",
    "wrong types": b'{"source": 1, "rows": {"a": 1}, "count": "many", "sandbox": 7}',
    "unknown keys": b'{"source": "x", "rows": [], "shell": "rm"}',
    "many rows": b'{"source": "x", "rows": [' + b"{}," * 1000 + b"{}]}",
    "both": b'{"source": "x", "evaluator": "y", "rows": []}',
    "neither": b"{}",
    "a large script": b'{"rows": [], "source": "' + b"#" * 300_000 + b'"}',
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", ["/v1/evaluate", "/v1/evaluators", "/v1/runs"])
@pytest.mark.usefixtures("unchanged")
def test_a_body_that_cannot_be_used(client: httpx.Client, path: str, name: str) -> None:
    reply = client.post(path, content=BODIES[name], headers={"content-type": "application/json"})
    refused(reply, 400, 413, 422)


@pytest.mark.usefixtures("unchanged")
def test_a_body_of_another_type(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "a/b/c"):
        reply = client.post("/v1/evaluators", content=b'{"source": "x"}', headers={"content-type": kind})
        refused(reply, 400, 415, 422)


NAMES = (
    *("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e", "a%00b", "%ff%fe", "a/../../b", "a b", "A", "é"),
    *("x" * 2000, "%0d%0aset-cookie:%20a=b", "-", ".", "@", "a@", "a@b@c", "a@99999999999999999999", "con", "~"),
    *("folder~x", "folder~../../etc", "$(id)", "'; drop table runs; --", "{{7*7}}", "\u202e"),
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("unchanged")
def test_a_name_that_is_none(client: httpx.Client, name: str) -> None:
    below = ("evaluators/{}", "evaluators/{}/versions", "datasets/{}/rows", "configs/{}", "runs/{}/results")
    for path in (*below, "runs/{}/download", "runs/{}/events"):
        reply = client.get(f"/v1/{path.format(name)}")
        if reply.status_code not in (200, 307):  # a name of dots becomes the list above it, on the way here
            refused(reply, 400, 404, 405, 409, 422)
        assert "root:" not in reply.text
    for kind in ("evaluators", "datasets", "configs", "runs"):
        reply = client.delete(f"/v1/{kind}/{name}")
        refused(reply, 400, 404, 405, 409, 422)


@pytest.mark.parametrize(
    "query",
    [
        "count=0",
        "count=-1",
        "count=501",
        "count=x",
        "count=1e3",
        "count=9" + "9" * 400,
        "after=" + "x" * 4000,
        "after=%00",
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_a_page_that_is_none(client: httpx.Client, query: str) -> None:
    for kind in ("evaluators", "datasets", "configs", "runs"):
        reply = client.get(f"/v1/{kind}?{query}")
        refused(reply, 400, 422)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "", "[::1", "a,localhost"]
)
@pytest.mark.usefixtures("unchanged")
def test_another_host_is_refused(server: Live, host: str) -> None:
    said = raw(server, f"GET /v1/runs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert said.split(b" ", 2)[1] in (b"421", b"400"), said
    said = raw(server, b"GET /v1/runs HTTP/1.0\r\n\r\n")
    assert said.split(b" ", 2)[1] == b"421"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example", "content-type": "text/plain"},
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_a_form_of_another_site_is_refused(client: httpx.Client, headers: dict[str, str]) -> None:
    for method, path in (
        *(("POST", "/v1/evaluate"), ("POST", "/v1/evaluators"), ("POST", "/v1/datasets?name=a.jsonl")),
        *(("POST", "/v1/runs"), ("DELETE", "/v1/evaluators/json-distance"), ("PUT", "/v1/configs/a")),
        *(("POST", "/login"), ("POST", "/logout"), ("POST", "/mcp")),
    ):
        refused(client.request(method, path, content=b'{"output": 1}', headers=headers), 403)


REQUESTS = {
    "nonsense": b"nonsense\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 9_000 + b"\r\n",
    "a long address": b"GET /" + b"x" * 60_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two lengths": b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
    "length and chunks": b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
    "a length that is none": b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "chunks that are none": b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a header in two lines": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b: c\r\nbad header\r\n\r\n",
    "a null byte": b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "two hosts": b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    "a tunnel": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "a proxy": b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    "a large body": b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.usefixtures("unchanged")
def test_a_request_that_is_no_http(server: Live, name: str) -> None:
    said = raw(server, REQUESTS[name])
    assert said.split(b" ", 2)[1][:1] == b"4", said[:300]
    assert b"200 OK" not in said


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server that waits for nobody, and lets little in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HttpProtocol, "seconds", 0.5)
        patch.setattr(HttpProtocol, "stuck_seconds", 0.5)
        patch.setattr(middleware, "PATIENCE", 0.5)
        entry = AuthMiddleware(TOKEN, LOCAL)
        bounds = ServiceSettings(dataset_bytes=1000, body_bytes=2000, script_bytes=500)
        with live(tmp_path_factory.mktemp("slow"), bounds, entry) as found:
            yield found


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /v1/runs HTT",
        b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\nContent-Length: 100\r\n\r\n{",
        b"POST /v1/datasets?name=a.jsonl HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %b\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
)
def test_a_client_that_says_no_more_is_left(slow: Live, begun: bytes) -> None:
    said = raw(slow, begun.replace(b"%b", TOKEN.encode()))  # it ends, as the server hangs up
    assert said == b"" or said.split(b" ", 2)[1] == b"408", said


def test_who_waits_before_the_next_request_is_not_hung_up_on(slow: Live) -> None:
    host, _, port = slow.url.removeprefix("http://").partition(":")
    with contextlib.closing(HTTPConnection(host, int(port), timeout=PATIENCE)) as made:
        for wait in (0.0, 4 * HttpProtocol.seconds, 4 * HttpProtocol.seconds):
            time.sleep(wait)
            made.request("GET", "/healthz")
            assert made.getresponse().read() == b'{"status":"ok"}'
        made.sock.sendall(b"GET /healthz HTT")  # a part of the headers is waited for no longer
        with contextlib.suppress(ConnectionError):
            assert made.sock.recv(65536) == b""


def test_what_is_too_large_is_refused_while_it_comes(slow: Live) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b'{"output": "a"}\n' * 10

    headers = {"authorization": f"Bearer {TOKEN}"}
    with slow.client(headers=headers) as client:
        for content in (parts(), b'{"output": "a"}\n' * 100):
            reply = client.post("/v1/datasets", params={"name": "large.jsonl"}, content=content)
            refused(reply, 413)
        refused(client.post("/v1/check", json={"source": "#" * 3000}), 413)
        refused(client.post("/v1/check", json={"source": "#" * 600}), 413)
        assert client.get("/v1/datasets/large").status_code == 404
        folder = slow.service.incoming
        assert folder is not None
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer nonsense"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer " + "é" * 100},
        {"cookie": "evalcell=nonsense"},
        {"cookie": f"evalcell={TOKEN}"},
        {"cookie": "evalcell=99999999999.00"},
    ],
)
def test_without_the_token_nobody_enters(slow: Live, headers: dict[str, str]) -> None:
    with slow.client() as client:
        sent = httpx.Headers([(name.encode(), value.encode()) for name, value in headers.items()])
        for path in ("/v1/runs", "/v1/evaluators/json-distance", "/metrics", "/openapi.json", "/", "/runs", "/mcp"):
            reply = client.get(path, headers=sent)
            refused(reply, 401)
            assert reply.headers["www-authenticate"].startswith("Bearer")
        refused(client.post("/v1/evaluate", json={"source": SAME, "rows": []}, headers=sent), 401, 403)
        assert client.get("/healthz", headers=sent).status_code == 200
        looking = client.get("/runs?a=b", headers=httpx.Headers([*sent.raw, (b"accept", b"text/html")]))
        assert (looking.status_code, looking.headers["location"]) == (303, "/login?next=%2Fruns%3Fa%3Db")


def test_the_token_becomes_a_cookie(slow: Live) -> None:
    with slow.client() as client:
        refused(client.post("/login", data={"token": "nonsense"}), 401)
        for wanted, there in (
            ("/runs", "/runs"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil", "/"),
        ):
            # As a browser does from the form.
            reply = client.post("/login", data={"token": TOKEN, "next": wanted}, headers={"origin": slow.url})
            assert (reply.status_code, reply.headers["location"]) == (303, there)
            assert "HttpOnly" in reply.headers["set-cookie"]
            assert "SameSite=Strict" in reply.headers["set-cookie"]
        assert client.get("/v1/runs").status_code == 200
        refused(client.post("/v1/check", json={"source": SAME}), 403)  # no browser's page said so
        assert client.post("/v1/check", json={"source": SAME}, headers={"x-evalcell": "1"}).status_code == 200
        assert client.post("/v1/check", json={"source": SAME}, headers={"origin": slow.url}).status_code == 200


def test_a_script_that_floods_its_results_costs_the_watchers_nothing(client: httpx.Client) -> None:
    source = (
        "def evaluate(output):\n    print('x' * 60_000)\n    return {'label': 'y' * 1000, 'explanation': 'z' * 50_000}"
    )
    rows = b'{"output": 1}\n' * 300
    client.post("/v1/evaluators", json={"name": "flood", "source": source})
    client.post("/v1/datasets", params={"name": "flood.jsonl"}, content=rows)
    id = client.post("/v1/runs", json={"evaluator": "flood", "dataset": "flood"}).json()["id"]
    said = ""
    with client.stream("GET", f"/v1/runs/{id}/events") as reply:
        for text in reply.iter_text():
            said += text
    assert len(said) < 100_000
    assert finished(client, id)["rows"] == 300
    for path in (f"runs/{id}", "evaluators/flood", "datasets/flood"):
        assert client.delete(f"/v1/{path}").status_code == 204


def test_a_client_that_goes_away_stops_its_script(server: Live, client: httpx.Client) -> None:
    source = "import time\ndef evaluate(output):\n    time.sleep(0.05)\n    while True: pass\n"
    body = {"source": source, "rows": [{"output": 1}], "limits": {"timeout": 300}}
    with server.client() as going, pytest.raises(httpx.ReadTimeout):
        going.post("/v1/evaluate", json=body, timeout=3)
    until = time.monotonic() + PATIENCE
    while server.service.status().running and time.monotonic() < until:
        time.sleep(0.05)
    assert server.service.status().running == 0
    again = {"source": SAME, "rows": [{"output": 1, "reference": 1}]}
    assert client.post("/v1/evaluate", json=again).json()["results"][0]["result"]["label"] == "True"


@pytest.mark.rotating("hostile scripts through HTTP", "server")
@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.id)
@pytest.mark.timeout(300)
def test_a_hostile_script_comes_back_as_its_own_failure(client: httpx.Client, script: Hostile) -> None:
    body = {
        "source": script.source if script.attacks_at_load else SHELL,
        "rows": [dict(zip(("output", "reference"), pair, strict=True)) for pair in ((ATTACK, script.source), CLEAN)],
        "limits": {"timeout": 2, "load_timeout": 5},
        "sandbox": {"backend": "wasm"},
    }
    reply = client.post("/v1/evaluate", json=body, timeout=200)
    assert reply.status_code in (200, 422), reply.text[:300]
    if reply.status_code == 200:
        attacked, clean = (row["result"] for row in reply.json()["results"])
        assert attacked["outcome"] != "lost"
        if not script.attacks_at_load:
            assert (clean["label"], clean["score"]) == ("clean", DISTANCE)
    again = {"source": SAME, "rows": [{"output": 1, "reference": 1}]}
    after = client.post("/v1/evaluate", json=again)
    assert after.json()["results"][0]["result"]["label"] == "True", after.text[:300]


def test_where_uploads_wait_nothing_is_left(server: Live, client: httpx.Client) -> None:
    folder = server.service.incoming
    assert isinstance(folder, Path)
    client.post("/v1/datasets", params={"name": "x.jsonl"}, content=b"nonsense")
    assert list(folder.iterdir()) == []
    assert json.loads(client.get("/healthz").text) == {"status": "ok"}
