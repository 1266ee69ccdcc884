"""A server says what is wrong in the words of a request, tools in theirs, and what it keeps in plain ones."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from mcp import Client

from runner.server.mcp.server import make_server
from tests.server.http.live import Live, finished
from tests.server.mcp.agent import call

SLOW = "def evaluate(output):\n    while True: pass\n"


def test_a_result_that_is_asked_for_is_in_the_words_of_a_request(client: httpx.Client) -> None:
    """Though another process scored the row."""
    asked = {"source": SLOW, "rows": [{"output": "a"}], "limits": {"timeout": 0.2}}
    (found,) = client.post("/v1/evaluate", json=asked).json()["results"]
    assert "raise `limits.timeout`, or do less" in found["result"]["error"]["message"]


def test_a_problem_tells_of_which_setting_it_speaks(client: httpx.Client) -> None:
    nested = b'{"data": [{"output": "a"}], "more": 1}'
    problem = client.post("/v1/datasets", params={"name": "words.json", "rows": "dta"}, content=nested).json()
    assert (problem["setting"], '"rows": "dta"' in problem["detail"]) == ("rows", True)
    client.post("/v1/datasets", params={"name": "row.jsonl", "another": True}, content=b'{"output": "a"}\n')
    client.post("/v1/evaluators", json={"name": "never", "source": SLOW})
    problem = client.post("/v1/runs", json={"evaluator": "never", "dataset": "row", "require": ["mean"]}).json()
    assert (problem["setting"], "the requirement 'mean' is not" in problem["detail"]) == ("require", True), problem


def test_a_run_keeps_results_in_plain_words(client: httpx.Client) -> None:
    client.post("/v1/datasets", params={"name": "one.jsonl", "another": True}, content=b'{"output": "a"}\n')
    client.post("/v1/evaluators", json={"name": "endless", "source": SLOW})
    asked = {"evaluator": "endless", "dataset": "one", "limits": {"timeout": 0.2}}
    id = client.post("/v1/runs", json=asked).json()["id"]
    finished(client, id)
    assert "raise the timeout, or do less" in client.get(f"/v1/runs/{id}/download").text


def test_a_tool_says_its_own_words(server: Live) -> None:
    async def tried() -> dict[str, Any]:
        async with Client(make_server(lambda: server.service)) as client:
            return await call(client, "try", source=SLOW, rows=[{"output": "a"}], timeout=0.2)

    found = asyncio.run_coroutine_threadsafe(tried(), server.loop).result(60)
    assert "raise `timeout`, or do less" in str(found["results"][0]["error"])
