"""A server whose scripts ask judges: who started it grants them, with a budget for all; requests cannot."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runner.core.settings import JudgeSettings
from runner.runs.pool import pool
from runner.server.service.settings import ServiceSettings
from sandboxes.errors import UnsupportedConfigError
from tests.judges.judge import KEY, VARIABLE, fake_judge, host_of
from tests.judges.test_door import ASKING
from tests.server.http.live import finished, live

ASKS = """
from evalcell_judge import ask

def evaluate(output):
    return ask("grader", f"<b>Is it right?</b> {output}", model="judge").json["score"]
"""
OWN_CLIENT = """
# /// script
# [tool.evalcell]
# hosts = ["HOST"]
# ///
ASKING
def evaluate(output):
    return json.loads(json.loads(ask(output))["choices"][0]["message"]["content"])["score"]
"""


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv(VARIABLE, KEY)
    with fake_judge(require_key=KEY) as judge:
        yield judge


def granted(judge: Any, **more: Any) -> ServiceSettings:
    host = host_of(judge)
    judges = JudgeSettings(judge=f"{host}/v1#judge", secret=f"{VARIABLE}@{host}", **more)  # type: ignore[arg-type]
    return ServiceSettings(judges=judges).check()


def outcomes(reply: Any) -> list[str]:
    """Those of a dry run; the test is skipped where the machine lacks what its sandbox needs."""
    if reply.status_code == 503 and reply.json()["type"].endswith("sandbox-unavailable"):
        pytest.skip(reply.json()["detail"])
    assert reply.status_code == 200, reply.text
    return [one["result"]["outcome"] for one in reply.json()["results"]]


def test_a_script_asks_in_dry_runs_and_runs_within_one_budget(judge: Any, tmp_path: Path) -> None:
    rows = [{"output": text} for text in ("a", "b", "c")]
    with live(tmp_path, granted(judge, budget="requests=5")) as server, server.client() as client:
        script = {"source": ASKS, "language": "python"}
        reply = client.post("/v1/evaluate", json={**script, "rows": rows})
        assert outcomes(reply) == ["scored"] * 3
        assert "evalcell_replies" not in reply.text
        assert outcomes(client.post("/v1/evaluate", json={**script, "rows": rows})) == ["scored"] * 3
        assert len(judge.requests) == 3  # equal prompts of dry runs are asked once
        client.post("/v1/evaluators", json={"name": "asks", **script}).raise_for_status()
        data = "".join(json.dumps(row) + "\n" for row in rows)
        client.post("/v1/datasets?name=rows.jsonl", content=data.encode())
        run = client.post("/v1/runs", json={"evaluator": "asks", "dataset": "rows"}).json()
        done: Any = finished(client, run["id"])
        assert (done["summary"]["scored"], done["summary"]["lost"]) == (2, 1)
        assert len(judge.requests) == 5
        assert done["summary"]["judges"]["models"]["judge"]["calls"] == 2
        assert "Judges: 2 calls" in client.get(f"/runs/{run['id']}").text
        pages = [client.get(f"/runs/{run['id']}/rows/{number}").text for number in (1, 2, 3)]
        assert sum("the budget of this server for judges is spent" in page for page in pages) == 1
        assert all("&lt;b&gt;Is it right?&lt;/b&gt;" in page for page in pages)
        assert not [page for page in pages if KEY in page or "<b>Is it" in page]


def test_the_budget_is_of_all_workers_and_of_those_after_them(
    judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "runs_elsewhere", lambda name: name == "process")  # so that it has a worker of its own
    script = {"source": ASKS, "language": "python"}
    with live(tmp_path, granted(judge, budget="requests=9")) as server, server.client() as client:

        def scored(backend: str, first: int) -> int:
            rows = [{"output": str(number)} for number in range(first, first + 8)]
            asked = {**script, "rows": rows, "sandbox": {"backend": backend}}
            reply = client.post("/v1/evaluate", json=asked)
            assert set(outcomes(reply)) <= {"scored", "lost"}
            return outcomes(reply).count("scored")

        with ThreadPoolExecutor() as threads:
            assert sum(threads.map(scored, ("wasm", "process"), (0, 10))) == 9
        workers = server.service.pool._workers
        assert len(workers) == 2
        for worker in workers.values():
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
        while any(not worker.restarts for worker in workers.values()):
            time.sleep(0.01)
        assert scored("wasm", 20) == scored("process", 30) == 0
        assert len(judge.requests) == 9


def test_a_scripts_own_client_asks_what_its_header_wishes(judge: Any, tmp_path: Path) -> None:
    source = OWN_CLIENT.replace("HOST", host_of(judge)).replace("ASKING", ASKING)
    with live(tmp_path, granted(judge)) as server, server.client() as client:
        reply = client.post(
            "/v1/evaluate", json={"source": source, "language": "python", "rows": [{"output": "judge"}]}
        )
        assert outcomes(reply) == ["scored"]
        assert KEY not in reply.text


@pytest.mark.parametrize(
    ("source", "step"),
    [
        (ASKS, "--judge openai/MODEL"),
        (OWN_CLIENT.replace("HOST", "api.openai.com").replace("ASKING", ""), "start it with --judge openai"),
        (OWN_CLIENT.replace("HOST", "other.example").replace("ASKING", ""), "start it with --judge-host other.example"),
    ],
)
def test_what_is_not_granted_is_refused_with_the_line(source: str, step: str, tmp_path: Path) -> None:
    with live(tmp_path) as server, server.client() as client:
        client.post("/v1/evaluators", json={"name": "asks", "source": source, "language": "python"}).raise_for_status()
        for path, body in (
            ("evaluate", {"source": source, "language": "python", "rows": [{"output": "a"}]}),
            ("runs", {"evaluator": "asks", "dataset": "demo"}),
        ):
            reply = client.post(f"/v1/{path}", json=body)
            assert reply.status_code == 403, reply.text
            assert step in reply.json()["detail"]
        reply = client.post("/v1/evaluate", json={"source": ASKS, "rows": [], "judges": {"judge": ["openai"]}})
        assert reply.status_code == 422


def test_a_server_wants_the_key_when_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UnsupportedConfigError, match="OPENAI_API_KEY is not set"):
        ServiceSettings(judges=JudgeSettings(judge="openai")).check()  # type: ignore[arg-type]


def test_a_run_that_goes_on_says_what_judges_are_asked(judge: Any, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"output": str(number)}) + "\n" for number in range(40))
    source = ASKS.replace('model="judge"', 'model="judge+slow-0.4"').replace('["score"]', ".get('score')")
    settings = granted(judge, in_flight=2)
    judges = settings.judges.model_copy(
        update={"judge": tuple(one.replace("#judge", "") for one in settings.judges.judge)}
    )
    with live(tmp_path, settings.model_copy(update={"judges": judges})) as server, server.client() as client:
        client.post("/v1/evaluators", json={"name": "asks", "source": source, "language": "python"}).raise_for_status()
        client.post("/v1/datasets?name=rows.jsonl", content=rows.encode()).raise_for_status()
        run = client.post("/v1/runs", json={"evaluator": "asks", "dataset": "rows"}).json()
        shown = ""
        while "in flight" not in shown:
            assert client.get(f"/v1/runs/{run['id']}").json()["state"] in ("queued", "running")
            shown = client.get(f"/runs/{run['id']}").text
        assert "judges: " in shown
        assert " tokens, " in shown
        client.post(f"/v1/runs/{run['id']}/cancel")
