"""Rows with half characters, NUL, numbers beyond JSON and deep values: each reply is JSON, as anybody reads it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import httpx

from tests.server.http.live import finished


def _deep() -> list[Any]:
    found: list[Any] = [1]
    for _ in range(400):
        found = [found]
    return found


ROWS = [
    '{"output": "\\ud800", "reference": "a\\u0000b"}',
    '{"output": NaN, "reference": -Infinity}',
    '{"output": 123456789012345678901234567890, "reference": 1e400}',
    '{"output": 123456789012345678901234567890, "reference": 9007199254740993}',
    f'{{"output": {"9" * 5000}}}',
    '{"output": "ok", "\\udfff": "key"}',
    '{"id": "\\udc00x", "output": {"\\udbff": ["\\udbff"]}}',
    json.dumps({"output": _deep(), "row": {"row": _deep()}}),
]
SOURCE = (
    'def evaluate(output):\n    print("\\ud800\\0")\n    return {"label": "\\ud800\\0", "explanation": "\\udfff"}\n'
)


def _json(text: str) -> Any:
    """As any reader of JSON takes it."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(name)

    found = json.loads(text, parse_constant=refuse)
    json.dumps(found, ensure_ascii=False).encode()
    return found


def test_odd_values_are_shown(client: httpx.Client) -> None:
    added = client.post("/v1/datasets?name=odd-values.jsonl", content="\n".join(ROWS))
    assert added.status_code == 201, added.text
    assert "\ufffd" in _json(added.text)["columns"]
    rows = client.get("/v1/datasets/odd-values/rows?count=20")
    assert rows.status_code == 200, rows.text
    found = [one["row"] for one in _json(rows.text)["rows"]]
    assert found[0] == {"output": "\ufffd", "reference": "a\0b"}
    assert [n for n, row in enumerate(found) if row is None] == [1, 2, 4]
    assert found[3] == {"output": 123456789012345678901234567890, "reference": 9007199254740993}
    assert found[6] == {"id": "\ufffdx", "output": {"\ufffd": ["\ufffd"]}}
    assert found[7]["output"].startswith("(nested too deeply")
    for number in range(1, len(ROWS) + 1):
        page = client.get(f"/datasets/odd-values/rows/{number}", headers={"accept": "text/html"})
        assert page.status_code == 200, page.text


def test_results_of_odd_values_are_shown(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=odd-results.jsonl", content="\n".join(ROWS))
    client.post("/v1/evaluators", json={"name": "odd-values", "source": SOURCE})
    tried = client.post("/v1/evaluate", json={"evaluator": "odd-values", "dataset": "odd-results", "count": len(ROWS)})
    assert tried.status_code == 200, tried.text
    body = {"evaluator": "odd-values", "dataset": "odd-results", "keep": ["all"]}
    run = client.post("/v1/runs", json=body).json()["id"]
    finished(client, run)
    results = client.get(f"/v1/runs/{run}/results")
    assert results.status_code == 200, results.text
    every = _json(results.text)["rows"]
    assert [n for n, one in enumerate(every) if one["outcome"] == "failed"] == [1, 2, 4]
    assert (every[0]["label"], every[0]["explanation"]) == ("\ufffd\0", "\ufffd")
    assert every[7]["row"]["output"].startswith("(nested too deeply")
    for line in client.get(f"/v1/runs/{run}/download?format=jsonl").text.splitlines():
        _json(line)
    for path in (f"/runs/{run}", f"/runs/{run}/rows/1", f"/runs/{run}/rows/8", f"/compare?base={run}&new={run}"):
        page = client.get(path, headers={"accept": "text/html"})
        assert page.status_code == 200, page.text
