"""What nobody thought of: any value, any reply, any script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sandboxes import Call, Execution, Limits, Status
from sandboxes.protocol import Raw, execution
from sandboxes.wasm.sandbox import DEATHS_HERE
from tests.sandboxes.backends import BACKENDS, LIMITS
from tests.sandboxes.hostile.driven import Driven
from tests.sandboxes.hostile.scripts import CLEAN, DISTANCE
from tests.scripts import python

pytestmark = pytest.mark.rotating("promises", "sandboxes")
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
TIGHT = Limits(timeout=0.3, load_timeout=0.5, memory=64 << 20, output=64, result=1000)

numbers = st.integers() | st.integers(-(10**4000), 10**4000) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text() | st.sampled_from(["", "__proto__", "\0", "\u2028", "\U0010ffff", '"}', "\x7f\x80", "é" * 999])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)

ECHO = """
def evaluate(x, inside=False):
    return {"label": "a", "score": [x], "explanation": {"x": x}} if inside else x
"""


def same(one: Any, other: Any) -> bool:
    """Equal in type too: JSON tells 1 from 1.0 and from true, 0.0 from -0.0, and keeps the order of keys."""
    return json.dumps(one) == json.dumps(other)


@pytest.fixture(scope="module")
def echo() -> Iterator[Callable[[list[Call]], list[Execution]]]:
    """Runs calls in one sandbox that stays open."""
    with asyncio.Runner() as runner:
        sandbox = BACKENDS[0].make("call")
        runner.run(sandbox.open())
        program = runner.run(sandbox.load(python(ECHO), LIMITS))

        async def called(batch: list[Call]) -> list[Execution]:
            return [e async for e in program.run(batch, LIMITS)]

        yield lambda batch: runner.run(called(batch))
        runner.run(sandbox.close())


@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
@given(value=values)
def test_any_json_value_makes_the_round_trip(echo: Callable[[list[Call]], list[Execution]], value: Any) -> None:
    bare, inside = echo([Call(id=0, arguments={"x": value}), Call(id=1, arguments={"x": value, "inside": True})])
    assert (bare.status, inside.status) == ("ok", "ok"), (bare.error, inside.error)
    assert same(bare.value, value)
    assert same(inside.value, {"label": "a", "score": [value], "explanation": {"x": value}})


@settings(max_examples=10, deadline=None, suppress_health_check=QUIET)
@given(value=values, depth=st.integers(0, 300), keyed=st.booleans())
def test_nested_values_make_the_round_trip(
    echo: Callable[[list[Call]], list[Execution]], value: Any, depth: int, keyed: bool
) -> None:
    for _ in range(depth):
        value = {"k": value} if keyed else [value]
    (found,) = echo([Call(id=0, arguments={"x": value})])
    assert same(found.value, value)


odd = values | st.sampled_from([True, -1, 1 << 70, 1e308, "\ud800", ["ok"], {"a": 1}])
statuses = st.sampled_from([*get_args(Status), "", "OK"]) | odd
errors = st.fixed_dictionaries({}, optional=dict.fromkeys(("type", "message", "traceback", "missing"), odd)) | odd
forged = st.fixed_dictionaries(
    {}, optional={"said": odd, "output": odd, "status": statuses, "value": odd, "error": errors}
)
tokens = st.sampled_from(
    [
        b'{"said":0,"output":"', b'","status":"ok","value":', b"1e999", b"NaN", b"-Infinity", b"}", b"[",
        b'"\\ud800"', b"\xff", b"9" * 5000, b'"status":"error","error":{', b'"type":', b'"message":"',
        b"\xef\xbb\xbf", b"\x00", b"[" * 2000,
    ]
)  # fmt: skip
caught = st.none() | st.binary(max_size=TIGHT.output)
reply_bytes = st.binary() | st.lists(tokens, max_size=9).map(b"".join) | forged.map(lambda r: json.dumps(r).encode())


@settings(max_examples=1000, deadline=None, suppress_health_check=QUIET)
@given(payload=reply_bytes, loading=st.booleans(), output=caught, said=st.integers(0, 1 << 40))
@example(b'{"said":0,"output":"","status":"ok","value":[-1e999]}', False, None, 0)
@example(b'{"said":0,"output":"","status":"ok","value":NaN}', False, None, 0)
@example(b'{"said":0,"output":"","status":"ok","value":' + b"9" * 5000 + b"}", False, None, 0)
def test_any_reply_is_some_execution(payload: bytes, loading: bool, output: bytes | None, said: int) -> None:
    found = execution(
        Raw(7, "reply", payload, 0.1, output, said), TIGHT, "evaluate", loading=loading, deaths=DEATHS_HERE
    )
    assert (found.call, found.duration) == (7, 0.1)
    assert (found.error is None) == (found.status == "ok")
    assert found.status == "ok" or found.value is None
    assert len(found.output.encode()) <= TIGHT.output
    assert len(json.dumps(found.value, allow_nan=False, ensure_ascii=False)) <= TIGHT.result
    if found.error:
        assert found.error.type
        assert all(len(text.encode()) <= 16_000 for text in found.error.model_dump().values() if text)


@settings(max_examples=100, deadline=None, suppress_health_check=QUIET)
@given(
    how=st.sampled_from(["timeout", "memory", "stack", "trap", "unreadable", "too_much"]),
    payload=st.binary(),
    output=caught,
)
def test_any_end_is_some_execution(how: str, payload: bytes, output: bytes | None) -> None:
    found = execution(Raw(7, how, payload, 0.1, output, 100), TIGHT, "evaluate", deaths=DEATHS_HERE)
    assert len(found.output.encode()) <= TIGHT.output
    assert found.status != "ok"
    assert found.error
    assert found.error.message.encode()


WORDS = """
evaluate output reference ( ) [ ] { } : , = == . ; lambda def class return yield await async for in if else try except
finally raise import from with as global del not is None True 0 1 1e999 10**9 'x' f'{1}' b'x' *a **b len print exec
eval type object super open list range iter next getattr globals __import__('os') __name__ while @ := ->
"""
expressions = st.lists(st.sampled_from([*WORDS.split(), "\n", "\n\t"]), max_size=25).map(" ".join)
sources = st.one_of(
    st.text(),
    st.binary().map(lambda b: b.decode("latin-1")),
    expressions,
    expressions.map(lambda e: f"def evaluate(output, reference):\n    return ({e})\n"),
    expressions.map(lambda e: f"x = ({e})\ndef evaluate(output, reference):\n    {e}\n"),
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    driven = Driven(tmp_path_factory.mktemp("fuzz"), "auto")
    yield driven
    assert driven.finish()["status"] == 0


@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
@given(source=sources)
def test_any_script_loads_and_runs_or_fails_in_order(host: Driven, source: str) -> None:
    told = host.ask({"source": source, "batches": [("call", [CLEAN] * 2)], "limits": TIGHT.model_dump()})
    assert "raised" not in told, told["raised"]
    assert [e["call"] for e in told["batches"][0]] == [0, 1]
    for one in (told["loaded"], *told["batches"][0]):
        assert (one["error"] is None) == (one["status"] == "ok")
    assert told["clean"][0]["value"]["score"] == DISTANCE
