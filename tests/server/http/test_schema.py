"""The OpenAPI document, and what a server does with requests that are made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks

from runner.results.store import open_store
from runner.runs.pool.pool import WorkerPool
from runner.server.http.app import create_app
from runner.server.service.service import Service
from tests.server.http.live import Live, live


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("document")
    with open_store(f"sqlite:///{folder / 'store.sqlite'}", folder) as store:
        return create_app(Service(store, WorkerPool())).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_document_is_openapi_3_1_and_every_failure_in_it_is_a_problem(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    count = 0
    for path, method, operation in operations(document):
        count += 1
        assert operation["summary"], path
        assert operation["description"], (path, method)
        for status, reply in operation["responses"].items():
            if status.startswith(("4", "5")):
                assert list(reply["content"]) == ["application/problem+json"], (path, method, status)
    assert count > 30


def test_nothing_in_the_document_leads_nowhere(document: dict[str, Any]) -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, one in value.items():
                if key == "$ref" and isinstance(one, str):
                    yield one
                yield from references(one)
        elif isinstance(value, list):
            for one in value:
                yield from references(one)

    for found in set(references(document)):
        at: Any = document
        for part in found.removeprefix("#/").split("/"):
            at = at[part]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("probed")) as found:
        yield found


_SKIPPED = [
    # Valid requests whose object is not there, or whose script is none, are refused: no schema can say that.
    "positive_data_acceptance",
    # There is no token here; tests/server/http/test_hostile.py tries those.
    "ignored_auth",
]


schemathesis.serializer.alias("application/zip", "application/octet-stream")


def probe(server: Live, path: str, method: str, examples: int, mode: GenerationMode) -> None:
    """Send requests made of the document to one operation: such as it describes, or such as it excludes."""
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operation = schema[path][method.upper()]
    checks.load_all_checks()
    excluded = checks.CHECKS.get_by_names(_SKIPPED)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    def test(case: Any) -> None:
        case.call_and_validate(excluded_checks=excluded, timeout=60)

    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query or operation.path_parameters):
        return  # it takes nothing that could be wrong
    given(case=operation.as_strategy(mode))(test)()


PATHS = [
    *(("/v1/check", "post"), ("/v1/evaluate", "post"), ("/v1/recognise", "post"), ("/v1/templates", "get")),
    *(("/v1/sandboxes", "get"), ("/v1/evaluators", "get"), ("/v1/evaluators", "post")),
    ("/v1/evaluators/zip", "post"),
    *(("/v1/evaluators/{name}", "get"), ("/v1/evaluators/{name}", "put"), ("/v1/evaluators/{name}", "delete")),
    *(("/v1/evaluators/{name}/versions", "get"), ("/v1/evaluators/{name}/versions/{number}", "get")),
    *(("/v1/datasets", "get"), ("/v1/datasets", "post"), ("/v1/datasets/{name}", "get")),
    *(("/v1/datasets/{name}", "delete"), ("/v1/datasets/{name}/rows", "get")),
    ("/v1/datasets/{name}/suggestion", "get"),
    *(("/v1/configs", "get"), ("/v1/configs/{name}", "get"), ("/v1/configs/{name}", "put")),
    *(("/v1/configs/{name}", "delete"), ("/v1/runs", "get"), ("/v1/runs", "post"), ("/v1/runs/{id}", "get")),
    *(("/v1/runs/{id}", "delete"), ("/v1/runs/{id}/cancel", "post"), ("/v1/runs/{id}/resume", "post")),
    *(
        ("/v1/runs/{id}/results", "get"),
        ("/v1/runs/{id}/groups", "get"),
        ("/v1/runs/{id}/download", "get"),
        ("/v1/runs/{id}/events", "get"),
    ),
    *(("/v1/compare", "get"), ("/v1/compare/rows", "get"), ("/v1/langfuse/execute", "post"), ("/v1/audit", "post")),
    ("/v1/runs/{id}/verify", "post"),
]


def test_every_operation_is_probed(document: dict[str, Any]) -> None:
    assert sorted(PATHS) == sorted((path, method) for path, method, _ in operations(document))


@pytest.mark.rotating("requests made of the OpenAPI document", "server")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("path", "method"), PATHS, ids=lambda part: part)
def test_an_operation_keeps_its_word(probed: Live, path: str, method: str, mode: GenerationMode) -> None:
    probe(probed, path, method, 6, mode)
    assert httpx.get(f"{probed.url}/healthz").status_code == 200


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server while a run goes on, which it does to the end."""
    slow = "import time\ndef evaluate(output):\n    time.sleep(0.05)\n    return 1.0\n"
    with live(tmp_path_factory.mktemp("busy")) as found, found.client() as client:
        client.post("/v1/evaluators", json={"name": "under-way", "source": slow})
        client.post("/v1/datasets?name=under-way.jsonl", content='{"output": 1}\n' * 200_000)
        begun = client.post("/v1/runs", json={"evaluator": "under-way", "dataset": "under-way"}).json()["id"]
        yield found
        run = client.post(f"/v1/runs/{begun}/cancel").json()
        assert (run["state"], run["counts"]) == ("cancelled", {"scored": run["rows"]})
        assert run["rows"] > 0


@pytest.mark.thorough("the same while a run goes on: test_an_operation_keeps_its_word has a server at rest")
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("path", "method"), PATHS, ids=lambda part: part)
def test_an_operation_keeps_its_word_while_a_run_goes_on(
    busy: Live, path: str, method: str, mode: GenerationMode
) -> None:
    probe(busy, path, method, 6, mode)
    assert httpx.get(f"{busy.url}/healthz").status_code == 200


@pytest.mark.thorough("100 requests for each operation: test_an_operation_keeps_its_word has some")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("path", "method"), PATHS, ids=lambda part: part)
def test_an_operation_keeps_its_word_for_long(probed: Live, path: str, method: str, mode: GenerationMode) -> None:
    probe(probed, path, method, 100, mode)
    assert httpx.get(f"{probed.url}/healthz").status_code == 200
