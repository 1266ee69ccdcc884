"""What the addresses below /v1 do, over a real server with real workers."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner.core.errors import DatasetError
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store import open_store
from runner.server.service.rows import looked_at
from tests.server.http.live import Live, finished

SAME = "def evaluate(output, reference):\n    return output == reference\n"
ROWS = b'{"output": "a", "reference": "a"}\n{"output": "b", "reference": "c"}\n'


def problem(reply: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = reply.json()
    assert (reply.status_code, found["type"]) == (status, f"/problems/{kind}"), reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert found["detail"]
    assert isinstance(found["retryable"], bool)
    return found


def test_the_first_start_holds_an_example(client: httpx.Client) -> None:
    assert "json-distance" in [one["name"] for one in client.get("/v1/evaluators").json()["items"]]
    reply = client.post("/v1/evaluate", json={"evaluator": "json-distance", "dataset": "demo", "count": 2})
    rows = reply.json()["results"]
    assert [row["result"]["outcome"] for row in rows] == ["scored", "scored"]
    assert rows[0]["arguments"].keys() >= {"output", "reference"}


def test_a_dry_run_of_a_source_on_rows(client: httpx.Client) -> None:
    rows = [{"output": "a", "reference": "a"}, {"output": "a", "reference": "b"}]
    reply = client.post("/v1/evaluate", json={"source": SAME, "rows": rows}).json()
    assert [row["result"]["label"] for row in reply["results"]] == ["True", "False"]


def test_a_dry_run_is_the_same_whatever_way_it_takes(client: httpx.Client) -> None:
    """What is plain JSON, and needs no conversion, is not taken through FastAPI."""
    body = b'{"source": %s, "rows": [{"output": "\xc3\xa9", "reference": "a"}]}' % json.dumps(SAME).encode()
    replies = [
        client.post("/v1/evaluate", content=body, headers={"content-type": kind})
        for kind in ("application/json", "application/json; charset=utf-8")
    ]
    first, second = (reply.json()["results"] for reply in replies)
    for row in (*first, *second):
        del row["result"]["duration_ms"]
    assert first == second
    assert first[0]["arguments"] == {"output": "é", "reference": "a"}
    assert len({reply.headers["content-type"] for reply in replies}) == 1
    wrong = problem(client.post("/v1/evaluate", json={"source": SAME, "rows": 1}), 422, "invalid-request")
    assert wrong["errors"] == [{"where": "body.rows", "what": "must be a list, not 1"}]


@pytest.mark.parametrize("path", ["/v1/evaluators", "/v1/evaluators/json-distance", "/v1/nothing", "/v1/runs"])
def test_what_answers_get_answers_head(client: httpx.Client, path: str) -> None:
    head, whole = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert client.head("/v1/evaluate").status_code == 405
    assert client.head("/v1/evaluators/events").status_code == 404
    assert client.head("/v1/runs/nothing/events").status_code == 405  # a reply that has no end


def test_a_script_with_a_fault_has_its_place(client: httpx.Client) -> None:
    found = client.post("/v1/check", json={"source": "def evaluate(output):\n    return 1 +\n"}).json()
    assert [(one["line"], one["column"]) for one in found["problems"]] == [(2, 15)]
    found = client.post("/v1/check", json={"source": SAME, "file_name": "Same It.py"}).json()
    assert (found["name"], found["problems"]) == ("same-it", [])
    problem(client.post("/v1/evaluate", json={"source": "x = 1", "rows": []}), 422, "evaluator")


def test_an_evaluator_has_versions_and_its_edits_meet(client: httpx.Client) -> None:
    made = client.post("/v1/evaluators", json={"name": "edited", "source": SAME})
    assert (made.status_code, made.headers["location"]) == (201, "/v1/evaluators/edited")
    first = made.headers["etag"]
    change = {"source": SAME + "# two\n"}
    problem(client.put("/v1/evaluators/edited", json=change), 428, "precondition-required")
    second = client.put("/v1/evaluators/edited", json=change, headers={"if-match": first})
    assert (second.status_code, second.json()["number"]) == (200, 2)
    found = problem(
        client.put("/v1/evaluators/edited", json={"source": SAME + "# three\n"}, headers={"if-match": first}),
        409,
        "version-conflict",
    )
    assert found["theirs"] == second.json()["version"]
    versions = client.get("/v1/evaluators/edited/versions", params={"count": 1}).json()
    assert [one["number"] for one in versions["items"]] == [2]
    older = client.get("/v1/evaluators/edited/versions", params={"after": versions["next"]}).json()
    assert [one["number"] for one in older["items"]] == [1]
    assert client.get("/v1/evaluators/edited/versions/1").headers["etag"] == first
    assert client.delete("/v1/evaluators/edited").status_code == 204
    problem(client.get("/v1/evaluators/edited"), 404, "not-found")


def test_what_another_process_saves_or_deletes_counts_at_once(client: httpx.Client, server: Live) -> None:
    def scored() -> object:
        reply = client.post("/v1/evaluate", json={"evaluator": "shared", "rows": [{"output": "a"}]})
        return reply.json()["results"][0]["result"]["score"] if reply.is_success else reply.status_code

    url, folder = server.service.store.name, server.service.incoming
    assert folder is not None
    with open_store(url, folder.parent) as other:
        for score in (0.25, 0.5):
            source = f"def evaluate(output):\n    return {score}\n"
            other.add_evaluator(parse_evaluator(source, "shared"), name="shared")
            assert [scored(), scored()] == [score, score]
        other.delete_evaluator("shared")
    assert scored() == 404


def test_a_request_that_is_sent_again_gets_its_reply_again(client: httpx.Client) -> None:
    key = {"idempotency-key": "once"}
    spec = {"evaluator": "json-distance", "dataset": "demo", "limit": 2}
    one, other = (client.post("/v1/runs", json=spec, headers=key) for _ in range(2))
    assert one.status_code == other.status_code == 202
    assert one.json()["id"] == other.json()["id"]
    assert other.headers["location"] == f"/v1/runs/{one.json()['id']}"
    problem(client.post("/v1/runs", json=spec | {"limit": 3}, headers=key), 422, "idempotency")
    finished(client, one.json()["id"])


def test_rows_are_counted_for_so_long_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"output": 1}\n' * 300))
    assert looked_at(path) == (300, ("output",), ())
    assert looked_at(path, seconds=0) == (None, ("output",), ())
    path.write_bytes(gzip.compress(b"{\n" * 300))
    for seconds, words in ((60.0, "^no row can be used: "), (0.0, "^no row among the first 1 can be used: ")):
        with pytest.raises(DatasetError, match=words):
            looked_at(path, seconds)


def test_a_dataset_is_looked_at_before_it_is_accepted(client: httpx.Client) -> None:
    made = client.post("/v1/datasets", params={"name": "../My Rows.jsonl"}, content=ROWS)
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["rows"]) == ("my-rows", 2)
    assert client.get("/v1/datasets/my-rows/rows", params={"first": 2}).json()["rows"] == [
        {"number": 2, "row": {"output": "b", "reference": "c"}, "error": None}
    ]
    problem(
        client.post("/v1/datasets", params={"name": "my-rows.jsonl"}, content=b'{"output": 1}\n'), 409, "name-taken"
    )
    problem(client.post("/v1/datasets", params={"name": "empty.jsonl"}, content=b""), 422, "dataset")
    problem(client.post("/v1/datasets", params={"name": "broken.jsonl"}, content=b"nonsense\n"), 422, "dataset")
    problem(client.post("/v1/datasets", params={"name": "rows.exe"}, content=b"MZ"), 422, "input")
    likely = client.get("/v1/datasets/my-rows/suggestion").json()
    assert likely["command"].startswith(f"evalcell run {likely['evaluator']} store:my-rows"), likely
    assert client.get("/v1/datasets/nothing/suggestion").status_code == 404
    assert client.delete("/v1/datasets/my-rows").status_code == 204


def test_a_run_from_its_beginning_to_its_results(client: httpx.Client) -> None:
    client.post("/v1/datasets", params={"name": "two.jsonl"}, content=ROWS)
    client.post("/v1/evaluators", json={"name": "same", "source": SAME})
    begun = client.post("/v1/runs", json={"evaluator": "same", "dataset": "two", "title": "A first one"})
    assert begun.status_code == 202
    id = begun.json()["id"]
    run = finished(client, id)
    assert (run["rows"], run["counts"], run["evaluator"], run["number"]) == (2, {"scored": 2}, "same", 1)
    worst = client.get(f"/v1/runs/{id}/results", params={"label": "False", "count": 1}).json()
    assert (worst["total"], worst["rows"][0]["number"]) == (1, 2)
    assert worst["rows"][0]["row"] == {"output": "b", "reference": "c"}
    lines = client.get(f"/v1/runs/{id}/download").text.splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["True", "False"]
    table = list(csv.DictReader(io.StringIO(client.get(f"/v1/runs/{id}/download?format=csv").text)))
    assert [(row["label"], row["output"]) for row in table] == [("True", "a"), ("False", "b")]
    other = client.post("/v1/runs", json={"evaluator": "same@1", "dataset": "two"}).json()["id"]
    finished(client, other)
    verdict = client.get("/v1/compare", params={"base": id, "new": other}).json()
    assert (verdict["pairs"], verdict["wins"], verdict["losses"]) == (2, 0, 0)
    assert problem(client.delete("/v1/evaluators/same"), 409, "in-use")["runs"] == [other, id]
    problem(client.post(f"/v1/runs/{id}/cancel"), 409, "run-state")
    for one in (id, other):
        assert client.delete(f"/v1/runs/{one}").status_code == 204


@pytest.mark.parametrize(
    ("more", "total"), [({}, 50), ({"limit": 7}, 7), ({"limit": 80}, 50), ({"limit": 7, "repeat": 3}, 21)]
)
def test_a_run_of_a_csv_file_knows_how_many_results_are_to_come(
    client: httpx.Client, more: dict[str, int], total: int
) -> None:
    rows = "output,reference\n" + "a,b\n" * 50
    kept = client.post("/v1/datasets", params={"name": "known.csv", "another": True}, content=rows).json()
    client.post("/v1/evaluators", json={"name": "known", "source": SAME})
    run = client.post("/v1/runs", json={"evaluator": "known", "dataset": kept["name"], **more}).json()
    assert run["total"] == total
    with client.stream("GET", f"/v1/runs/{run['id']}/events") as reply:
        told = [json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: ")]
    assert {one["total"] for one in told if "rows" in one} == {total}
    assert finished(client, run["id"])["total"] == total


@pytest.mark.parametrize(
    ("spec", "status", "kind"),
    [
        ({"evaluator": "nobody", "dataset": "demo"}, 404, "not-found"),
        ({"evaluator": "json-distance", "dataset": "nothing"}, 404, "not-found"),
        ({"evaluator": "json-distance", "dataset": "demo", "gates": ["nonsense"]}, 422, "input"),
        ({"evaluator": "json-distance", "dataset": "demo", "mapping": {"paths": {"output": "gone"}}}, 422, "columns"),
        ({"evaluator": "json-distance", "dataset": "demo", "sandbox": "no-preset"}, 404, "not-found"),
        ({"evaluator": "json-distance", "dataset": "demo", "sandbox": {"backend": "e2b"}}, 403, "not-allowed"),
        ({"evaluator": "json-distance", "dataset": "demo", "sandbox": {"network": True}}, 403, "not-allowed"),
        (
            {"evaluator": "json-distance", "dataset": "demo", "sandbox": {"files": {"A": "/etc/passwd"}}},
            403,
            "not-allowed",
        ),
        ({"evaluator": "json-distance", "dataset": "demo", "sandbox": {"env": ["HOME"]}}, 403, "not-allowed"),
        ({"evaluator": "json-distance", "dataset": "demo", "sandbox": {"env_file": "/x"}}, 403, "not-allowed"),
        (
            {"evaluator": "json-distance", "dataset": "demo", "sandbox": {"allow_weak_isolation": True}},
            403,
            "not-allowed",
        ),
        ({"evaluator": "json-distance", "dataset": "demo", "limits": {"timeout": 80000}}, 403, "not-allowed"),
        ({"evaluator": "json-distance"}, 422, "invalid-request"),
    ],
)
def test_a_run_that_cannot_begin_is_refused_with_why(
    client: httpx.Client, spec: dict[str, object], status: int, kind: str
) -> None:
    before = client.get("/v1/runs", params={"count": 1}).json()["items"]
    problem(client.post("/v1/runs", json=spec), status, kind)
    assert client.get("/v1/runs", params={"count": 1}).json()["items"] == before


def test_a_dataset_with_other_columns_is_told_with_the_likely_mapping(client: httpx.Client) -> None:
    client.post("/v1/datasets?name=odd.csv", content=b"prediction,gold\na,b\n").raise_for_status()
    wanted = {"evaluator": "json-distance", "dataset": "odd"}
    for refused in (client.post("/v1/runs", json=wanted), client.post("/v1/evaluate", json=wanted)):
        told = refused.json()
        assert (refused.status_code, told["paths"]) == (422, {"output": "prediction", "reference": "gold"})
        assert told["detail"].endswith(
            "; map `output` to `prediction` and `reference` to `gold`, if these columns are the right ones"
        )
    assert client.post("/v1/runs", json=wanted).json()["why"].startswith("store:odd has no column")


def test_sandboxes_say_whether_they_fit(client: httpx.Client) -> None:
    found = {one["backend"]: one for one in client.get("/v1/sandboxes").json()}
    assert found["wasm"]["fits"]
    assert found["wasm"]["recommended"]
    assert not found["e2b"]["fits"]
    assert "--sandbox e2b" in found["e2b"]["why_not"]


def test_configs_have_names(client: httpx.Client) -> None:
    assert client.put("/v1/configs/small", json={"backend": "wasm", "isolation": "call"}).status_code == 200
    assert client.get("/v1/configs/small").json()["config"] == {"backend": "wasm", "isolation": "call"}
    problem(client.put("/v1/configs/open", json={"network": True}), 403, "not-allowed")
    assert client.delete("/v1/configs/small").status_code == 204


def test_health_and_figures(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    ready = client.get("/readyz").json()
    assert ready["ready"]
    assert "wasm" in ready["sandboxes"]
    text = client.get("/metrics").text
    assert 'evalcell_requests_total{method="GET",route="/healthz",status="200"}' in text
    assert "evalcell_pool" in text


def test_every_type_of_problem_is_explained(client: httpx.Client) -> None:
    from runner.server.service.errors import KINDS

    for kind in KINDS:
        assert client.get(f"/problems/{kind}").status_code == 200


def test_the_requests_of_the_reference_do_what_they_say(client: httpx.Client) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "http.md"
    block = page.read_text("utf-8").partition("```\n")[2].partition("```")[0]
    run = ""
    for command in filter(None, block.replace("\\\n", "").splitlines()):
        curl, *words = shlex.split(command)
        assert curl == "curl"
        (address,) = [word for word in words if word.startswith("http://127.0.0.1:8000/")]
        way = address.removeprefix("http://127.0.0.1:8000").replace("ID", run)
        if "--json" in words:
            reply = client.post(way, json=json.loads(words[words.index("--json") + 1]))
        elif "--data-binary" in words:
            reply = client.post(way, content=b'{"answer": "please"}\n')
        else:
            reply = client.get(way)
        assert reply.status_code < 300, (command, reply.text)
        if way == "/v1/runs":
            run = reply.json()["id"]
    assert [row["score"] for row in reply.json()["rows"]] == [1.0]


def test_a_server_that_can_run_nothing_is_not_ready(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ready() -> bool:
        return bool((await server.service.ready())["ready"])

    assert asyncio.run(ready())
    monkeypatch.setattr(server.service._machine, "note", lambda _: ("", "it cannot be used here"))
    assert not asyncio.run(ready())
