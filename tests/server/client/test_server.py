"""What both clients do with a server that is busy, breaks off, says too much, or is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from runner.core import errors
from runner.core.errors import InputError, ServerError
from runner.server.client.connection import ServerConnection
from runner.server.client.requests import Ask, Reply
from runner.server.client.server import Blocking, Server, now
from sandboxes.errors import SandboxLostError, SandboxUnavailableError, UnsupportedConfigError
from tests.server.client.told import Told, told

Operation = Callable[[Server], Coroutine[Any, Any, Any]]
Do = Callable[[ServerConnection, Operation], Any]
BUSY = Told(429, {"type": "/problems/busy", "detail": "full; try again", "retryable": True}, {"retry-after": "0"})
GOOD = Told(200, {"good": True})


def _blocking(connection: ServerConnection, operation: Operation) -> Any:
    server = Blocking(connection)
    try:
        return now(operation(server))
    finally:
        now(server.close())


def _awaited(connection: ServerConnection, operation: Operation) -> Any:
    async def work() -> Any:
        server = Server(connection)
        try:
            return await operation(server)
        finally:
            await server.close()

    return asyncio.run(work())


def asked(ask: Ask) -> Operation:
    return lambda server: server.ask(ask)


@pytest.fixture(params=[_blocking, _awaited], ids=["blocking", "awaited"])
def do(request: pytest.FixtureRequest) -> Do:
    found: Do = request.param
    return found


def test_what_is_busy_is_asked_again_with_the_same_key(do: Do) -> None:
    with told(BUSY, Told(503, b"a gateway", {"retry-after": "0"}), GOOD) as server:
        ask = Ask("POST", "/v1/runs", body={"a": "é"}, headers={"idempotency-key": "k"})
        reply: Reply = do(ServerConnection(server.url), asked(ask))
    assert (reply.status, reply.body) == (200, b'{"good": true}')
    assert [one.headers["idempotency-key"] for one in server.sent] == ["k"] * 3
    assert {one.body for one in server.sent} == {'{"a":"é"}'.encode()}


def test_who_is_busy_for_longer_than_the_caller_waits_is_an_error_at_once(do: Do) -> None:
    busy = Told(429, {"type": "/problems/busy", "detail": "full"}, {"retry-after": "3600"})
    with told(busy) as server, pytest.raises(ServerError, match="full") as raised:
        do(ServerConnection(server.url, patience=5), asked(Ask("GET", "/")))
    assert (raised.value.status, raised.value.type, raised.value.after) == (429, "busy", 3600)
    assert raised.value.retryable
    assert len(server.sent) == 1


def test_a_reply_that_broke_off_is_asked_for_again(do: Do) -> None:
    with told(Told(200, {"good": True}, cut=True), GOOD) as server:
        assert do(ServerConnection(server.url), asked(Ask("GET", "/"))).body == b'{"good": true}'
    assert len(server.sent) == 2


def test_a_server_that_is_not_there_is_not_waited_for(do: Do) -> None:
    with told(GOOD) as server:
        pass
    with pytest.raises(ServerError, match="evalcell serve"):
        do(ServerConnection(server.url, patience=600), asked(Ask("GET", "/")))


@pytest.mark.parametrize(
    ("slug", "kind"),
    [
        ("evaluator", errors.EvaluatorError),
        ("dataset", errors.DatasetError),
        ("mapping", errors.MappingError),
        ("not-comparable", errors.NotComparableError),
        ("unsupported-config", UnsupportedConfigError),
        ("sandbox-unavailable", SandboxUnavailableError),
        ("sandbox-lost", SandboxLostError),
        ("input", InputError),
        ("what is this", ServerError),
    ],
)
def test_a_problem_is_the_exception_of_this_machine(slug: str, kind: type[Exception]) -> None:
    body = {"type": f"/problems/{slug}", "detail": "line 3: no\x1b[31m", "title": "t"}
    with told(Told(422, body)) as server, pytest.raises(kind, match=r"line 3: no\\x1b\[31m") as raised:
        _blocking(ServerConnection(server.url), asked(Ask("GET", "/")))
    assert type(raised.value) is kind


def test_columns_that_lack_are_named_with_the_likely_mapping(do: Do) -> None:
    body = {"type": "/problems/columns", "detail": "no output", "paths": {"output": "answer"}, "values": ["words"]}
    with told(Told(422, body)) as server, pytest.raises(errors.ColumnsError) as raised:
        do(ServerConnection(server.url), asked(Ask("GET", "/")))
    assert (raised.value.why, raised.value.paths, raised.value.values) == (
        "no output",
        {"output": "answer"},
        ("words",),
    )


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Told(200, b" " * 2000), "larger than"),
        (Told(200, b"\x1f\x8b", {"content-encoding": "gzip"}), "compressed"),
        (Told(302, b"", {"location": "http://127.0.0.1:1/"}), "sends us to http://127.0.0.1:1/; give"),
        (Told(401, b"<html>no</html>"), "EVALCELL_TOKEN"),
        (Told(401, b"no", {"www-authenticate": 'Basic realm="x"'}), "password of its own"),
        (Told(403, b"<html>no</html>"), "its own rules"),
        (Told(404, b"[" * 100_000), "BaseHTTP answered 404 Not Found, and not evalcell"),
        (Told(405, b""), "method"),
        (Told(407, b""), "HTTP_PROXY"),
        (Told(413, b""), "client_max_body_size"),
        (Told(418, b""), "is this the address of evalcell"),
        (Told(431, b""), "is the token right"),
        (Told(500, b"x" * 1_000_000), "its log"),
        (Told(522, b"", {"retry-after": "9"}), "answered 522, and not evalcell: it does not reach evalcell"),
        (Told(400, {"type": 3, "detail": ["x"], "title": None, "retryable": "yes"}), "could not read the request"),
        (Told(200, b"<html>log in</html>", {"content-type": "text/html; charset=utf-8"}), "a page for people"),
    ],
)
def test_a_reply_that_is_none_of_ours_is_told_in_a_line(do: Do, reply: Told, words: str) -> None:
    with told(reply) as server, pytest.raises(ServerError, match=words) as raised:
        do(ServerConnection(server.url), asked(Ask("GET", "/", most=1000)))
    assert "\n" not in str(raised.value)
    assert len(server.sent) == 1


def _closed() -> int:
    """A port at which nobody listens."""
    with told(GOOD) as server:
        return int(server.url.rpartition(":")[2])


def test_a_proxy_of_the_environment_is_named_by_its_variable(do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    there = "http://evalcell.example.com"
    monkeypatch.setenv("HTTP_PROXY", f"http://user:secret@127.0.0.1:{_closed()}")
    with pytest.raises(ServerError, match=r"HTTP_PROXY names \(Connection refused\)") as raised:
        do(ServerConnection(there), asked(Ask("GET", "/")))
    assert "evalcell.example.com into NO_PROXY" in str(raised.value)
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("HTTP_PROXY", "telnet://user:secret@127.0.0.1:1")
    with pytest.raises(InputError, match="HTTP_PROXY names is none of http") as refused:
        do(ServerConnection(there), asked(Ask("GET", "/")))
    assert "secret" not in str(refused.value)
    with told(Told(407, b"")) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        with pytest.raises(ServerError, match="wants a login"):
            do(ServerConnection(there), asked(Ask("GET", "/")))
        assert server.sent[0].path == f"{there}/"


def test_a_name_that_nobody_has_and_words_of_tls(do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match="check the address and the network"):
        do(ServerConnection("http://nowhere.invalid"), asked(Ask("GET", "/")))
    with (
        told(GOOD) as server,
        pytest.raises(ServerError, match="speaks no TLS that we do"),
    ):
        do(ServerConnection(server.url.replace("http:", "https:")), asked(Ask("GET", "/")))
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(InputError, match="SSL_CERT_FILE"):
        do(ServerConnection("https://evalcell.example.com"), asked(Ask("GET", "/")))


def test_a_file_is_sent_as_it_is(do: Do, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"output": 1}\n' * 50_000)
    with told(BUSY, GOOD) as server:
        do(
            ServerConnection(server.url),
            asked(Ask("POST", "/v1/datasets", {"name": "a b&c.jsonl", "no": None}, file=file)),
        )
    assert [one.body == file.read_bytes() for one in server.sent] == [True, True]
    assert server.sent[0].path == "/v1/datasets?name=a+b%26c.jsonl"


def test_a_path_is_one_path_whatever_is_in_a_name(do: Do) -> None:
    with told(GOOD) as server:
        do(ServerConnection(server.url), asked(Ask("GET", "/v1/runs/a?b#c é")))
    assert server.sent[0].path == "/v1/runs/a%3Fb%23c%20%C3%A9"


def test_a_stream_is_read_as_it_comes_and_work_is_done(do: Do) -> None:
    async def operation(server: Server) -> bytes:
        async with server.listen("/events", {"last-event-id": "7"}) as (_, more):
            whole = b""
            while piece := await more():
                whole += piece
        return await server.call(lambda: whole.upper())

    with told(Told(200, b"data: a\n\n")) as server:
        assert do(ServerConnection(server.url), operation) == b"DATA: A\n\n"
    assert server.sent[0].headers["last-event-id"] == "7"


def test_the_token_goes_with_each_request_and_nowhere_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_TOKEN", "secret")
    with told(GOOD) as server:
        monkeypatch.setenv("EVALCELL_URL", server.url)
        _blocking(ServerConnection(), asked(Ask("GET", "/")))
        assert server.sent[0].headers["authorization"] == "Bearer secret"
    with pytest.raises(InputError, match="without encryption"):
        ServerConnection("http://example.org")
    ServerConnection("http://example.org", allow_http=True)
    ServerConnection("https://example.org")


@pytest.mark.parametrize("url", ["", "ftp://a", "127.0.0.1:8000", "http://", "http://u:p@h", "http://h?q", "http://[x"])
def test_an_address_that_is_none_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_URL", "nothing")
    with pytest.raises(InputError, match="`url` must be"):
        ServerConnection(url)
