"""The public names, and the two doors for Python."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import aclosing, chdir
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import runner
from runner import (
    DatasetError,
    EvaluatorError,
    InputError,
    InputMapping,
    Limits,
    MappingError,
    SandboxConfig,
    UnsupportedConfigError,
    evaluate,
    read_evaluator,
    stream,
)

LENGTH = "def evaluate(output, weight=1):\n    return len(output) * weight\n"
ONE = SandboxConfig(jobs=1)
"""Starts sooner than workers do."""
ROWS: list[dict[str, Any]] = [{"output": "a"}, {"output": "abc"}, {"input": "no output"}, {"output": 5}]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "length.py"
    path.write_text(LENGTH)
    return path


def test_every_public_name_is_there_and_nothing_else_is_promised() -> None:
    assert runner.__all__ == sorted(runner.__all__)
    assert {name: getattr(runner, name) for name in runner.__all__}.keys() <= set(dir(runner))
    names: dict[str, Any] = {}
    exec("from runner import *", names)
    assert set(runner.__all__) <= set(names)
    with pytest.raises(AttributeError, match="nothing_such"):
        runner.nothing_such  # noqa: B018


def test_to_import_the_runner_costs_next_to_nothing() -> None:
    code = "import sys, runner; print([m for m in ('pydantic', 'rich', 'wasmtime', 'asyncio') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_evaluate_gives_results_in_order_and_their_summary(script: Path) -> None:
    report = evaluate(script, ROWS)
    assert [r.outcome for r in report.results] == ["scored", "scored", "failed", "failed"]
    assert [r.score for r in report.results] == [1.0, 3.0, None, None]
    assert [r.error.kind for r in report.results if r.error] == ["mapping", "raised"]
    assert (report.summary.rows, report.summary.scored, report.summary.mean) == (4, 2, 2.0)
    assert report.summary.seconds is not None
    assert json.loads(report.model_dump_json())["results"][1]["score"] == 3.0


def test_evaluator_and_dataset_may_be_named_in_several_ways(script: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    ways = [(e, d) for e in (script, str(script)) for d in (data, iter(ROWS))]
    scores = [[r.score for r in evaluate(e, d, sandbox=ONE).results] for e, d in ways]
    scores.append([r.score for r in evaluate(read_evaluator(script), str(data), sandbox=ONE).results])
    assert scores == [[1.0, 3.0, None, None]] * 5
    for name in ("json-distance", "json_distance"):
        [result] = evaluate(name, [{"output": "1", "reference": 2}], sandbox=ONE).results
        assert (result.evaluator, result.score) == ("json-distance", 1.0)
    assert (
        evaluate("json-distance", ROWS, mapping={"reference": "output"}, language="python").summary.evaluator
        == "json-distance"
    )
    with pytest.raises(EvaluatorError, match="is not written in typescript"):
        evaluate("classification", ROWS, language="typescript")


def test_limits_mapping_and_sandbox_are_honoured(script: Path, tmp_path: Path) -> None:
    mapping = InputMapping(paths={"output": "metadata.text"}, literals={"weight": 10})
    [result] = evaluate(script, [{"text": "abcd"}], mapping=mapping, sandbox="wasm").results
    assert result.score == 40.0
    endless = tmp_path / "endless.py"
    endless.write_text("def evaluate(output):\n    while True: pass\n")
    [result] = evaluate(endless, [{"output": 1}], limits=Limits(timeout=0.1)).results
    assert result.error is not None
    assert result.error.kind == "timeout"
    fake = SandboxConfig(backend="fake", isolation="batch")
    assert [r.sandbox for r in evaluate(script, ROWS[:2], sandbox=fake).results] == ["fake", "fake"]


def test_a_seed_makes_random_numbers_repeat(tmp_path: Path) -> None:
    path = tmp_path / "dice.py"
    path.write_text("import random\ndef evaluate(output):\n    return random.random()\n")
    rows = [{"output": n} for n in range(20)]
    configs = [SandboxConfig(jobs=1), SandboxConfig(jobs=2)]
    one, two = ([r.score for r in evaluate(path, rows, seed=7, sandbox=c).results] for c in configs)
    assert one == two
    assert len(set(one)) == 20
    other = [r.score for r in evaluate(path, rows, seed=8).results]
    free = [r.score for r in evaluate(path, rows).results]
    assert len({*one, *other, *free}) == 60


def test_evaluate_works_inside_a_running_loop(script: Path) -> None:
    async def notebook() -> int:
        return evaluate(script, ROWS, sandbox="fake").summary.rows

    before = threading.enumerate()  # one that hangs in a file may be left behind by another test
    assert asyncio.run(notebook()) == 4
    assert not [t for t in threading.enumerate() if t.name.startswith("evalcell") and t not in before]


def test_evaluate_inside_a_loop_raises_what_it_would_outside(tmp_path: Path) -> None:
    async def notebook() -> None:
        evaluate(tmp_path / "nothing.py", ROWS)

    with pytest.raises(EvaluatorError):
        asyncio.run(notebook())


def test_stream_gives_results_as_they_come_and_can_be_left(script: Path) -> None:
    def endless() -> Iterator[dict[str, str]]:
        for n in count(1):
            yield {"output": "x" * (n % 50)}

    async def some() -> list[float | None]:
        scores = []
        async with aclosing(stream(script, endless())) as results:
            async for result in results:
                scores.append(result.score)
                if len(scores) == 100:
                    break
        return scores

    assert asyncio.run(some()) == [float(n % 50) for n in range(1, 101)]


def test_what_the_caller_got_wrong_is_raised_in_words(script: Path, tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError, match="did you mean json-distance"):
        evaluate("json-distanc", ROWS)
    with pytest.raises(EvaluatorError, match=r"did you mean length\.py\?"), chdir(script.parent):
        evaluate("length", ROWS)
    with pytest.raises(EvaluatorError):
        evaluate("nothing.py", ROWS)
    with pytest.raises(DatasetError):
        evaluate(script, tmp_path / "nothing.jsonl")
    with pytest.raises(MappingError, match="height"):
        evaluate(script, ROWS, mapping=InputMapping(literals={"height": 1}))
    with pytest.raises(UnsupportedConfigError, match="no sandbox named 'wasn'"):
        evaluate(script, ROWS, sandbox="wasn")
    wrong: Any = {"timeout": 1}  # what type checkers refuse, and notebooks do not
    with pytest.raises(InputError, match=r"`limits` must be such as Limits\(timeout=2\), not "):
        evaluate(script, ROWS, limits=wrong)
    with pytest.raises(InputError, match=r"`mapping` must name columns or paths, such as .*, not \('timeout', 1\); "):
        evaluate(script, ROWS, mapping=wrong)
    with pytest.raises(DatasetError, match=r"the dataset is one row; put it into a list: \[row\]"):
        evaluate(script, wrong)
    wrong = len
    with pytest.raises(EvaluatorError, match=r"`len` is built in and has no source; write a function"):
        evaluate(wrong, ROWS)


def test_a_templates_demo_is_a_dataset_too() -> None:
    assert evaluate("json-distance", "demo").summary.rows == 200


def test_a_script_that_declares_packages_is_refused_where_they_cannot_be_installed(tmp_path: Path) -> None:
    path = tmp_path / "needs.py"
    path.write_text('# /// script\n# dependencies = ["numpy"]\n# ///\n' + LENGTH)
    for sandbox in ("wasm", SandboxConfig(backend="wasm"), SandboxConfig(backend="wasm", packages=("numpy",)), "fake"):
        with pytest.raises(UnsupportedConfigError, match=r"declares packages \(numpy\), which the \w+ sandbox cannot"):
            evaluate(path, ROWS, sandbox=sandbox)


def test_a_direct_reference_is_refused_with_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "needs.py"
    path.write_text('# /// script\n# dependencies = ["x @ file:///etc/hostname"]\n# ///\n' + LENGTH)
    for sandbox in (None, "wasm", "process"):
        with pytest.raises(UnsupportedConfigError, match=r"needs\.py, `dependencies`: .* is a direct reference"):
            evaluate(path, ROWS, sandbox=sandbox)
    with pytest.raises(UnsupportedConfigError, match=r"^needs, `dependencies`: "):
        evaluate(read_evaluator(path), ROWS)


def test_a_configs_packages_are_requirements_and_nothing_else() -> None:
    with pytest.raises(
        UnsupportedConfigError, match="the config's packages: '-r /etc/hostname' is an installer's option"
    ):
        evaluate("json-distance", ROWS, sandbox=SandboxConfig(packages=("-r /etc/hostname",)))


LEAVES = {
    "break": """
async def main():
    async for result in stream("slow.py", ({"output": n} for n in range(5000)), sandbox="process"):
        break
""",
    "a task that reads": """
async def read(first):
    async for result in stream("slow.py", ({"output": n} for n in range(5000)), sandbox="process"):
        first.set()

async def main():
    first = asyncio.Event()
    task = asyncio.create_task(read(first))
    await first.wait()
""",
    "an error": """
async def main():
    async for result in stream("slow.py", ({"output": n} for n in range(5000)), sandbox="process"):
        raise SystemExit(0)
""",
}


@pytest.mark.parametrize("leave", LEAVES)
def test_a_stream_that_is_left_says_nothing(tmp_path: Path, leave: str) -> None:
    (tmp_path / "slow.py").write_text("import time\ndef evaluate(output):\n    time.sleep(0.02)\n    return 1.0\n")
    code = f"import asyncio\nfrom runner import stream\n{LEAVES[leave]}\nasyncio.run(main())\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_stream_raises_what_the_rows_raise(script: Path) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield {"output": "a"}
        raise KeyError("of mine")

    async def read() -> list[Any]:
        return [result async for result in stream(script, rows())]

    with pytest.raises(KeyError, match="of mine"):
        asyncio.run(read())
