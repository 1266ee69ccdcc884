"""Calls apart: what the asking call gets to know, what the call apart gets to know, and how both are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from runner import SandboxConfig, evaluate
from runner.core.errors import EvaluatorError
from runner.core.types import Result
from runner.engine.subcalls import ROUNDS, ApartProgram
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.base import Call, Execution, Isolation, Limits, ScriptError
from sandboxes.fake import FakeProgram
from tests.engine.scripted import SCRIPT, fake, rows, scored

APART = SCRIPT.model_copy(update={"apart": True})
HEADER = "# /// script\n# [tool.evalcell]\n# apart = true\n# ///\n"


def played(asking: Callable[[Any], Any], apart: Callable[[Call], Execution], count: int = 1, **config: Any) -> Any:
    """The results of an evaluator whose asking calls return that of their reply; and the runs of the sandbox."""

    def answer(call: Call) -> Execution:
        if "reply" not in call.arguments:
            return apart(call)
        return Execution(call=call.id, status="ok", value=asking(call.arguments["reply"]), duration=0.25, output="a")

    sandbox = fake(answer, **config)
    return scored(rows(count), sandbox, APART), sandbox.programs[0].runs


def test_a_call_apart_gets_what_was_asked_and_its_value_is_the_reply() -> None:
    seen: list[dict[str, Any]] = []

    def apart(call: Call) -> Execution:
        seen.append(call.arguments)
        return Execution(call=call.id, status="ok", value={"apart": {"again": 1}}, duration=0.5, output="b")

    def asking(reply: Any) -> Any:
        if reply is None:
            return {"apart": {"program": "x"}}
        assert reply == {"asked": {"program": "x"}, "status": "ok", "value": {"apart": {"again": 1}}}
        return 0.5

    results, _ = played(asking, apart)
    assert [(r.outcome, r.score, r.stdout, r.duration_ms) for r in results] == [("scored", 0.5, "aba", 1000.0)]
    assert seen == [{"program": "x"}]


@pytest.mark.parametrize("status", ["timeout", "memory", "crash", "output", "error", "no_result"])
def test_however_a_call_apart_ends_the_asking_call_judges_it(status: Any) -> None:
    def apart(call: Call) -> Execution:
        return Execution(call=call.id, status=status, error=ScriptError(type="T", message="why"))

    def asking(reply: Any) -> Any:
        if reply is None:
            return {"apart": {}}
        return {"label": reply["status"], "score": 0, "explanation": reply["message"]}

    (result,) = played(asking, apart)[0]
    assert (result.outcome, result.label, result.score, result.explanation) == ("scored", status, 0.0, "T: why")


def test_one_that_asks_without_end_fails_alone() -> None:
    (result,) = played(
        lambda reply: {"apart": {"n": 1}}, lambda call: Execution(call=call.id, status="ok", value=None)
    )[0]
    assert (result.outcome, result.error.kind) == ("failed", "invalid_result")
    assert f"more than {ROUNDS} times" in result.error.message


def test_where_calls_share_their_state_each_call_apart_has_a_run_of_its_own() -> None:
    playing = FakeProgram(lambda call: Execution(call=call.id, status="ok", value=answer(call)))

    def answer(call: Call) -> Any:
        return {"apart": {}} if call.arguments.get("reply", 1) is None else 1.0

    async def runs(isolation: Isolation) -> list[int]:
        playing.runs.clear()
        calls = [Call(id=n) for n in range(3)]
        found = [execution async for execution in ApartProgram(playing, isolation).run(calls, Limits())]
        assert [(execution.call, execution.value) for execution in found] == [(0, 1.0), (1, 1.0), (2, 1.0)]
        return [len(run) for run in playing.runs]

    assert asyncio.run(runs("batch")) == [3, 1, 1, 1, 3]
    assert asyncio.run(runs("call")) == [3, 3, 3]


def test_a_call_that_asks_for_it_is_made_again_in_a_run_of_its_own_with_the_same_reply() -> None:
    def answer(call: Call) -> Any:
        if "reply" not in call.arguments:
            return 7
        if call.id and len(playing.runs[-1]) > 1:
            return {"afresh": True}
        reply = call.arguments["reply"]
        return {"apart": {}} if reply is None else reply["value"] / 7

    playing = FakeProgram(lambda call: Execution(call=call.id, status="ok", value=answer(call), duration=1.0))

    async def found(count: int) -> list[Execution]:
        calls = [Call(id=n) for n in range(count)]
        return [execution async for execution in ApartProgram(playing, "batch").run(calls, Limits())]

    executions = asyncio.run(found(3))
    assert sorted((one.call, one.value, one.duration) for one in executions) == [
        (0, 1.0, 3.0),
        (1, 1.0, 4.0),
        (2, 1.0, 4.0),
    ]
    assert [len(run) for run in playing.runs] == [3, 1, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("isolation", "runs"), [("batch", [2, 1, 1]), ("call", [2])])
def test_one_that_asks_for_it_where_it_is_alone_is_told_so(isolation: Isolation, runs: list[int]) -> None:
    playing = FakeProgram(lambda call: Execution(call=call.id, status="ok", value={"afresh": True}))

    async def found() -> list[Execution]:
        return [one async for one in ApartProgram(playing, isolation).run([Call(id=n) for n in range(2)], Limits())]

    for execution in asyncio.run(found()):
        assert execution.status == "no_result"
        assert execution.error is not None
        assert "no call came before" in execution.error.message
    assert [len(run) for run in playing.runs] == runs


@pytest.mark.parametrize("value", [1, 1.0, False])
def test_only_true_asks_for_it(value: object) -> None:
    playing = FakeProgram(lambda call: Execution(call=call.id, status="ok", value={"afresh": value}))

    async def found() -> list[Execution]:
        return [one async for one in ApartProgram(playing, "batch").run([Call(id=n) for n in range(2)], Limits())]

    assert [one.value for one in asyncio.run(found())] == [{"afresh": value}] * 2
    assert [len(run) for run in playing.runs] == [2]


def test_a_result_of_that_shape_means_nothing_without_the_header() -> None:
    sandbox = fake(lambda call: Execution(call=call.id, status="ok", value={"apart": {}}))
    (result,) = scored(rows(1), sandbox)
    assert result.outcome == "failed"


def test_the_header_needs_the_parameter_and_a_flag() -> None:
    assert parse_evaluator(HEADER + "def evaluate(output, reply=None): ...\n", "e").apart
    with pytest.raises(EvaluatorError, match="needs a parameter `reply`"):
        parse_evaluator(HEADER + "def evaluate(output): ...\n", "e")
    with pytest.raises(EvaluatorError, match="must be true or false"):
        parse_evaluator(HEADER.replace("true", '"yes"') + "def evaluate(output, reply=None): ...\n", "e")


STATE = (
    HEADER
    + """
seen = []

def evaluate(output, reference=None, program=None, reply=None):
    if program is not None:
        seen.append(program)
        exec(program)
        return seen
    if reply is None:
        seen.append(reference)
        return {"apart": {"output": None, "program": output}}
    return {"label": reply["status"], "score": len(seen), "explanation": str(reply.get("value"))}
"""
)


def run(tmp_path: Any, sandbox: str, *programs: str, **more: Any) -> list[Result]:
    script = tmp_path / "apart.py"
    script.write_text(STATE)
    data = [{"id": str(n), "output": program, "reference": "secret"} for n, program in enumerate(programs)]
    config = SandboxConfig(backend=sandbox, **more)
    return list(evaluate(script, data, sandbox=config).results)


@pytest.mark.parametrize("sandbox", ["wasm", "process"])
@pytest.mark.parametrize("isolation", ["call", "batch"])
def test_in_a_sandbox_nothing_but_the_reply_comes_across(tmp_path: Any, sandbox: str, isolation: Any) -> None:
    reads = "import sys; seen += [f.f_locals.get('reference') for f in [sys._getframe()]]"
    programs = ["seen[0] = 1", reads, "import os; os._exit(0)", "1/0", "seen[0] = 2"]
    results = run(tmp_path, sandbox, *programs, isolation=isolation, jobs=1)
    assert [r.label for r in results] == ["ok", "ok", "crash", "error", "ok"]
    assert [results[place].explanation for place in (0, 1, 4)] == ["[1]", str([reads, None]), "[2]"]


@pytest.mark.parametrize("sandbox", ["wasm", "process"])
def test_a_call_apart_of_a_run_without_a_seed_answers_the_same_again(tmp_path: Any, sandbox: str) -> None:
    program = "import random; seen.append(random.random())"
    first, again = (run(tmp_path, sandbox, program)[0] for _ in range(2))
    assert first.label == "ok"
    assert first.explanation == again.explanation
