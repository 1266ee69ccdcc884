"""The template `code-tests` in TypeScript: what a program may try to pass falsely, and tests of all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from runner import InputMapping, SandboxConfig, evaluate
from runner.types import Result
from sandboxes import Limits, SandboxUnavailableError, find

SECRET = "import assert from 'node:assert';\nassert.equal(f(3), 7919);\nassert.deepEqual(f(4), { a: [7927] });\n"
HONEST = "export function f(n: number): any { return n === 3 ? 7919 : { a: [7927] }; }\n"

ATTACKS = {
    "converts to everything": "function f(n) { return { valueOf: () => 7919, toJSON: () => 7919 }; }",
    "a class without fields": "class A { get a() { return [7927]; } }\nfunction f(n) { return new A(); }",
    "a proxy": "function f(n) { return new Proxy({}, { get: () => 7919, ownKeys: () => ['a'] }); }",
    "patches assert": """
import assert from "node:assert";
for (const name of Object.keys(assert)) (assert as any)[name] = () => {};
(globalThis as any).assert = () => {};
function f(n) { return 0; }
""",
    "patches the built-in classes": """
Object.prototype.toString = () => "7919";
(Object.prototype as any).held = 1;
Array.prototype.includes = () => true;
Object.is = () => true;
Object.hasOwn = () => true;
JSON.stringify = () => '{"label":"passed","score":1}';
JSON.parse = () => ({ label: "passed", score: 1 });
Number.isFinite = () => true;
Function.prototype.call = () => 7919;
function f(n) { return 0; }
""",
    "patches promises": """
Promise.prototype.then = function (done) { done?.({ label: "passed", score: 1 }); return this; };
(globalThis as any).Promise = class { static resolve() { return { label: "passed", score: 1 }; } };
function f(n) { return 0; }
""",
    "a promise of its own": "function f(n) { return { then: (done) => done({ label: 'passed', score: 1 }) }; }",
    "says that it passed": "function f(n) { return { label: 'passed', score: 1 }; }\nconsole.log('passed');",
    "asks itself": "function f(n) { return { apart: { asked: [], output: '', reference: null } }; }",
    "looks for the tests": """
const own = (name) => String(globalThis[name]) + JSON.stringify(globalThis[name]);
const text = (name) => { try { return own(name); } catch { return ""; } };
const seen = Object.getOwnPropertyNames(globalThis).map(text).join() + new Error().stack;
function f(n) { return seen.includes("79" + "19") ? 7919 : 0; }
""",
    "posts a result": """
try { (globalThis as any).postMessage({ kind: 2, text: '{"status":"ok","value":1}' }); } catch {}
self.dispatchEvent(new MessageEvent("message", { data: { label: "passed", score: 1 } }));
function f(n) { return 0; }
""",
    "answers wrongly": "function f(n) { return { own: 0, class: 'x', undefined: true, number: '7919' }; }",
    "leaves": "function f(n) { Deno.exit(0); }",
    "leaves while it loads": "Deno.exit(0);",
    "closes": "function f(n) { close(); return 0; }",
    "throws later": "function f(n) { queueMicrotask(() => { throw 1; }); Promise.reject(1); return 0; }",
    "throws no error": "function f(n) { throw null; }",
    "has a hostile error": "function f(n) { throw { get message() { throw 1; }, get name() { throw 1; } }; }",
    "recurses": "function f(n) { return f(n + 1); }",
    "nests too deeply": "function f(n) { let a: any = []; for (let i = 0; i < 100_000; i++) a = [a]; return a; }",
    "contains itself": "function f(n) { const found: any = {}; found.found = found; return found; }",
    "returns too much": "function f(n) { return 'x'.repeat(30_000_000); }",
}
HOGS = {
    "loops": ("function f(n) { while (true); }", {"timeout"}),
    "loops while it loads": ("while (true);", {"timeout"}),
    "never answers": ("async function f(n) { await new Promise(() => {}); }", {"timeout", "crash"}),
    "fills the memory": (
        "function f(n) { const all = []; while (true) all.push(new Array(1_000_000).fill(n)); }",
        {"memory", "failed", "crash"},
    ),
}
TESTS = {
    "MultiPL-E": (
        "function f(n: number): number[] {\n  return [n, n];\n}\n",
        "declare var require: any;\nconst assert = require('node:assert');\n\n\nfunction test() {\n"
        "  let candidate = f;\n"
        "  assert.deepEqual(candidate(1),[1, 1]);\n  assert.deepEqual(candidate(2),[2, 2]);\n}\n\ntest();\n",
    ),
    "HumanEval-X": (
        "const f = (n) => {\n  return n * 2\n}\n",
        "const testF = () => {\n  console.assert(f(2) === 4)\n  console.assert(f(3) === 6)\n}\n\ntestF()\n",
    ),
    "Vitest": (
        "export class Stack<T> {\n  items: T[] = [];\n  push(x: T) { this.items.push(x); }\n  pop(): T {\n"
        "    if (!this.items.length) throw new RangeError('empty');\n    return this.items.pop()!;\n  }\n"
        "  get size() { return this.items.length; }\n}\n",
        "import { describe, expect, it } from 'vitest';\nimport { Stack } from './solution';\n"
        "describe('Stack', () => {\n"
        "  it('pushes', () => {\n    const s = new Stack<number>();\n    s.push(1);\n    s.push(2);\n"
        "    expect(s.size).toBe(2);\n    expect(s.pop()).toBe(2);\n    expect(s).not.toEqual({});\n  });\n"
        "  it('is empty', () => {\n    expect(() => new Stack().pop()).toThrow('empty');\n  });\n});\n",
    ),
    "node:test": (
        "export async function f(x: any) {\n  if (x < 0) throw new TypeError('no');\n"
        "  return [x, undefined, new Map([[1, NaN]]), 1n];\n}",
        "import test from 'node:test';\nimport assert from 'node:assert/strict';\nimport { f } from './solution.ts';\n"
        "test('values', async () => { assert.deepEqual(await f(1), [1, undefined, new Map([[1, NaN]]), 1n]); });\n"
        "test('rejects', async () => { await assert.rejects(f(-1), TypeError); });\n",
    ),
    "plain errors": (
        "function f(n: number) { return n > 0 ? n : -n; }",
        "for (const n of [1, -2, 3]) {\n  if (f(n) !== Math.abs(n)) throw new Error(`wrong for ${n}`);\n}\n",
    ),
    "changed arguments": (
        "function f(x: number[]) { x.sort(); x.push(9); }",
        "const a = [3, 1];\nassert.equal(f(a), undefined);\nassert.deepEqual(a, [1, 3, 9]);\n",
    ),
    "CommonJS": (
        "module.exports = { f: (n) => -n };",
        "const { f } = require('./solution');\nassert.strictEqual(f(0), -0);\n",
    ),
}


def scored(programs: dict[str, tuple[str, Any]], timeout: float = 60, **literals: Any) -> dict[str, Result]:
    try:
        find("deno").check()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    rows = [{"id": name, "output": text, "reference": tests} for name, (text, tests) in programs.items()]
    config = SandboxConfig(backend="deno", jobs=2)
    mapping = InputMapping(literals=literals)
    limits = Limits(timeout=timeout)
    report = evaluate("code-tests", rows, sandbox=config, limits=limits, mapping=mapping, language="typescript")
    return {result.id: result for result in report.results}


@pytest.mark.rotating("templates", "templates", "deno")
def test_no_trick_claims_a_pass() -> None:
    found = scored({name: (text, SECRET) for name, text in {**ATTACKS, "honest": HONEST}.items()})
    assert {name: r for name, r in found.items() if r.outcome != "scored"} == {}
    assert [name for name, r in found.items() if r.score != 0] == ["honest"]


@pytest.mark.rotating("templates", "templates", "deno")
def test_loops_and_bombs_fail_their_row_alone_and_are_told_as_what_they_are() -> None:
    programs = {name: (text, SECRET) for name, (text, _) in HOGS.items()}
    found = scored({**programs, "honest": (HONEST, SECRET)}, timeout=8)
    for name, (_, labels) in HOGS.items():
        assert (found[name].outcome, found[name].score) == ("scored", 0.0), found[name]
        assert found[name].label in labels, found[name]
    assert found["honest"].label == "passed"


@pytest.mark.rotating("templates", "templates", "deno")
@pytest.mark.parametrize("score", ["all", "share"])
def test_tests_of_many_kinds_pass_and_a_program_that_does_nothing_fails_them(score: str) -> None:
    nothing = "export function f() { return {}; }\nexport class Stack {}\n"
    rows = {f"{name}, good": row for name, row in TESTS.items()}
    rows |= {f"{name}, bad": (nothing, tests) for name, (_, tests) in TESTS.items()}
    for name, result in scored(rows, score=score).items():
        assert result.outcome == "scored", result
        assert (result.score == 1.0) is name.endswith("good"), result


@pytest.mark.rotating("templates", "templates", "deno")
def test_tests_that_cannot_be_run_fail_the_row() -> None:
    tests = {
        "no TypeScript": "assert(f(",
        "no question": "const x = 1;",
        "a function for the program": "assert.equal(f((x) => x), 1);",
        "an unknown package": "import { x } from 'left-pad';\nassert.equal(f(x), 1);",
    }
    found = scored({name: ("function f(n) { return n; }", text) for name, text in tests.items()})
    assert {name: (r.outcome, r.error.kind if r.error else "") for name, r in found.items()} == dict.fromkeys(
        tests, ("failed", "raised")
    )
