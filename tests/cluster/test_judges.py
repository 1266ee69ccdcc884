"""Scripts that ask judges, on a cluster: the judge is asked from here alone, and no worker has a key."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runner import JudgeSettings, SandboxConfig, evaluate
from tests.cli.commands import evalcell
from tests.cluster.nodes import Nodes
from tests.cluster.processes import below, workers
from tests.judges.judge import KEY, VARIABLE, fake_judge, host_of
from tests.judges.test_door import memory
from tests.judges.test_runs import SWALLOWS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.rotating("judges that a cluster's rows ask", "cluster", "judges"),
]
SCRIPT = """
from evalcell_judge import ask

def evaluate(output):
    print("row", output)
    return ask("grader", output, schema={"score": "number"}).json["score"]
"""
PLAIN = """
def evaluate(output, replies=None):
    if len(replies) < 3:
        return {"ask": [{"role": "grader", "prompt": f"{len(replies)} {output}"}] * (1 + len(replies))}
    return {"score": len({one["text"] for one in replies}), "label": replies[0]["text"]}
"""
COUNT = 60
ROWS = [{"id": f"r{number}", "output": f"row {number}"} for number in range(COUNT)]
KEYS = [KEY.encode(), base64.b64encode(KEY.encode()).rstrip(b"=")]


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    Path("plain.py").write_text(PLAIN)
    Path("client.py").write_text(SWALLOWS)
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))


@pytest.fixture
def judge() -> Iterator[Any]:
    with fake_judge(require_key=KEY) as judge:
        yield judge


def settings(judge: Any, model: str = "judge", **more: Any) -> JudgeSettings:
    host = host_of(judge)
    return JudgeSettings(judge=(f"{host}/v1#{model}",), secret=(f"{VARIABLE}@{host}",), **more)


def run(judge: Any, on: str | None = "ray", script: str = "script.py", backend: str = "wasm", **more: Any) -> Any:
    judges = more.pop("judges", None) or settings(judge)
    config = SandboxConfig(backend=backend, jobs=2)
    return evaluate(script, ROWS, sandbox=config, judges=judges, on=on, seed=5, **more)


def plain(report: Any) -> list[dict[str, Any]]:
    return [one.model_dump(exclude={"duration_ms", "waiting_ms"}) for one in report.results]


@pytest.mark.parametrize(
    ("script", "backend", "asked"),
    [("script.py", "process", 60), ("plain.py", "wasm", 180), ("client.py", "process", 60)],
)
def test_rows_and_records_are_those_of_one_machine(
    cluster: Nodes, judge: Any, script: str, backend: str, asked: int
) -> None:
    there = run(judge, script=script, backend=backend, judges=settings(judge, record="there.jsonl"))
    assert len(judge.requests) == asked
    here = run(judge, None, script=script, backend=backend, judges=settings(judge, record="here.jsonl"))
    assert plain(there) == plain(here)
    assert {one.outcome for one in there.results} == {"scored"}
    sent = len(judge.requests)
    for on, record in (("ray", "here.jsonl"), (None, "there.jsonl")):
        again = run(judge, on, script=script, backend=backend, judges=settings(judge, replay=record))
        assert plain(again) == plain(here)
    assert len(judge.requests) == sent


def test_a_budget_is_that_of_all_workers(cluster: Nodes, judge: Any) -> None:
    report = run(judge, judges=settings(judge, budget="requests=20", in_flight=32), output="run/")
    assert sorted(one.outcome for one in report.results) == ["lost"] * 40 + ["scored"] * 20
    assert len(judge.requests) == 20


def test_what_was_answered_is_paid_for_once_whatever_dies(cluster: Nodes, judge: Any) -> None:
    killed: list[int] = []

    def kill() -> None:
        while len(judge.requests) < 5:
            time.sleep(0.01)
        killed.append(workers()[0])
        os.kill(killed[0], signal.SIGKILL)

    killing = Thread(target=kill, daemon=True)
    killing.start()
    report = run(judge, judges=settings(judge, "slow-0.1", in_flight=4), output="run/")
    killing.join()
    assert len(killed) == 1
    assert {one.outcome for one in report.results} == {"scored"}
    assert len(judge.requests) == COUNT
    lines = Path("run/results.jsonl").read_text().splitlines(keepends=True)
    Path("run/results.jsonl").write_text("".join(lines[:10]))  # as if it had been killed then
    again = run(judge, judges=settings(judge, "slow-0.1", in_flight=4), output="run/", resume=True)
    assert len(judge.requests) == COUNT
    assert again.summary.judges is not None
    assert again.summary.judges.replayed == COUNT - 10


def test_no_key_is_in_a_worker_of_any_kind_of_cluster(
    cluster: Nodes, judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one whose nodes run already, and on one that is started here, by a program that has the key."""
    for number, address in enumerate((cluster.address, None)):
        monkeypatch.setenv("RAY_ADDRESS", address) if address else monkeypatch.delenv("RAY_ADDRESS")
        seen, found = set[int](), list[str]()
        with fake_judge(require_key=KEY) as slow:
            looking = Thread(target=_search, args=(slow, seen, found), daemon=True)
            looking.start()
            report = run(
                slow, judges=settings(slow, "slow-0.3", in_flight=8), backend="process", output=f"run{number}/"
            )
            looking.join()
        assert len(seen) >= 4, "two workers, and their boxes"
        assert not found
        assert {one.outcome for one in report.results} == {"scored"}
        assert VARIABLE not in report.model_dump_json()
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not [path for path in written if any(key in path.read_bytes() for key in KEYS)]


def _search(judge: Any, seen: set[int], found: list[str]) -> None:
    """Search workers, what they have started, and of a cluster that was started here all else, for the key."""
    while len(judge.requests) < 12:
        time.sleep(0.01)
    own = os.getpid()
    for pid, _ in below(workers()) | below([own]):
        if pid == own:
            continue
        try:
            held = memory(pid)
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        seen.add(pid)
        found += [f"{pid}" for key in KEYS if key in held]


def test_a_suite_asks_on_a_cluster(cluster: Nodes, judge: Any) -> None:
    host = host_of(judge)
    Path("evalcell.toml").write_text(
        'dataset = "rows.jsonl"\nsandbox = "wasm"\njobs = 2\non = "ray"\n'
        f'[judges]\nsecrets = {{ {VARIABLE} = "{host}" }}\n[judges.roles]\ngrader = "{host}/v1#judge"\n'
        '[run.one]\nevaluator = "script.py"\noutput = "one/"\n[run.two]\nevaluator = "plain.py"\noutput = "two/"\n'
    )
    done = evalcell("run", "--trust-config")
    assert done.exit_code == 0, done.output
    assert len(judge.requests) == 4 * COUNT
    for folder, asked in (("one", 1), ("two", 3)):
        manifest = json.loads(Path(folder, "manifest.json").read_text())
        assert (manifest["summary"]["scored"], manifest["summary"]["judges"]["calls"]) == (COUNT, asked * COUNT)
        assert "cluster" in json.dumps(manifest)
