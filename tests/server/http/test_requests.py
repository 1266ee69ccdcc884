"""What is wrong with a request, in the words of HTTP and JSON."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner.server.http.authentication import AuthMiddleware
from tests.server.http.live import live
from tests.server.http.test_http import problem

WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "/v1/evaluate",
        {"sandbox": {"allow_weak_isolation": 0}},
        "`body.sandbox.allow_weak_isolation` must be true or false",
    ),
    ("/v1/evaluate", {"sandbox": {"network": "no"}}, "`body.sandbox.network` must be true or false"),
    ("/v1/evaluate", {"sandbox": 5}, "`body.sandbox` must be text, not 5"),
    ("/v1/evaluate", {"sandbox": {"netwrk": True}}, "did you mean `network`?"),
    ("/v1/evaluate", {"limits": {"timeout": True}}, "`body.limits.timeout` must be a number, not true"),
    ("/v1/evaluate", {"count": True}, "`body.count` must be a whole number, not true"),
    ("/v1/runs", {"cache": 1}, "`body.cache` must be true or false, not 1"),
    ("/v1/runs", {"limit": True}, "`body.limit` must be a whole number"),
    ("/v1/runs", {"limit": 0}, "`body.limit` must be at least 1, not 0"),
    ("/v1/runs", {"mapping": {"output": "answer"}}, "known are `paths`, `literals`"),
    ("/v1/runs", {"dataset": None}, "`body.dataset` must be text, not null"),
]


@pytest.mark.parametrize(("address", "more", "words"), WRONG)
def test_what_is_wrong_is_told_in_words_of_json(
    client: httpx.Client, address: str, more: dict[str, Any], words: str
) -> None:
    usual = {"evaluator": "json-distance", "dataset": "demo"}
    told = problem(client.post(address, json={**usual, **more}), 422, "invalid-request")["detail"]
    assert words in told
    assert not re.search(r"Input should|pydantic|SandboxConfig", told)


def test_a_sandbox_is_named_as_everywhere(client: httpx.Client) -> None:
    body = {"source": "def evaluate(output):\n    return 1\n", "rows": [{"output": 1}]}
    assert client.post("/v1/evaluate", json={**body, "sandbox": "wasm"}).json()["results"][0]["result"]["score"] == 1
    run = {"evaluator": "json-distance", "dataset": "demo"}
    for address, asked in (("/v1/evaluate", body), ("/v1/runs", run)):
        told = problem(client.post(address, json={**asked, "sandbox": "e2b"}), 403, "not-allowed")
        assert "--sandbox e2b" in told["detail"]
        told = problem(client.post(address, json={**asked, "sandbox": "podman"}), 404, "not-found")
        assert "there are `wasm`, `process`" in told["detail"]
        told = problem(client.post(address, json={**asked, "sandbox": "proces"}), 404, "not-found")
        assert "did you mean `process`?" in told["detail"]


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    [
        ("PUT", "/v1/runs", "GET, POST"),
        ("PATCH", "/v1/runs/x", "DELETE, GET"),
        ("GET", "/v1/evaluate", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("DELETE", "/mcp", "POST"),
    ],
)
def test_a_method_that_is_none_is_told_with_those_that_are(
    client: httpx.Client, method: str, address: str, allowed: str
) -> None:
    reply = client.request(method, address)
    assert reply.headers["allow"] == allowed
    assert problem(reply, 405, "method-not-allowed")["detail"] == f"this address takes {allowed}, and no {method}"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("address", ["/v1/evaluate", "/v1/runs", "/v1/evaluators"])
def test_a_body_that_is_not_said_to_be_json_is_refused_with_what_to_send(
    client: httpx.Client, address: str, kind: str
) -> None:
    reply = client.post(address, content=b'{"a": 1}', headers={"content-type": kind} if kind else {})
    told = problem(reply, 415, "unsupported-media-type")["detail"]
    assert "send `Content-Type: application/json`" in told
    assert (kind or "without a type") in told


def test_a_body_that_is_missing_and_steps_that_are_addresses(client: httpx.Client) -> None:
    assert "`body` is missing" in problem(client.post("/v1/runs"), 422, "invalid-request")["detail"]
    assert "`GET /v1/runs` lists them" in problem(client.get("/v1/runs/none"), 404, "not-found")["detail"]


def test_only_who_has_the_token_is_told_versions(tmp_path: Path) -> None:
    with live(tmp_path, entry=AuthMiddleware("a-token-of-enough-letters")) as server:
        assert httpx.get(f"{server.url}/readyz").json() == {"ready": True}
        token = {"authorization": "Bearer a-token-of-enough-letters"}
        assert "wasmtime" in httpx.get(f"{server.url}/readyz", headers=token).json()["sandboxes"]["wasm"]
        assert httpx.get(f"{server.url}/readyz", headers={"authorization": "Bearer no"}).json() == {"ready": True}
