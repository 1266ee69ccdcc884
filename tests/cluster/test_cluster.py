"""Runs on a Ray cluster: the results of one machine, whatever dies meanwhile, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate, stream
from runner.types import Result
from sandboxes import SandboxConfig, SandboxUnavailableError, UnsupportedConfigError
from sandboxes.base import Isolation
from sandboxes.cluster import pool
from sandboxes.cluster.member import Member, refuse_other
from sandboxes.cluster.worker import Worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
turns = pytest.mark.rotating("runs on a cluster", "cluster")
faults = pytest.mark.rotating("faults of a cluster", "cluster")

SCRIPT = """
import random, time
SEEN = []
def evaluate(output, seconds=0.0):
    time.sleep(seconds)
    SEEN.append(output)
    print("row", output)
    if output == "x7":
        raise ValueError("seven")
    return {"score": len(SEEN) + random.random(), "label": output}
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def rows(count: int, seconds: float = 0.0) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "output": f"x{n}", "seconds": seconds} for n in range(count)]


def plain(results: list[Result]) -> list[Result]:
    return [result.model_copy(update={"duration_ms": 0.0}) for result in results]


@pytest.mark.parametrize(
    ("backend", "isolation"),
    [
        ("wasm", "call"),
        *(
            pytest.param(*which, marks=turns)
            for which in (("wasm", "batch"), ("process", "batch"), ("process", "call"))
        ),
    ],
)
def test_results_are_those_of_one_machine(cluster: Any, script: Path, backend: str, isolation: Isolation) -> None:
    config = SandboxConfig(backend=backend, isolation=isolation, jobs=2)
    here, there = (evaluate(script, rows(100), sandbox=config, on=on, seed=5).results for on in (None, "ray"))
    assert plain(there) == plain(here)
    assert sum(result.outcome == "scored" for result in there) == 99


@turns
def test_files_and_variables_travel(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_WORD", "open sesame now")
    (tmp_path / "words.txt").write_text("three little words")
    (tmp_path / "script.py").write_text(
        "import os\ndef evaluate(output):\n"
        "    words = open(os.environ['WORDS']).read().split()\n"
        "    return {'score': len(words), 'explanation': os.environ['SECRET_WORD']}\n"
    )
    config = SandboxConfig(
        backend="process", jobs=2, files={"WORDS": str(tmp_path / "words.txt")}, env=("SECRET_WORD",)
    )
    report = evaluate(tmp_path / "script.py", rows(4), sandbox=config, on="ray")
    assert [result.score for result in report.results] == [3] * 4
    assert "sesame" not in repr(report.results), "it is masked there, too"


def meanwhile(script: Path, count: int, fault: Callable[[], None], after: int = 5) -> tuple[list[Result], list[str]]:
    """The results of slow rows, with a fault once some of them are there; and what was said."""
    said: list[str] = []

    async def run() -> list[Result]:
        found = []
        config = SandboxConfig(backend="wasm", jobs=2)
        async with aclosing(stream(script, rows(count, 0.05), sandbox=config, on="ray", seed=5)) as results:
            async for result in results:
                found.append(result)
                if len(found) == after:
                    fault()
        return found

    return asyncio.run(run()), said


def workers() -> list[int]:
    """The processes of the workers that are there."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray::Worker" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.fixture
def expected(script: Path) -> list[Result]:
    return plain(evaluate(script, rows(60, 0.05), sandbox=SandboxConfig(backend="wasm", jobs=2), seed=5).results)


@faults
def test_a_worker_that_is_killed_costs_no_row(cluster: Any, script: Path, expected: list[Result]) -> None:
    found, _ = meanwhile(script, 60, lambda: os.kill(workers()[0], signal.SIGKILL))
    assert plain(found) == expected


@faults
def test_all_workers_that_are_killed_cost_no_row(cluster: Any, script: Path, expected: list[Result]) -> None:
    def fault() -> None:
        for pid in workers():
            os.kill(pid, signal.SIGKILL)

    assert plain(meanwhile(script, 60, fault)[0]) == expected


@faults
def test_a_node_that_is_lost_costs_no_row(cluster: Any, script: Path, expected: list[Result]) -> None:
    node = cluster.added()
    found, _ = meanwhile(script, 60, lambda: cluster.remove_node(node, allow_graceful=False))
    assert plain(found) == expected


@faults
def test_without_any_worker_the_run_ends(cluster: Any, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "GRACE", 1.0)
    monkeypatch.setattr(pool, "_PAUSES", (1000.0,))

    def fault() -> None:
        for pid in workers():
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(SandboxUnavailableError, match="no worker of the cluster was there for 1 seconds"):
        meanwhile(script, 60, fault)


@turns
def test_what_is_cancelled_stops_there(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def evaluate(output):\n    print('on', flush=True)\n    while True: pass\n")
    config = SandboxConfig(backend="process", jobs=1)

    async def run() -> None:
        async with asyncio.timeout(3):
            async with aclosing(stream(tmp_path / "script.py", rows(2), sandbox=config, on="ray")) as results:
                async for _ in results:
                    pass

    before = set(workers())
    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert set(workers()) <= before


def test_what_differs_between_workers_is_refused_by_name() -> None:
    facts = {"evalcell": "0.1.0", "identity": "process/python-3.11.7/tier-A", "lock": None}
    first = Member(None, "one, process 1", facts)
    refuse_other(first, Member(None, "two, process 2", dict(facts)))
    with pytest.raises(
        SandboxUnavailableError, match=r"worker at two, process 2 differs .* in evalcell \(0.2.0, not 0.1.0\)"
    ):
        refuse_other(first, Member(None, "two, process 2", facts | {"evalcell": "0.2.0"}))
    with pytest.raises(SandboxUnavailableError, match=r"in the sandbox \(process/python-3.11.7/tier-B, not"):
        refuse_other(first, Member(None, "two, process 2", facts | {"identity": "process/python-3.11.7/tier-B"}))


def test_a_worker_says_why_its_sandbox_does_not_open() -> None:
    import pickle

    worker = Worker()
    config = SandboxConfig(backend="wasm", packages=("numpy",))
    reply = asyncio.run(worker.open(pickle.dumps(config), {}, {}))
    assert "the wasm sandbox has no packages" in reply["failed"]
    asyncio.run(worker.close())


@pytest.mark.parametrize("on", ["spark", "ray://", "ray://host", "ray://:1", "ray://host:99999", "ray://h\nx:1", ""])
def test_what_is_no_cluster_is_refused(on: str) -> None:
    with pytest.raises(UnsupportedConfigError, match="is no cluster; write `ray`"):
        evaluate("json-distance", "demo", on=on)


def test_a_provider_s_sandbox_needs_no_cluster() -> None:
    with pytest.raises(UnsupportedConfigError, match="the e2b sandbox runs at a provider"):
        evaluate("json-distance", "demo", sandbox="e2b", on="ray")


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SandboxUnavailableError, match=r"run: pip install 'evalcell\[ray\]'"):
        evaluate("json-distance", "demo", on="ray")


@faults
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_cluster_of_this_machine_ends_with_its_run(script: Path, tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    lines = "".join(f'{{"output": "x{n}", "seconds": 0.2}}\n' for n in range(1000))
    (tmp_path / "rows.jsonl").write_text(lines)
    (tmp_path / "t").mkdir()
    place = f"/tmp/evalcell-test-{os.getpid()}"
    os.mkdir(place)
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"TMPDIR": place}
    words = [
        "run",
        str(script),
        str(tmp_path / "rows.jsonl"),
        "--on",
        "ray",
        "-j",
        "1",
        "-o",
        str(tmp_path / "o.jsonl"),
    ]
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "runner", *words], env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            while process.poll() is None and not (
                (tmp_path / "o.jsonl").exists() and (tmp_path / "o.jsonl").stat().st_size
            ):
                time.sleep(0.1)
            assert process.poll() is None, process.stderr and process.stderr.read()
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        assert process.returncode == (-9 if number == signal.SIGKILL else 130), errors
        if number != signal.SIGKILL:
            assert os.listdir(place) == []
            assert "ray" not in errors.replace("on ray", "").replace("-o", "").lower().replace("array", ""), errors
        deadline = time.monotonic() + 30
        while (left := of(place)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left
    finally:
        subprocess.run(["rm", "-rf", place], check=True)


def of(place: str) -> list[str]:
    """The processes that were told of the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if place.encode() in told:
            found.append(told[:200].decode(errors="replace"))
    return found
