"""Runs that wait: so many and no more, and each goes on once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.results.store.types import RunSpec
from runner.server.service.settings import ServiceSettings
from tests.server.http.live import Live, live
from tests.server.http.served import PATIENCE

LOOPS = "def evaluate(output):\n    while True:\n        pass\n"


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Live]:
    """A server with room for one run, and two that wait."""
    with live(tmp_path, ServiceSettings(runs=1, waiting=2)) as found, found.client() as client:
        client.post("/v1/evaluators", json={"name": "loops", "source": LOOPS})
        yield found


def test_there_is_an_end_to_the_queue_and_a_run_goes_on_once(narrow: Live) -> None:
    spec: dict[str, Any] = {"evaluator": "loops", "dataset": "demo", "limits": {"timeout": 600}}
    with narrow.client() as client:
        first, second, third = (client.post("/v1/runs", json=spec).json()["id"] for _ in range(3))
        reply = client.post("/v1/runs", json=spec)
        assert (reply.status_code, reply.json()["type"]) == (429, "/problems/busy")
        assert int(reply.headers["retry-after"]) > 0
        assert reply.json()["retryable"]
        assert len(client.get("/v1/runs").json()["items"]) == 3
        for id in (second, third):
            assert client.post(f"/v1/runs/{id}/cancel").json()["state"] == "cancelled"

        resumed = at_once(narrow, *(narrow.service.resume(second) for _ in range(2)))
        assert [getattr(one, "kind", "goes on") for one in resumed] == ["goes on", "run-state"]
        assert narrow.service.queue.states() == {"running": 1, "queued": 1}

        asked = RunSpec.model_validate(spec)
        started = at_once(narrow, *(narrow.service.start_run(asked) for _ in range(3)))
        assert [getattr(one, "kind", "begun") for one in started] == ["begun", "busy", "busy"]
        client.post(f"/v1/runs/{first}/cancel")


def at_once(server: Live, *work: Coroutine[Any, Any, Any]) -> list[Any]:
    """What each gives or raises, if all are begun together; what is given comes first."""

    async def gathered() -> list[Any]:
        return await asyncio.gather(*work, return_exceptions=True)

    found = asyncio.run_coroutine_threadsafe(gathered(), server.loop).result(PATIENCE)
    return sorted(found, key=lambda one: isinstance(one, Exception))
