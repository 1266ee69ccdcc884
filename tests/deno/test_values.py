"""What becomes of every kind of value that a TypeScript script returns, and what it sees of those it is given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes import Isolation
from tests.deno.opened import Opened
from tests.inputs.test_rules import TABLES

pytestmark = pytest.mark.rotating("deno", "deno")

RESULTS: dict[str, Any] = {
    "null": None,
    "true": True,
    "'text'": "text",
    "0.1 + 0.2": 0.1 + 0.2,
    "-0": 0,
    "5e-324": 5e-324,
    "1e300": 1e300,
    "2 ** 53 + 1": 9007199254740992,
    "2 ** 64": 2.0**64,
    "Promise.resolve(3)": 3,
    "(async () => ({score: await 0.5}))()": {"score": 0.5},
    "{then: (done) => done(7)}": 7,
    "{then: 5}": {"then": 5},
    "{score: 1, explanation: undefined}": {"score": 1},
    "{a: {b: undefined}, c: [{d: undefined}]}": {"a": {}, "c": [{}]},
    "Object.create(null)": {},
    "Object.assign(Object.create(null), {a: 1})": {"a": 1},
    "{[Symbol('s')]: 1, a: 1}": {"a": 1},
    "Object.assign([1], {extra: 2})": [1],
    "Object.defineProperty({a: 1}, 'hidden', {value: 2})": {"a": 1},
    "{get a() { return 1 }}": {"a": 1},
    "new Proxy({a: 1}, {})": {"a": 1},
    'JSON.parse(\'{"__proto__": 5, "a": 1}\')': {"__proto__": 5, "a": 1},
    "{['__proto__']: [1], constructor: 1, toString: 2}": {"__proto__": [1], "constructor": 1, "toString": 2},
    "'\\ud800'": "\ud800",
    "'\\u2028\\u0000\\u{1F600}'": "\u2028\x00\U0001f600",
    "((one) => [one, one])({a: 1})": [{"a": 1}, {"a": 1}],
    "{b: 1, 1: 2, a: 3}": {"1": 2, "b": 1, "a": 3},
}

REFUSED = {
    "undefined": "undefined",
    "void 0": "undefined",
    "Promise.resolve()": "undefined",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "{score: -Infinity}": "-Infinity",
    "{a: [{b: NaN}]}": "NaN",
    "10n": "BigInt",
    "[1n]": "BigInt",
    "() => 1": "function",
    "{score: Math.max}": "function",
    "class {}": "function",
    "Symbol('s')": "symbol",
    "[undefined]": "undefined",
    "[1, , 3]": "undefined",
    "((a) => a.a = a)({})": "contains itself",
    "((a) => (a.push([a]), a))([])": "contains itself",
    "new Map([[1, 2]])": "Map",
    "new Set([1])": "Set",
    "new WeakMap()": "WeakMap",
    "new Date(0)": "Date",
    "/x/": "RegExp",
    "new Error('e')": "Error",
    "{score: new TypeError('e')}": "TypeError",
    "new Uint8Array(2)": "Uint8Array",
    "new ArrayBuffer(2)": "ArrayBuffer",
    "new (class Verdict { score = 1 })()": "Verdict",
    "new (class { score = 1 })()": "a plain object",
    "Object.create({score: 1})": "a plain object",
    "new String('x')": "String",
    "new Number(5)": "Number",
    "globalThis": "a plain object",
    "{toJSON: () => 5}": "function",
    "(function* () {})()": "a plain object",
}

RAISED = {
    "{get score() { throw new RangeError('from a getter') }}": "from a getter",
    "{then() { throw new RangeError('from then') }}": "from then",
    "Promise.reject(new RangeError('from a promise'))": "from a promise",
    "new Proxy({}, {ownKeys() { throw new RangeError('from a trap') }})": "from a trap",
}


@pytest.mark.parametrize("isolation", ["batch", "call"])
def test_what_can_be_a_result_is_one(opened: Opened, isolation: Isolation) -> None:
    found = opened.each(list(RESULTS), isolation)
    seen = {e: (x.status, x.value) for e, x in zip(RESULTS, found, strict=True)}
    assert seen == {e: ("ok", value) for e, value in RESULTS.items()}


def test_minus_zero_is_zero(opened: Opened) -> None:
    (found,) = opened.each(["[-0, {a: -0}]"])
    assert json.dumps(found.value) == '[0, {"a": 0}]'


def test_what_cannot_be_a_result_is_told_with_what_to_return(opened: Opened) -> None:
    found = opened.each(list(REFUSED))
    for (expression, word), execution in zip(REFUSED.items(), found, strict=True):
        assert execution.error is not None, expression
        assert (execution.status, execution.error.type) == ("no_result", "Result"), expression
        assert word in execution.error.message, expression
        assert "return" in execution.error.message.partition(": ")[2], expression


def test_what_is_nested_too_deeply_is_no_result(opened: Opened) -> None:
    deep = "((a) => { for (let n = 0; n < 50_000; n++) a = [a]; return a })([])"
    found, after = opened.each([deep, "1"])
    assert found.error is not None
    assert (found.status, found.error.type) == ("no_result", "Result")
    assert "deep" in found.error.message
    assert after.value == 1


def test_what_fails_while_it_is_read_is_the_scripts_error(opened: Opened) -> None:
    found = opened.each(list(RAISED))
    for message, execution in zip(RAISED.values(), found, strict=True):
        assert execution.error is not None
        assert (execution.status, execution.error.type, execution.error.message) == ("error", "RangeError", message)


def test_the_rules_say_what_becomes_of_a_value(opened: Opened) -> None:
    taken = TABLES["TypeScript returned | is taken for"]
    found = opened.each([expression for expression, _ in taken])
    assert [(e.status, e.value) for e in found] == [("ok", json.loads(value)) for _, value in taken]
    refused = TABLES["TypeScript returned or threw | kind | the message says"]
    kinds = {"no_result": "invalid_result", "error": "raised"}
    for (expression, kind, message), execution in zip(
        refused, opened.each([row[0] for row in refused], timeout=2), strict=True
    ):
        assert execution.error is not None, expression
        assert kinds.get(execution.status, execution.status) == kind, expression
        assert message in f"{execution.error.type}: {execution.error.message}", expression
    assert len(taken) + len(refused) >= 30, "the document has lost rows"


THROWN = {
    "new TypeError('mine')": ("TypeError", "mine"),
    "new (class Own extends Error { name = 'Own' })('mine')": ("Own", "mine"),
    "new DOMException('mine', 'AbortError')": ("AbortError", "mine"),
    "new AggregateError([new Error('a')], 'mine')": ("AggregateError", "mine"),
    "{name: 'Like', message: 'mine'}": ("Like", "mine"),
    "'mine'": ("Thrown", "mine"),
    "5n": ("Thrown", "5"),
    "null": ("Thrown", "null"),
    "undefined": ("Thrown", "undefined"),
    "Symbol('s')": ("Thrown", "a symbol"),
    "{get message() { throw 1 }}": ("Error", "its text cannot be shown"),
}


def test_whatever_is_thrown_has_a_type_and_a_message(opened: Opened) -> None:
    found = opened.each([f"(() => {{ throw {expression} }})()" for expression in THROWN])
    assert {e.status for e in found} == {"error"}
    told = [(e.error.type, e.error.message) for e in found if e.error]
    assert dict(zip(THROWN, told, strict=True)) == THROWN


def test_a_traceback_names_the_scripts_own_lines(opened: Opened) -> None:
    source = "const fails = () => {\n  throw new Error('here');\n};\nexport const evaluate = () => fails();\n"
    (found,) = opened.evaluate(source, [{}])
    assert found.error is not None
    assert "evaluator.ts:2" in found.error.traceback
    assert "evaluator.ts:4" in found.error.traceback
    assert "blob:" not in found.error.traceback


def test_arguments_are_what_json_says(opened: Opened) -> None:
    source = """
export function evaluate({x, ...more}) {
  return [Object.is(x[0], -0), x[1], x[2] === x[3], x[4], [...x[5]].length, Object.keys(more), ({}).polluted ?? null];
}
"""
    x = [-0.0, 1.0, 2**53 + 1, 2**53, 10**400, "\ud800é"]
    (found,) = opened.evaluate(source, [{"x": x, "__proto__": {"polluted": 1}, "constructor": 1}])
    assert found.value is None
    assert found.error is not None
    assert "Infinity" in found.error.message  # 10**400, which no number of JavaScript can hold
    x[4] = 10**30
    (found,) = opened.evaluate(source, [{"x": x, "__proto__": {"polluted": 1}, "constructor": 1}])
    assert found.value == [True, 1, True, 1e30, 2, ["__proto__", "constructor"], None]


def test_arguments_nested_deeply_arrive(opened: Opened) -> None:
    value: Any = 1
    for _ in range(400):
        value = {"k": [value]}
    (found,) = opened.evaluate("export const evaluate = ({x}) => x;", [{"x": value}])
    assert found.value == value


keys = st.text(max_size=5) | st.sampled_from(["__proto__", "constructor", "then", "toJSON", "length", "\0", "\ud800"])
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.lists(values, min_size=20, max_size=20))
def test_any_value_that_javascript_can_hold_makes_the_round_trip(opened: Opened, batch: list[Any]) -> None:
    found = opened.evaluate("export const evaluate = ({x}) => x;", [{"x": value} for value in batch])
    assert {e.status for e in found} == {"ok"}
    assert [_comparable(e.value) for e in found] == [_comparable(value) for value in batch]


def _comparable(value: Any) -> str:
    """As text, for True is no number; JavaScript has one kind of number, and no minus zero in results."""
    read = json.loads(json.dumps(value), parse_int=float, parse_float=lambda digits: float(digits) + 0)
    return json.dumps(read, sort_keys=True)
