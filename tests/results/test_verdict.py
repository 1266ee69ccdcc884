"""What becomes of a row: a score, an abstention, or a failure of some kind, never mixed up."""

from __future__ import annotations

import pytest

from runner.core.types import Case, Continuous, Result
from sandboxes.base import Call, Execution, ScriptError
from sandboxes.fake import Answer, FakeProgram, ok
from tests.engine.scripted import SCRIPT, Custom, case, echo, fake, rows, scored


def test_a_result_says_where_it_comes_from() -> None:
    def say(call: Call) -> Execution:
        value = {"label": "good", "score": 0.5, "explanation": "why"}
        return Execution(call=call.id, status="ok", value=value, output="hello", truncated=True, duration=0.0123)

    [result] = scored(rows(1), fake(say))
    assert result == Result(
        id="row1",
        number=1,
        evaluator="e",
        version="abc",
        sandbox="fake",
        given=result.given,
        outcome="scored",
        label="good",
        score=0.5,
        explanation="why",
        stdout="hello",
        truncated=True,
        duration_ms=12.3,
    )


def test_broken_rows_and_mapping_errors_cost_no_call() -> None:
    cases = [case(1, 1), case(2, broken="data.jsonl:2: not JSON"), case(3, 3)]
    cases.append(Case(number=4, id="row4", where="data.jsonl:4"))
    sandbox = fake(echo)
    results = scored(cases, sandbox)
    assert [r.outcome for r in results] == ["scored", "failed", "scored", "failed"]
    kinds = [r.error.kind if r.error else None for r in results]
    assert kinds == [None, "mapping", None, "mapping"]
    assert results[1].error is not None
    assert results[1].error.message == "data.jsonl:2: not JSON"
    assert sum(len(run) for run in sandbox.programs[0].runs) == 2


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("error", "raised"),
        ("timeout", "timeout"),
        ("memory", "memory"),
        ("output", "output"),
        ("crash", "crash"),
        ("no_result", "invalid_result"),
    ],
)
def test_each_status_is_a_failure_of_its_kind_and_never_a_score(status: str, kind: str) -> None:
    def fail(call: Call) -> Execution:
        error = ScriptError(type="T", message="why", hint="do this")
        return Execution.model_validate(
            {"call": call.id, "status": status, "error": error, "value": 1.0, "output": "said"}
        )

    [result] = scored(rows(1), fake(fail))
    assert (result.outcome, result.score, result.label, result.stdout) == ("failed", None, None, "said")
    assert result.error is not None
    assert result.error.kind == kind
    assert result.error.message.endswith("why; do this")


def raising(type: str, message: str, traceback: str = "") -> Answer:
    error = ScriptError(type=type, message=message, traceback=traceback)
    return lambda call: Execution(call=call.id, status="error", error=error)


def message_of(script: Answer) -> str:
    [result] = scored(rows(1), fake(script))
    assert result.error is not None
    return result.error.message


def test_an_exception_is_told_with_its_line_in_the_script() -> None:
    traceback = (
        'Traceback (most recent call last):\n  File "evaluator.py", line 3, in evaluate\n'
        '  File "evaluator.py", line 12, in half\n  File "/lib/json/decoder.py", line 355, in decode\n'
    )
    told = message_of(raising("ZeroDivisionError", "division by zero", traceback))
    assert told == "ZeroDivisionError: division by zero (line 12)"
    traceback = (
        "TypeError: no evaluator.ts:1:1\n    at Array.map (<anonymous>)\n    at half (evaluator.ts:7:11)\n"
        "    at evaluate (evaluator.ts:12:3)\n    at run (blob:null/1:2:3)"
    )
    assert message_of(raising("TypeError", "no", traceback)) == "TypeError: no (line 7)"
    assert message_of(raising("Error", "x", "Error: x\n    at evaluator.ts:2:7")) == "Error: x (line 2)"
    assert message_of(raising("StopIteration", "")) == "StopIteration"


def test_a_hostile_message_is_one_short_printable_line() -> None:
    told = message_of(raising("E" * 5000, "\x1b[2J\r\nx\ud800" * 5000))
    assert len(told) < 1000
    assert told.isprintable()
    told.encode()


def test_what_is_no_result_is_invalid() -> None:
    [result] = scored(rows(1), fake(lambda call: Execution(call=call.id, status="ok", value=[1])))
    assert (result.outcome, result.score) == ("failed", None)
    assert result.error is not None
    assert result.error.kind == "invalid_result"


def test_to_abstain_is_no_failure() -> None:
    value = {"score": None, "label": "invalid"}
    script = SCRIPT.model_copy(update={"outputs": {"": Continuous()}})
    [result] = scored(rows(1), fake(lambda c: Execution(call=c.id, status="ok", value=value)), script)
    assert (result.outcome, result.label, result.error) == ("abstained", "invalid", None)


def test_several_outputs_stand_by_name_and_the_first_one_on_top() -> None:
    script = SCRIPT.model_copy(update={"outputs": {"a": Continuous(), "b": Continuous()}})
    value = {"a": 1, "b": {"score": 2, "label": "x"}}
    [result] = scored(rows(1), fake(lambda c: Execution(call=c.id, status="ok", value=value)), script)
    assert {name: s.score for name, s in result.outputs.items()} == {"a": 1.0, "b": 2.0}
    assert (result.score, result.label) == (1.0, None)


def test_a_script_that_does_not_load_fails_every_row_without_a_run() -> None:
    def program() -> FakeProgram:
        made = FakeProgram(ok)
        error = ScriptError(type="NameError", message="x is not defined")
        made.loaded = Execution(call=-1, status="error", error=error, output="said", duration=3.0)
        return made

    sandbox = Custom(program)
    results = scored([*rows(3000), case(3001, broken="bad")], sandbox)
    assert sandbox.programs[0].runs == []
    assert {(r.outcome, r.error.kind, r.error.message) for r in results[:-1] if r.error} == {
        ("failed", "raised", "the script does not load: NameError: x is not defined")
    }
    assert {(r.stdout, r.duration_ms) for r in results[:-1]} == {("said", 0.0)}
    assert results[-1].error is not None
    assert results[-1].error.kind == "mapping"
