"""The client on a real server: what it gives is what this machine's `evaluate` gives, errors too."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import (
    AsyncClient,
    Audit,
    Client,
    DatasetError,
    EvaluatorError,
    InputError,
    Limits,
    MappingError,
    Report,
    UnsupportedConfigError,
    audit,
    evaluate,
)
from runner.core.errors import ColumnsError
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store.errors import InUseError, NameTakenError, NotStoredError, VersionConflictError
from runner.server.client.requests import Ask
from runner.server.client.server import now
from runner.server.service.types import StateChange
from tests.server.http.live import Live

SAME = """\
# /// script
# [tool.evalcell.output]
# kind = "freeform"
# direction = "maximize"
# ///
def evaluate(output, reference):
    return float(output == reference)
"""
ROWS = [{"id": f"r{n}", "output": str(n % 3), "reference": "1"} for n in range(9)]
AVERAGE = SAME + "def aggregate(results):\n    return {'rows': len(results)}\n"
OWN = {"duration_ms": 0, "row": {}}


@pytest.fixture(scope="module")
def us(server: Live) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "same.py"
    path.write_text(SAME)
    return path


def told(report: Report) -> dict[str, Any]:
    """What a report says, but for times, and for the columns that a run of a server keeps."""
    found = report.model_dump(mode="json")
    found["results"] = [one | OWN for one in found["results"]]
    found["summary"] |= {"seconds": None, "rows_per_second": None}
    return found


def test_rows_are_scored_at_once_as_here(us: Client, script: Path) -> None:
    wish: dict[str, Any] = {"sandbox": "wasm", "limits": Limits(timeout=5), "seed": 3}
    before = [run.id for run in us.runs()]
    assert told(us.evaluate(script, ROWS, **wish)) == told(evaluate(script, ROWS, **wish))
    assert [run.id for run in us.runs()] == before


def test_a_run_of_a_file_is_as_here_with_gates_repeats_and_figures_of_all_rows(us: Client, tmp_path: Path) -> None:
    script, file = tmp_path / "average.py", tmp_path / "rows.csv"
    script.write_text(AVERAGE)
    file.write_text("id,answer,reference\n" + "".join(f"{r['id']},{r['output']},{r['reference']}\n" for r in ROWS))
    wish: dict[str, Any] = {"mapping": {"output": "answer"}, "repeat": 2, "require": ["mean>=0.3", "mean>0.9"]}
    there, here = us.evaluate(script, file, title="nightly", **wish), evaluate(script, file, **wish)
    seen = []
    for report in (there, here):
        found = told(report)
        del found["shown"]  # a run keeps the dataset's columns, and not the parameters' names
        seen.append(found)
    assert seen[0] == seen[1]
    assert [row.id for row in there.shown.rows] == [row.id for row in here.shown.rows]
    assert [gate.verdict for gate in there.summary.gates] == ["passed", "failed"]
    (run,) = [run for run in us.runs() if run.title == "nightly"]
    assert told(us.report(run.id)) == told(there)


def test_an_audit_is_as_here(us: Client, script: Path) -> None:
    script.with_name("same.cases.jsonl").write_text('{"output": "1", "reference": "1", "expected": {"score": 1}}\n')
    rows = [{"output": f"a{n}", "reference": f"a{n}", "ok": "yes"} for n in range(6)]
    wish: dict[str, Any] = {"labels": "ok", "require": ["killed>=0.9"], "seed": 3}
    before = [run.id for run in us.runs()]
    here = audit(script, rows, **wish)
    assert us.audit(script, rows, **wish) == here
    assert here.mutants is not None
    assert here.mutants.killed > 0
    assert [run.id for run in us.runs()] == before
    kept = us.add(script)

    async def awaited() -> Audit:
        async with AsyncClient(us._server._connection.url) as client:
            return await client.audit(kept.reference, rows * 20)  # so many are sent as a dataset

    assert asyncio.run(awaited()).of == 120
    with pytest.raises(InputError, match="an audit needs 2"):
        us.audit(script, [{"output": "a", "reference": ""}] * 3)


def test_what_is_kept_step_by_step(us: Client, script: Path) -> None:
    first = us.add(script, name="steps")
    assert us.add(script, name="steps").reference == first.reference == "steps@1"
    script.write_text(SAME.replace("float(", "1 - float("))
    second = us.add(script, name="steps", expected=first.version)
    script.write_text(SAME + "# other\n")
    with pytest.raises(VersionConflictError) as raised:
        us.add(script, name="steps", expected=first.version)
    assert raised.value.theirs.version == second.version
    assert [one.number for one in us.versions("steps")] == [2, 1]
    read = parse_evaluator("def get_assert(output):\n    return 1\n", "steps", dialect="promptfoo", entry="get_assert")
    other = us.add(read, expected=second.version)
    assert (other.number, other.asked_dialect, other.asked_entry) == (3, "promptfoo", "get_assert")
    us.add(replaced := parse_evaluator("def get_assert(output):\n    return 0\n", "steps"), expected=other.version)
    assert us.evaluator("steps").source == replaced.source
    assert us.evaluator("steps").asked_dialect is None  # as the evaluator says that is given
    assert us.evaluator("steps@1").source == SAME
    assert "steps" in [one.name for one in us.evaluators()]
    rows = us.add_dataset(ROWS, name="steps-rows")
    assert us.add_dataset(ROWS, name="steps-rows").digest == rows.digest
    with pytest.raises(NameTakenError):
        us.add_dataset(ROWS[:2], name="steps-rows")
    runs = [us.run(reference, "steps-rows", title=reference) for reference in ("steps@1", "steps@2")]
    events = list(us.progress(runs[0].id))
    assert events[-1].data == StateChange(state="finished")
    assert us.wait(runs[1].id).rows == us.status(runs[0].id).rows == len(ROWS)
    assert list(us.progress(runs[0].id))[-1].id == len(ROWS)
    assert [one.score for one in us.worst(runs[0].id, 3)] == [0, 0, 0]
    low = list(us.results(runs[0].id, order="best", low=0.5))
    assert [(one.id, one.row["output"]) for one in low] == [("r1", "1"), ("r4", "1"), ("r7", "1")]
    verdict, flips = us.compare(runs[0].id, runs[1].id), us.flips(runs[0].id, runs[1].id, count=1)
    assert verdict.mean_difference == pytest.approx(1 / 3)
    assert flips.total == verdict.wins + verdict.losses
    assert len(flips.rows) == 1
    verified = us.verify(runs[0].id, sample="100%")
    assert (verified.run, verified.equal, verified.different) == (runs[0].id, len(ROWS), 0)
    assert {one["name"] for one in verified.statement()["predicate"]["configuration"]} == {"dataset", "script"}
    with pytest.raises(InUseError):
        now(us._server.ask(Ask("DELETE", "/v1/datasets/steps-rows")))
    for run in runs:
        us.delete_run(run.id)
    with pytest.raises(NotStoredError):
        us.status(runs[0].id)


def test_a_row_that_no_longer_gives_the_same_is_named(us: Client, script: Path) -> None:
    script.write_text("import time\ndef evaluate(output):\n    return time.time()\n")
    us.add_dataset(ROWS, name="moving")
    run = us.wait(us.run(us.add(script, name="clock").reference, "moving").id)
    found = us.verify(run.id, sample=2)
    assert (found.sample, found.different, found.verdict) == (2, 2, "2 of 2 rows differ")
    assert [*found.mismatches[0].fields] == ["score"]
    with pytest.raises(InputError, match="a sample of no rows"):
        us.verify(run.id, sample=0)
    with pytest.raises(NotStoredError):
        us.verify("nowhere")


def test_a_run_is_stopped_and_goes_on(us: Client) -> None:
    us.add_dataset([{"output": n} for n in range(3)], name="stopped")

    async def work() -> tuple[str, int]:
        async with AsyncClient(us._server._connection.url) as client:
            source = "import time\ndef evaluate(output):\n    time.sleep(0.2)\n    return 1\n"
            found = await asyncio.to_thread(_script, source)
            version = await client.add(found, name="slow")
            run = await client.run(version.reference, "stopped", repeat=100)
            await client.cancel(run.id)
            assert (await client.wait(run.id)).state == "cancelled"
            again = await client.resume(run.id)
            assert again.state in ("queued", "running")
            await client.cancel(run.id)
            return (await client.wait(run.id)).state, len([one async for one in client.datasets()])

    state, datasets = asyncio.run(work())
    assert state == "cancelled"
    assert datasets > 0


def _script(source: str) -> Any:
    from runner.inputs.evaluators.load import parse_evaluator

    return parse_evaluator(source, "slow", "slow.py")


def test_what_cannot_be_used_is_the_exception_of_this_machine(us: Client, script: Path, tmp_path: Path) -> None:
    def wrong(kind: type[Exception], words: str, *given: Any, **more: Any) -> None:
        for door in (us.evaluate, evaluate):
            with pytest.raises(kind) as raised:
                door(*given, **more)
            assert words in str(raised.value), door

    broken = tmp_path / "broken.py"
    broken.write_text("def evaluate(output:\n")
    wrong(EvaluatorError, "broken.py", broken, ROWS)
    wrong(EvaluatorError, "nowhere", "nowhere", ROWS)
    wrong(ColumnsError, "mapping={'output': 'answer'", script, [{"answer": "1", "reference": "1"}])
    wrong(DatasetError, "no dataset", script, tmp_path / "none.jsonl")
    wrong(InputError, "requirement", script, ROWS, require=["mean is good"])
    wrong(InputError, "`repeat`", script, ROWS, repeat=0)
    wrong(UnsupportedConfigError, "deno", script, ROWS, sandbox="deno")
    wrong(MappingError, "nothing", script, ROWS, mapping={"nothing": "output"})


def test_a_failure_of_the_script_is_the_rows(us: Client, tmp_path: Path) -> None:
    script = tmp_path / "raises.py"
    script.write_text("def evaluate(output):\n    print('x' * 10)\n    return 1 / int(output)\n")
    there, here = us.evaluate(script, ROWS), evaluate(script, ROWS)
    assert told(there) == told(here)
    assert there.summary.failed == 3


def test_the_python_of_the_page_runs(
    server: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "client.md"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALCELL_URL", server.url)
    (tmp_path / "same.py").write_text(SAME)
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE):
        exec(block, names)
    assert capsys.readouterr().out.splitlines() == [
        *("0.5", "['failed']", "[] ['same.case', 'same.space']", "finished"),
        "[0.0, 0.0, 0.0, 0.0, 0.0]",
    ]


@pytest.mark.parametrize("leave", ["break", "raise SystemExit(0)"])
def test_progress_that_is_left_says_nothing(server: Live, leave: str) -> None:
    with server.client() as http:
        source = "import time\ndef evaluate(output):\n    time.sleep(0.05)\n    return 1.0\n"
        http.post("/v1/evaluators", json={"name": "left-slow", "source": source})
        http.post("/v1/datasets?name=left.jsonl", content='{"output": 1}\n' * 400)
        run = http.post("/v1/runs", json={"evaluator": "left-slow", "dataset": "left"}).json()["id"]
        code = (
            "import asyncio\nfrom runner import AsyncClient\nasync def main():\n"
            f"    async for event in AsyncClient({server.url!r}).progress({run!r}):\n        {leave}\n"
            "asyncio.run(main())\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        http.post(f"/v1/runs/{run}/cancel")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
