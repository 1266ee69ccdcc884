"""The template `code-tests` in TypeScript: what the tests of a row leave behind reaches no other row."""

from __future__ import annotations

from typing import Any

import pytest

from sandboxes.base import Isolation
from tests.templates.test_code_tests_typescript import row, scored

WRONG = "const f = (n) => 0;"
EXPECTS = "console.assert(f(3) === 7919);"
# Each leaves something by which the wrong program passes the tests beside it.
LEFT: dict[str, tuple[str, str]] = {
    "a global": ("f(1); helped = () => 7919;", "f(1);\nconsole.assert(helped() === 7919);"),
    "a property of the global object": ("f(1); globalThis.g = () => 7919;", "f(1);\nconsole.assert(g(3) === 7919);"),
    "a method of a prototype": (
        "f(1); Number.prototype.valueOf = () => 7919;",
        "console.assert(f(3).valueOf() === 7919);",
    ),
    "a new method of a prototype": (
        "f(1); Array.prototype.last = () => 7919;",
        "f(1);\nconsole.assert([0].last() === 7919);",
    ),
    "a patched function": ("f(1); Math.abs = () => 0;", "console.assert(Math.abs(f(3) - 7919) === 0);"),
    "a patched method of arrays": (
        "f(1); Array.prototype.some = () => false;",
        "f(1);\nconsole.assert([1].some((one) => one === 1) === false);",
    ),
    "a patched clock": ("f(1); Date.now = () => 7919;", "console.assert(f(3) + Date.now() === 7919);"),
    "a getter": (
        "f(1); Object.defineProperty(Object.prototype, 'g', { get: () => 7919 });",
        "console.assert(({ n: f(3) }).g === 7919);",
    ),
    "another prototype": (
        "f(1); Object.setPrototypeOf(Number.prototype, { twice: () => 7919 });",
        "console.assert(f(3).twice() === 7919);",
    ),
    "a frozen prototype": (
        "f(1); Object.freeze(Array.prototype);",
        "f(1);\nconsole.assert(Object.isFrozen(Array.prototype));",
    ),
    "a property of a function": ("f(1); Math.max.seen = 7919;", "console.assert(f(3) + Math.max.seen === 7919);"),
    "a method of the console": ("f(1); console.log.seen = 7919;", "console.assert(f(3) + console.log.seen === 7919);"),
    "a state of a module": (
        "import util from 'util';\nf(1); util.inspect.defaultOptions.depth = 7919;",
        "import util from 'util';\nconsole.assert(f(3) + util.inspect.defaultOptions.depth === 7919);",
    ),
    "a chain of promises": (
        "f(1); let at = Promise.resolve();\n"
        "for (let n = 0; n < 5000; n++) at = at.then(() => { if (n === 4999) globalThis.late = 7919; });",
        "f(1);\ntest('t', async () => { await 1; expect(globalThis.late).toBe(7919); });",
    ),
    "a method of generators": (
        "f(1); Object.getPrototypeOf(function* () {}).prototype.sum = () => 7919;",
        "f(3);\nconsole.assert((function* () {})().sum() === 7919);",
    ),
    "a property of iterators": (
        "f(1); Object.getPrototypeOf([][Symbol.iterator]()).seen = 7919;",
        "console.assert(f(3) + Object.getPrototypeOf([][Symbol.iterator]()).seen === 7919);",
    ),
    "a property of async functions": (
        "f(1); Object.getPrototypeOf(async () => {}).seen = 7919;",
        "console.assert(f(3) + (async () => {}).seen === 7919);",
    ),
    "a mark": (
        "f(1); performance.mark('a');",
        "console.assert(f(3) + performance.getEntriesByName('a').length === 1);",
    ),
    "what shows": (
        "f(1); Object.defineProperty(Object.prototype, 'toString', { enumerable: true });",
        "f(3);\nlet n = 0;\nfor (const key in {}) n++;\nconsole.assert(n === 1);",
    ),
    "what cannot be replaced": (
        "f(1); Object.defineProperty(Math, 'abs', { writable: false, configurable: false });",
        "f(3);\nMath.abs = () => 1;\nconsole.assert(Math.abs(0) === 0);",
    ),
    "a property in place of another": (
        "f(1); delete Math.max.name; Math.max.seen = 7919;",
        "console.assert(f(3) + Math.max.seen === 7919);",
    ),
    "another length": (
        "f(1); Object.defineProperty(Math.max, 'length', { value: 7919 });",
        "console.assert(f(3) + Math.max.length === 7919);",
    ),
    "a property of a getter": (
        "f(1); Object.getOwnPropertyDescriptor(Map.prototype, 'size').get.seen = 7919;",
        "console.assert(f(3) + Object.getOwnPropertyDescriptor(Map.prototype, 'size').get.seen === 7919);",
    ),
    "a message": (
        "f(1); const { port1, port2 } = new MessageChannel();\n"
        "port1.onmessage = () => { globalThis.late = 7919; port1.close(); };\n"
        "setTimeout(() => port2.postMessage(1), 1);",
        "f(1);\ntest('t', async () => {\n"
        "  await new Promise((done) => setTimeout(done, 50));\n  expect(globalThis.late).toBe(7919);\n});",
    ),
    "what listens": (
        "f(1); addEventListener('unhandledrejection', (event) => event.stopImmediatePropagation());",
        "f(1);\nconsole.assert(true);\nPromise.reject(new Error('no'));",
    ),
}


@pytest.mark.rotating("templates", "templates", "deno")
@pytest.mark.parametrize("isolation", ["batch", "call"])
def test_what_tests_leave_reaches_no_other_row(isolation: Isolation) -> None:
    rows: list[dict[str, Any]] = []
    for name, (leaves, expects) in LEFT.items():
        rows += [row(f"{name}, left", "const f = (n) => 7919;", leaves), row(name, WRONG, expects)]
    found = scored(rows, isolation=isolation, jobs=1)
    assert {name: found[name].score for name in LEFT} == dict.fromkeys(LEFT, 0.0)
    assert {found[f"{name}, left"].label for name in LEFT} == {"passed"}


@pytest.mark.rotating("templates", "templates", "deno")
@pytest.mark.parametrize(
    "leaves",
    [
        "f(1); Object.defineProperty(Math, 'random', { get() { throw new Error('no'); }, configurable: true });",
        "f(1); Object.defineProperty(Math, 'random', { get() { for (;;); }, configurable: true });",
    ],
)
def test_a_getter_that_tests_leave_is_not_run_before_the_next_row(leaves: str) -> None:
    right = "const f = (n) => 7919;"
    rows = [row("left", right, leaves), row("right", right, EXPECTS), row("wrong", WRONG, EXPECTS)]
    found = scored(rows, timeout=20, jobs=1)
    assert {name: r.score for name, r in found.items()} == {"left": 1.0, "right": 1.0, "wrong": 0.0}


TIMERS = {
    "an interval": "setInterval(() => {}, 1);\ntest('t', () => { expect(f(3)).toBe(7919); });",
    "an interval of a test": "test('t', () => { setInterval(() => {}, 1); expect(f(3)).toBe(7919); });",
    "a timer of a test that stopped": (
        "setTimeout(() => { globalThis.f = () => 7919; }, 1);\nconsole.assert(f(3) === 7919);"
    ),
}


@pytest.mark.rotating("templates", "templates", "deno")
def test_timers_that_tests_leave_end_with_their_row() -> None:
    rows = []
    for name, tests in TIMERS.items():
        rows += [row(name, "const f = (n) => 7919;", tests), row(f"{name}, wrong", WRONG, tests)]
    found = scored(rows, jobs=1)
    assert {name: r.score for name, r in found.items()} == {
        one["id"]: 0.0 if one["id"].endswith("wrong") else 1.0 for one in rows
    }


LATE = (
    "test('t', () => {{ let n = 0;\n"
    "const t = setInterval(() => {{ if (++n === {n}) {{ clearInterval(t); {then} }} }}, 1); }});"
)


@pytest.mark.rotating("templates", "templates", "deno")
def test_an_interval_that_ends_is_waited_for() -> None:
    counts = LATE.format(n=10, then="expect(f(3)).toBe(7919);")
    polls = (
        "test('t', () => { let due = false; setTimeout(() => { due = true; }, 60);\n"
        "const t = setInterval(() => { if (due) { clearInterval(t); expect(f(3)).toBe(7919); } }, 1); });"
    )
    asks = (
        LATE.format(n=40, then="")
        .replace("if (", "expect(f(1)).toBeDefined(); if (")
        .replace("clearInterval(t);", "clearInterval(t); expect(f(3)).toBe(7919);")
    )
    tests = {"counts": counts, "polls": polls, "asks": asks}
    rows = [
        row(f"{name} {program}", program, text)
        for name, text in tests.items()
        for program in (WRONG, "const f = (n) => 7919;")
    ]
    found = scored(rows)
    assert {name: r.score for name, r in found.items()} == {one["id"]: float("7919" in one["output"]) for one in rows}
