"""The template `code-tests` in TypeScript: what a program may try to pass without being right, and kinds of tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

import templates
from runner import InputMapping, SandboxConfig, evaluate
from runner.core.types import Result
from sandboxes import Limits
from sandboxes.base import Isolation
from tests.skips import need

PROGRAMS = Path(__file__).parent / "programs"


def sections(name: str, mark: str = "===") -> dict[str, str]:
    return divided("\n" + (PROGRAMS / name).read_text("utf-8"), mark)


def divided(text: str, mark: str) -> dict[str, str]:
    parts = [part.partition("\n") for part in text.split(f"\n{mark} ")[1:]]
    return {title: body for title, _, body in parts}


CHECKS = sections("checks.txt")
HOSTILE = {**sections("hostile.txt"), **sections("hostile_values.txt")}
HOGS = sections("hogs.txt")
PROBLEMS = {name: divided("\n" + text, "---") for name, text in sections("problems.txt").items()}
PROMISES = "\nasync function g(n) { return f(n); }\n"
HONEST = (PROGRAMS / "honest.js").read_text("utf-8")


def scored(
    rows: list[dict[str, Any]] | Literal["demo"],
    timeout: float = 60,
    isolation: Isolation = "batch",
    jobs: int = 2,
    **literals: Any,
) -> dict[str, Result]:
    need("deno")
    config = SandboxConfig(backend="deno", isolation=isolation, jobs=jobs)
    mapping = InputMapping(literals=literals)
    limits = Limits(timeout=timeout)
    report = evaluate("code-tests", rows, language="typescript", sandbox=config, limits=limits, mapping=mapping)
    return {result.id: result for result in report.results}


def row(name: str, program: str, tests: Any) -> dict[str, Any]:
    return {"id": name, "output": program, "reference": tests}


def checked(program: str) -> list[dict[str, Any]]:
    return [row(name, program, {"test": text, "entry_point": "f"}) for name, text in CHECKS.items()]


@pytest.mark.rotating("templates", "templates", "deno")
def test_an_honest_program_passes_each_check_alone() -> None:
    found = scored(checked(HONEST))
    assert {name: (r.outcome, r.label) for name, r in found.items()} == dict.fromkeys(CHECKS, ("scored", "passed"))


@pytest.mark.rotating("templates", "templates", "deno")
@pytest.mark.parametrize("attack", HOSTILE)
def test_no_trick_claims_a_pass(attack: str) -> None:
    rows = [*checked(HOSTILE[attack] + PROMISES), row("honest", HONEST, CHECKS["toBe"])]
    found = scored(rows)
    assert {name: r for name, r in found.items() if r.outcome != "scored"} == {}
    assert [name for name, r in found.items() if r.score != 0] == ["honest"]


@pytest.mark.rotating("templates", "templates", "deno")
@pytest.mark.parametrize("isolation", ["batch", "call"])
def test_what_a_program_does_is_no_other_row_s_business(isolation: Isolation) -> None:
    rows = []
    for name, program in HOSTILE.items():
        rows += [row(name, program, CHECKS["console.assert"]), row(f"after {name}", HONEST, CHECKS["console.assert"])]
    found = scored(rows, isolation=isolation)
    assert {name: r.score for name, r in found.items()} == {
        one["id"]: float(one["id"].startswith("after ")) for one in rows
    }


@pytest.mark.rotating("templates", "templates", "deno")
@pytest.mark.parametrize("name", HOGS)
def test_loops_bombs_and_exits_fail_their_row_alone_and_are_told_as_what_they_are(name: str) -> None:
    check = "toHaveLength" if name == "a getter that loops" else "console.assert"
    rows = [row("hog", HOGS[name], CHECKS[check]), row("honest", HONEST, CHECKS["console.assert"])]
    found = scored(rows, timeout=10)
    assert (found["hog"].outcome, found["hog"].score) == ("scored", 0.0), found["hog"]
    assert found["hog"].label in {"timeout", "memory", "output", "crash", "spoilt"}, found["hog"]
    assert found["honest"].label == "passed"


@pytest.mark.rotating("templates", "templates", "deno")
@pytest.mark.parametrize("score", ["all", "share"])
def test_problems_of_many_kinds_tell_right_from_wrong(score: str) -> None:
    rows = [
        row(f"{name}, {kind}", parts[kind], parts["tests"])
        for name, parts in PROBLEMS.items()
        for kind in ("right", "wrong")
    ]
    found = scored(rows, score=score)
    for name, result in found.items():
        assert result.outcome == "scored", result
        assert (result.score == 1.0) is name.endswith("right"), result


REFUSED = {
    "a function for the program": ("console.assert(f((x) => x) === 1);", "a function"),
    "a callback done": ("test('t', (done) => { done(); });", "done"),
    "a mock": ("test('t', () => { const m = jest.fn(); expect(f(1)).toBe(1); });", "jest.fn"),
    "a matcher": ("test('t', () => { expect(f(1)).toBeCool(); });", "toBeCool"),
    "a matcher by not": ("test('t', () => { expect(f(1)).not.toHaveBeenCalled(); });", "toHaveBeenCalled"),
    "chains of words": ("test('t', () => { expect(f(1)).to.equal(1); });", "the matcher to,"),
    "only": ("test.only('t', () => { expect(f(1)).toBe(1); });", "test.only"),
    "an assertion": ("import assert from 'assert';\nassert.partialDeepStrictEqual(f(1), 1);", "partialDeepStrictEqual"),
    "another module": ("import _ from 'lodash';\nconsole.assert(f(1) === 1);", "lodash"),
    "no tests": ("const x = 1;", "nothing"),
    "all skipped": ("f(1);\ntest.skip('t', () => { expect(f(1)).toBe(1); });", "no case"),
    "an imported mock": ("import { vi } from 'vitest';\ntest('t', () => { vi.fn(); expect(f(1)).toBe(1); });", "vi.fn"),
    "no program": ("const x = ;", "neither JavaScript nor TypeScript"),
}


@pytest.mark.rotating("templates", "templates", "deno")
def test_tests_that_cannot_be_run_fail_the_row_and_say_why() -> None:
    found = scored([row(name, "const f = (n) => 1;", tests) for name, (tests, _) in REFUSED.items()])
    for name, (_, words) in REFUSED.items():
        error = found[name].error
        assert found[name].outcome == "failed", found[name]
        assert error is not None
        assert words in error.message, error


TEST_TRICKS = {
    "an exit that the program defines": (
        "globalThis.process = { exit() {} };\nvar process = { exit() {} };\nfunction f(n) { return 0; }",
        "if (f(3) !== 7919) process.exit(1);",
    ),
    "Deno's exit": ("function f(n) { return 0; }", "if (f(3) !== 7919) Deno.exit(1);"),
    "assertions that the program defines": (
        "function assertEquals() {}\nfunction f(n) { return 0; }",
        "assertEquals(f(3), 7919);",
    ),
    "a constant that is returned": (
        "const YES = { includes: () => true };\nconst f = () => YES;\nmodule.exports = { YES, f };",
        "import { f, YES } from './f';\n"
        "test('t', () => { expect(YES).toBeDefined(); expect(f(6).includes('x')).toBe(true); });",
    ),
    "an exported object's methods that return forgeries": (
        "const utils = { f: (n) => ({ includes: () => true }) };\nexport default utils;",
        "import utils from './utils';\ntest('t', () => { expect(utils.f(6).includes('needle')).toBe(true); });",
    ),
    "a number that flips, from an object": (
        "let t = 0;\nconst utils = { f: (n) => ({ valueOf: () => t++ % 2 ? -1e9 : 1e9 }) };",
        "const r = utils.f(9);\nconsole.assert(r > 10 && r < 12);",
    ),
    "a static method": (
        "class M { static f(n) { return { includes: () => true }; } }",
        "console.assert(M.f(9).includes('needle'));",
    ),
    "a method of what the tests made": (
        "class S { push() {}\n  toArray() { return { includes: () => true }; } }",
        "const s = new S();\ns.push(7);\nconsole.assert(s.toArray().includes(7));",
    ),
    "a method that returns its object, which flips": (
        "let t = 0;\nclass S { total() { return this; }\n  valueOf() { return t++ % 2 ? -1e9 : 1e9; } }",
        "const r = new S().total();\nconsole.assert(r > 10 && r < 12);",
    ),
    "a method that returns its object, which is told what is expected": (
        "class S { push() {}\n  toArray() { return this; }\n  includes() { return true; }\n"
        "  get length() { return 1; } }",
        "const s = new S();\ns.push(7);\nconsole.assert(s.toArray().length === 1 && s.toArray().includes(7));",
    ),
    "another object of its class": (
        "class S { keys() { return new S(); }\n  has() { return true; }\n  difference() { return new Set(); } }",
        "console.assert(new S().keys().has('k'));",
    ),
    "what takes the text that is expected": (
        "const f = () => ({ split: () => ['', ''], replace: () => '', concat: () => [1, 2] });",
        "console.assert(f(6).split('needle').length === 2);\nconsole.assert(f(6).replace('needle', '') === '');",
    ),
    "a set that says that nothing differs": (
        "const f = () => ({ symmetricDifference: () => new Set(), size: 1 });",
        "console.assert(f(11).symmetricDifference(new Set(['k'])).size === 0);",
    ),
    "a method of what the tests made, which takes no callback": (
        "class S { toArray() { return this; }\n  forEach() {} }",
        "new S().toArray().forEach((one) => console.assert(one === 7919));\nconsole.assert(true);",
    ),
    "a constant with the methods of values": (
        "const X = { includes: () => true };",
        "console.assert(X.includes('a') && X.includes('b'));",
    ),
    "a constant that flips": (
        "let t = 0;\nObject.defineProperty(globalThis, 'X', { get() { return t++ % 2 ? -1e9 : 1e9; } });",
        "console.assert(X > 10 && X < 12);",
    ),
    "a constant object that flips": (
        "let t = 0;\nconst X = { get a() { return t++ % 2 ? -1e9 : 1e9; } };",
        "console.assert(X.a > 10 && X.a < 12);",
    ),
    "other items of an iterator": (
        "function* f(n) { yield 'wrong'; }",
        "test('t', () => { expect(f(3)).toEqual((function* () { yield 1; yield 2; })()); });",
    ),
    "fewer items of an iterator": (
        "function* f(n) { yield 1; }",
        "test('t', () => { expect(f(3)).toEqual([1, 2].values()); });",
    ),
    "another promise": (
        "const f = async (n) => 4;",
        "test('t', () => { expect(f(3)).toEqual(Promise.resolve(5)); });",
    ),
    "what is asked later, by a patched iterator": (
        "let later = [];\nconst own = Array.prototype[Symbol.iterator];\n"
        "Array.prototype[Symbol.iterator] = function () {\n"
        "  if (this[0] && typeof this[0] === 'object' && 'of' in this[0]) later = this;\n"
        "  return Reflect.apply(own, this, []);\n};\n"
        "const list = (...a) => a;\n"
        "const reverse = (l) => later.filter((one) => one.name === 'list' && one.args).at(-1).args;",
        "test('t', () => { expect(reverse(list(1, 2, 3))).toEqual(list(3, 2, 1)); });",
    ),
    "a failed assertion that is caught": (
        "function f(n) { return 0; }",
        "test('t', () => { try { expect(f(3)).toBe(7919); } catch {} });",
    ),
    "too few assertions": (
        "function f(n) { return []; }",
        "test('t', () => { expect.assertions(1); for (const x of f(1)) expect(x).toBe(1); });",
    ),
}


@pytest.mark.rotating("templates", "templates", "deno")
def test_what_tests_use_is_not_the_program_s() -> None:
    found = scored([row(name, program, tests) for name, (program, tests) in TEST_TRICKS.items()])
    assert {name: (r.outcome, r.score) for name, r in found.items()} == dict.fromkeys(TEST_TRICKS, ("scored", 0.0))


RIGHT = {
    "an exported object": (
        "const utils = { f: (n) => n + 1, words: (s) => s.split(' ') };\nexport default utils;",
        "import utils from './utils';\n"
        "test('t', () => { expect(utils.f(1)).toBe(2); expect(utils.words('a b').includes('b')).toBe(true); });",
    ),
    "a class whose methods return their object": (
        "class S { items = new Set();\n  add(x) { this.items.add(x); return this; }\n"
        "  union(o) { const s = new S(); for (const x of [...this.items, ...o.items]) s.add(x); return s; }\n"
        "  has(x) { return this.items.has(x); } }",
        "const s = new S();\ns.add(1).add(2);\nconsole.assert(s.has(2));\n"
        "console.assert([...s.union(new S().add(3)).items].length === 3);",
    ),
    "a variable that changes": (
        "let count = 0;\nfunction up() { count++; }",
        "up();\nconsole.assert(count === 1);\nup();\nconsole.assert(count === 2);",
    ),
    "an iterator": (
        "function* f(n) { for (let at = 0; at < n; at++) yield [at]; }",
        "test('t', () => { expect(f(2)).toEqual([[0], [1]].values()); });",
    ),
}


@pytest.mark.rotating("templates", "templates", "deno")
def test_what_is_no_trick_passes() -> None:
    found = scored([row(name, program, tests) for name, (program, tests) in RIGHT.items()])
    assert {name: (r.label, r.explanation) for name, r in found.items()} == dict.fromkeys(
        RIGHT, ("passed", "All cases passed.")
    )


READ = {
    "readFileSync": "const n = Number(require('fs').readFileSync(0, 'utf8'));\nconsole.log(n * 2);",
    "readline": "const lines = require('readline').createInterface({ input: process.stdin });\n"
    "lines.on('line', (line) => console.log(Number(line) * 2));",
    "for await": "import * as readline from 'node:readline';\n"
    "const lines = readline.createInterface({ input: process.stdin });\n"
    "(async () => { for await (const line of lines) console.log(`${Number(line) * 2}`); })();",
    "stdin": "let text: string = '';\nprocess.stdin.on('data', (part: string) => (text += part));\n"
    "process.stdin.on('end', () => { process.stdout.write(String(Number(text) * 2)); process.exit(0); });",
    "Deno": "const text = await new Response(Deno.stdin.readable).text();\nconsole.log(Number(text) * 2);",
}


@pytest.mark.rotating("templates", "templates", "deno")
def test_programs_read_and_print_and_one_that_fails_after_it_printed_is_no_pass() -> None:
    pairs = [{"input": "2\n", "output": "4\n"}, {"input": "21\n", "output": "42"}]
    bad = {"throws": READ["readFileSync"] + "\nthrow new Error('late');", "wrong": "console.log(4);"}
    bad["rejects"] = READ["readFileSync"] + "\nPromise.reject(new Error('late'));"
    bad["fails"] = READ["readFileSync"] + "\nprocess.exitCode = 1;"
    bad["leaves, failed"] = READ["readFileSync"] + "\nprocess.exitCode = 1;\nprocess.exit();"
    bad["leaves"] = READ["readFileSync"] + "\nprocess.exit(1);"
    found = scored([row(name, program, pairs) for name, program in {**READ, **bad}.items()])
    assert {name: r.score for name, r in found.items()} == {**dict.fromkeys(READ, 1.0), **dict.fromkeys(bad, 0.0)}


@pytest.mark.rotating("templates", "templates", "deno")
def test_the_demo_in_typescript_has_programs_in_typescript() -> None:
    assert templates.demo("code-tests", "typescript") != templates.demo("code-tests")
    found = scored("demo")
    assert {name: (r.outcome, r.label) for name, r in found.items()} == {
        name: ("scored", "failed" if name.endswith("-wrong") else "passed") for name in found
    }
    assert len(found) == 10


def test_a_template_whose_rows_are_in_no_language_has_one_demo() -> None:
    assert templates.demo("json-distance", "typescript") == templates.demo("json-distance")
