"""Several results of each row: kept apart in the files, averaged in the row, counted where they differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate, parity
from runner.core.errors import InputError
from runner.core.types import Result, ResultError, Score
from runner.engine.local import score
from runner.engine.rows import seed_of
from runner.engine.scoring.run_totals import join_repeats, mean
from sandboxes import SandboxConfig
from sandboxes.base import Call, Execution
from tests.cli.commands import evalcell
from tests.engine.scripted import SCRIPT, fake, rows

WASM = SandboxConfig(backend="wasm", jobs=1)
RANDOM = "import random\ndef evaluate(output):\n    return random.random() if output else 1.0\n"


def result(given: float | str | None, number: int = 1, **more: Any) -> Result:
    error = ResultError(kind="lost" if given == "lost" else "raised", message="no") if isinstance(given, str) else None
    outcome: Any = given if error else "abstained" if given is None else "scored"
    said = {"score": None if error else given, "error": error, "outcome": outcome, **more}
    return Result(id=str(number), number=number, evaluator="e", version="v", sandbox="s", **said)


def test_labels_and_explanations_and_errors_of_a_row() -> None:
    few = [result(n, label=label, explanation=f"{n}") for n, label in ((1.0, "a"), (2.0, "b"), (3.0, "b"))]
    assert join_repeats(few).model_dump(include={"label", "score", "explanation"}) == {
        **{"label": "b", "score": 2.0, "explanation": "2.0"}
    }
    named = [result(0.0, outputs={"x": Score(score=n), "y": Score(label=t)}) for n, t in ((0.0, "p"), (1.0, "p"))]
    assert join_repeats(named).outputs == {"x": Score(score=0.5), "y": Score(label="p")}
    error = join_repeats([result(1.0), result("failed"), result(1.0)]).error
    assert error is not None
    assert error.message == "no (in 1 of 3 repeats)"


def test_the_mean_lies_within_its_numbers() -> None:
    assert mean([0.1] * 3) == 0.1
    assert mean([1.7e308, 1.7e308]) == 1.7e308
    assert mean([0.1, 0.2]) == pytest.approx(0.15, abs=1e-16)


def test_each_repeat_has_its_own_seed_and_the_first_is_the_usual_one() -> None:
    assert seed_of(7, 1, 1) == seed_of(7, 1)
    assert len({seed_of(7, row, repeat) for row in range(1, 30) for repeat in range(1, 30)}) == 29 * 29


@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_each_repeat_of_a_batch_is_a_run_of_its_own(isolation: str) -> None:
    import asyncio

    def echo(call: Call) -> Execution:
        return Execution(call=call.id, status="ok", value=call.arguments["output"])

    sandbox = fake(echo, isolation=isolation)

    async def collect() -> list[Result]:
        async with sandbox:
            return [r async for r in score(SCRIPT, rows(40), sandbox, seed=1, repeat=3)]

    found = asyncio.run(collect())
    assert [(r.number, r.repeat, r.score) for r in found] == [(n, k, n) for n in range(1, 41) for k in (1, 2, 3)]
    if isolation == "batch":  # as 16 batches of one row, and 5, 7, 9 and 3 rows
        sizes = [len(run) for run in sandbox.programs[0].runs]
        assert sizes == [size for rows in (*[1] * 16, 5, 7, 9, 3) for size in [rows] * 3]
        assert all(len({call % 3 for call in run}) == 1 for run in sandbox.programs[0].runs)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random_.py").write_text(RANDOM)
    (tmp_path / "data.json").write_text(json.dumps([{"output": n % 4, "repeat": "own"} for n in range(8)]))
    return tmp_path


def test_a_run_with_repeats(here: Path) -> None:
    words = ["run", "random_.py", "data.json", "-j", "1", "--seed", "5", "--keep", "repeat", "--max-failed", "0"]
    outputs = [word for name in ("x.jsonl", "x.csv", "x.parquet") for word in ("-o", name)]
    result = evalcell(*words, "--repeat", "3", *outputs, "--fail-if", "rows!=8", "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert {name: summary[name] for name in ("rows", "count", "repeat", "unstable", "unstable_rate")} == {
        **{"rows": 8, "count": 8, "repeat": 3, "unstable": 6, "unstable_rate": 0.75}
    }
    lines = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    assert [(row["id"], row["repeat"]) for row in lines] == [(str(n), k) for n in range(1, 9) for k in (1, 2, 3)]
    assert summary["mean"] == pytest.approx(sum(row["score"] for row in lines) / 24)
    first, second = Path("x.csv").read_text().splitlines()[:2]
    assert first.startswith("id,repeat,evaluator,")
    assert first.endswith(",row.repeat")
    assert second.startswith("1,1,random_,")
    import pyarrow.parquet as pq

    assert pq.read_table("x.parquet")["repeat"].to_pylist() == [1, 2, 3] * 8
    usual = evalcell(*words, "-o", "once.jsonl", "--json")
    once = [json.loads(line) for line in Path("once.jsonl").read_text().splitlines()]
    assert [row["score"] for row in once] == [row["score"] for row in lines[::3]]
    assert json.loads(usual.stdout)["unstable"] is None
    assert "repeat" not in once[0]
    shown = evalcell(*words, "--repeat", "2").stdout
    assert "repeats    2 of each row; 6 of 8 rows did not repeat (75.0%)" in shown


def test_repeats_in_python(here: Path) -> None:
    report = evaluate("random_.py", [{"output": 1}, {"output": 0}], repeat=2, sandbox=WASM)
    assert [(r.id, r.repeat) for r in report.results] == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]
    assert (report.summary.rows, report.summary.unstable, report.summary.unstable_rate) == (2, 1, 0.5)
    assert report.to_pandas()["repeat"].tolist() == [1, 2, 1, 2]
    with pytest.raises(InputError, match="`repeat`"):
        evaluate("random_.py", [], repeat=0)


@pytest.mark.parametrize(("seed", "differ"), [((), 6), (("--seed", "1"), 0)], ids=["unseeded", "seeded"])
def test_twice_names_the_rows_that_do_not_repeat(here: Path, seed: tuple[str, ...], differ: int) -> None:
    result = evalcell("parity", "random_.py", "data.json", "--twice", "-j", "1", "--sandbox", "wasm", *seed)
    assert result.exit_code == (1 if differ else 0), result.output
    assert f"{differ} differ" in result.stdout or not differ
    assert ("differs  2  row 2" in result.stdout) is bool(differ)
    assert "wasm (1)" in result.stdout


@pytest.mark.parametrize("words", [("--other", "random_.py"), ("--sandbox", "wasm", "--sandbox", "process")])
def test_twice_is_of_one_script_in_one_sandbox(here: Path, words: tuple[str, ...]) -> None:
    result = evalcell("parity", "random_.py", "data.json", "--twice", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run --twice is compared with itself; name one sandbox at most, and no --other" in result.stderr


def test_twice_in_python(here: Path) -> None:
    found: Callable[..., Any] = parity
    assert found("random_.py", [{"output": 1}], twice=True, sandboxes=[WASM]).different == 1
    assert found("random_.py", [{"output": 0}], twice=True, sandboxes=[WASM]).different == 0
