"""Other options of a run, on a cluster: what they do there is what they do here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sandboxes.cluster import pool
from tests.cli.commands import evalcell, header, write_rows
from tests.cluster.nodes import Nodes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.rotating("other options of runs on a cluster", "cluster"),
]

SCRIPT = header(
    "import random, time\n"
    "def evaluate(output, seconds):\n"
    "    time.sleep(seconds)\n"
    "    if output == 'x7':\n        raise ValueError('seven')\n"
    "    return {'score': random.random(), 'label': output}\n",
    "[tool.evalcell.mapping]",
    'seconds = "seconds"',
)
COUNT = 60


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    write_rows(tmp_path / "rows.jsonl", [{"id": f"r{n}", "output": f"x{n}", "seconds": 0.01} for n in range(COUNT)])


def run(out: str, *more: str) -> str:
    """What a run says; its results are in the folder."""
    done = evalcell("run", "script.py", "rows.jsonl", "--sandbox", "wasm", "--seed", "5", "-o", out, *more)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def results(folder: str) -> list[dict[str, Any]]:
    rows = map(json.loads, (Path(folder) / "results.jsonl").read_text().splitlines())
    return [{name: value for name, value in row.items() if name != "duration_ms"} for row in rows]


def test_repeats_are_those_of_one_machine(cluster: Nodes) -> None:
    run("here/", "-j", "1", "--repeat", "2")
    run("there/", "-j", "2", "--repeat", "2", "--on", "ray")
    assert len(results("there")) == 2 * COUNT
    assert results("there") == results("here")


def test_scores_of_the_cache_need_no_worker(cluster: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path.cwd() / "cache"))
    assert f"0 of {COUNT} scores are of earlier runs" in run("first/", "-j", "2", "--on", "ray", "--cache")

    async def refuse(*_: Any) -> None:
        raise AssertionError("a worker is started")

    monkeypatch.setattr(pool.Workers, "open", refuse)
    assert f"{COUNT} of {COUNT} scores are of earlier runs" in run("second/", "-j", "2", "--on", "ray", "--cache")
    assert results("second") == [row | {"cached": True} for row in results("first")]


@pytest.mark.parametrize("on", [(), ("--on", "ray")], ids=["here", "cluster"])
def test_a_run_of_a_cluster_goes_on(cluster: Nodes, on: tuple[str, ...]) -> None:
    run("whole/", "-j", "2", "--on", "ray")
    shutil.copytree("whole", "cut")
    written = Path("cut/results.jsonl")
    kept = written.read_text().splitlines(keepends=True)[: COUNT // 2]
    written.write_text("".join(kept) + '{"id": "r3')
    run("cut/", "-j", "2", "--resume", *on)
    assert results("cut") == results("whole")
    assert written.read_text().startswith("".join(kept))


def test_a_suite_says_which_of_its_runs_are_on_a_cluster(cluster: Nodes) -> None:
    Path("evalcell.toml").write_text(
        'dataset = "rows.jsonl"\nevaluator = "script.py"\nseed = 5\nsandbox = "wasm"\njobs = 2\n'
        '[run.here]\noutput = "here/"\n[run.there]\non = "ray"\noutput = "there/"\n'
    )
    done = evalcell("run", "--trust-config")
    assert done.exit_code == 0, done.output
    assert results("there") == results("here")
    manifests = [json.loads(Path(name, "manifest.json").read_text()) for name in ("here", "there")]
    assert ["cluster" in json.dumps(manifest) for manifest in manifests] == [False, True]


def test_a_run_begins_with_the_workers_that_there_is_room_for(cluster: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_JOIN", 8.0)
    run("here/", "-j", "1")
    said = run("there/", "-j", "30", "--on", "ray")
    assert "of 30 workers are there; the others join when the cluster has room" in said
    assert results("there") == results("here")
