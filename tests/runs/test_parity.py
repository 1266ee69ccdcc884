"""Several runs of one dataset, side by side; and the Python door to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import DatasetError, InputError, InputMapping, Parity, parity
from runner.core.types import Case, Result
from runner.engine.request import PreparedRun
from runner.inputs.evaluators.resolve import find_evaluator
from runner.runs.parity import SHOWN_ROWS, ParityTally, names, open_cases, pair, together
from sandboxes.base import Call, Execution, SandboxConfig
from sandboxes.errors import SandboxLostError
from sandboxes.fake import Answer, FakeSandbox, ok
from tests.engine.prepared import prepared
from tests.engine.scripted import SCRIPT, echo, fake, rows


def side(script: Answer = echo, **changes: Any) -> PreparedRun:
    return prepared(SCRIPT.model_copy(update=changes), fake(script))


def ran(sides: Sequence[PreparedRun], count: int = 5) -> Parity:
    tally = ParityTally(sides)

    @contextmanager
    def read() -> Iterator[list[Case]]:
        yield rows(count)

    async def collect() -> None:
        async for row in together(sides, read):
            tally.add(row)

    asyncio.run(collect())
    return tally.report()


def result(**said: Any) -> Result:
    known = {"id": "x", "number": 1, "evaluator": "e", "version": "v", "sandbox": "s", "outcome": "scored"}
    return Result.model_validate(known | said)


def unlike(a: Result, b: Result, tolerance: float = 1e-9) -> dict[str, tuple[Any, ...]]:
    tally = ParityTally([side(), side()], tolerance)
    tally.add([a, b])
    report = tally.report()
    assert report.rows == report.same + report.different + report.lost == 1
    return report.differences[0].values if report.different else {}


def test_equal_sides_agree() -> None:
    report = ran([side(), side(), side()], 1000)
    assert (report.rows, report.same, report.different, report.lost, report.failed) == (1000, 1000, 0, 0, 0)
    assert [s.sandbox for s in report.sides] == ["fake"] * 3


def test_sandboxes_are_opened_once_and_closed() -> None:
    sides = [side(), side()]
    ran(sides)
    for each in sides:
        assert isinstance(each.sandbox, FakeSandbox)
        assert (each.sandbox.opened, each.sandbox.closed) == (1, 1)


def test_every_field_but_messages_and_output_is_compared() -> None:
    same = result(label="a", score=1.0, explanation="e", stdout="x", duration_ms=1.0)
    assert unlike(same, same.model_copy(update={"stdout": "y", "duration_ms": 2.0, "version": "w"})) == {}
    assert unlike(same, result(label="b", score=2.0, explanation="f")) == {
        "label": ("a", "b"),
        "score": (1.0, 2.0),
        "explanation": ("e", "f"),
    }
    raised, again, late = (
        result(outcome="failed", error={"kind": kind, "message": message})
        for kind, message in (("raised", "m"), ("raised", "n"), ("timeout", "m"))
    )
    assert unlike(raised, again) == {}
    assert unlike(raised, late) == {"kind": ("raised", "timeout")}
    assert unlike(same, raised) == {"outcome": ("scored", "failed")}
    assert unlike(result(label="a"), result(label="a", outcome="abstained")) == {"outcome": ("scored", "abstained")}


def test_named_outputs_are_compared_by_name() -> None:
    one, other = (
        result(outputs={"a": {"score": 1}}),
        result(outputs={"a": {"score": 1}, "b": {"score": 0, "label": "l"}}),
    )
    assert unlike(one, other) == {"b.label": (None, "l"), "b.score": (None, 0.0)}


@pytest.mark.parametrize(("b", "agree"), [(1.0, True), (1 + 5e-10, True), (1 + 2e-9, False), (None, False)])
def test_scores_agree_within_the_tolerance(b: float | None, agree: bool) -> None:
    assert (not unlike(result(score=1.0), result(score=b))) is agree
    assert (not unlike(result(score=1.0), result(score=b), 0.0)) is (b == 1.0)


def test_only_the_first_rows_are_kept_and_all_are_counted() -> None:
    def off(call: Call) -> Execution:
        return Execution(call=call.id, status="ok", value={"score": -1, "explanation": "x" * 50_000})

    report = ran([side(), side(off)], 100)
    assert (report.different, len(report.differences), report.fields) == (
        100,
        SHOWN_ROWS,
        {"score": 100, "explanation": 100},
    )
    assert [d.number for d in report.differences] == list(range(1, SHOWN_ROWS + 1))
    assert len(report.model_dump_json()) < SHOWN_ROWS * 5000


def test_a_lost_row_is_counted_apart() -> None:
    def lose(call: Call) -> Execution:
        if call.arguments["output"] == 2:
            raise SandboxLostError("gone")
        return ok(call)

    report = ran([side(ok), side(lose)], 4)
    assert (report.rows, report.same, report.different, report.lost) == (4, 3, 0, 1)


def test_rows_that_change_between_two_readings_end_it() -> None:
    counts = iter([3, 2])

    @contextmanager
    def read() -> Iterator[list[Case]]:
        yield rows(next(counts))

    async def collect() -> int:
        return len([row async for row in together([side(), side()], read)])

    with pytest.raises(DatasetError, match="changed while it was read"):
        asyncio.run(collect())


def test_names_are_as_short_as_tells_the_sides_apart() -> None:
    class Other(FakeSandbox):
        name = "other"

    other = Other(SandboxConfig(backend="fake"))
    assert names([side(), prepared(SCRIPT, other)]) == ["fake", "other"]
    assert names([side(), side(language="typescript")]) == ["python in fake", "typescript in fake"]
    assert names([side(), side(name="f")]) == ["e in fake", "f in fake"]
    assert names([side(), side()]) == ["fake (1)", "fake (2)"]
    assert names([side(), side(version="w")]) == ["e in fake (1)", "e in fake (2)"]


def test_what_runs_where(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("def evaluate(output): return 1\n")
    a, b = tmp_path / "a.py", tmp_path / "b.py"

    def where(*arguments: Any) -> list[tuple[str, object]]:
        return [(evaluator.name, sandbox) for _, evaluator, sandbox in pair(*arguments)]

    assert where(a, None, ["wasm", "process"]) == [("a", "wasm"), ("a", "process")]
    assert where(a, b, ["wasm", "process"]) == [("a", "wasm"), ("b", "process")]
    assert where(a, b, ["wasm"]) == [("a", "wasm"), ("b", "wasm")]
    assert where(a, b, []) == [("a", None), ("b", None)]
    for wrong in ((a, None, []), (a, None, ["wasm"]), (a, b, ["wasm"] * 3)):
        with pytest.raises(InputError):
            pair(*wrong)


def test_a_template_runs_in_a_language_that_the_sandbox_has() -> None:
    assert [e.language for _, e, _ in pair("json-distance", None, ["wasm", "process"])] == ["python"] * 2
    assert [e.language for _, e, _ in pair("json_distance", None, ["wasm"] * 2, "typescript")] == ["typescript"] * 2


def test_the_door_for_python(tmp_path: Path) -> None:
    script = tmp_path / "length.py"
    script.write_text("def evaluate(output, by=1):\n    return len(output) * by\n")
    data = [{"output": "x" * n} for n in range(10)]
    both = [SandboxConfig(backend="wasm", jobs=1), SandboxConfig(backend="process", jobs=1)]
    report = parity(script, iter(data), sandboxes=both, mapping=InputMapping(literals={"by": 2}), limit=4)
    assert (report.rows, report.same) == (4, 4)
    other = find_evaluator("json-distance")
    data = [row | {"reference": "y"} for row in data]
    report = parity(script, data, other=other, sandboxes=both[:1], tolerance=0.5)
    assert (report.rows, report.different) == (10, 10)
    report = parity("json-distance", "cases", sandboxes=both, limit=5)
    assert (report.rows, report.same) == (5, 5)
    report = parity(find_evaluator("json-distance"), "demo", sandboxes=both, limit=5)
    assert (report.rows, report.same) == (5, 5)


def test_what_cannot_be_read_again_is_refused(tmp_path: Path) -> None:
    for dataset in ("-", "/dev/null", str(tmp_path)):
        request = side().request.model_copy(update={"dataset": dataset})
        sides = [replace(side(), request=request)]
        with pytest.raises(DatasetError, match="can be read only once"):
            open_cases(request, None, sides)
