"""The template `code-tests` in TypeScript: right programs that once did not pass, each beside a wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.templates.test_code_tests_typescript import row, scored

FENCE = "```"
POINT = "class Point { constructor(x) { this.x = x; } }\nclass Other { constructor(x) { this.x = x; } }\n"
CODED = "class Coded extends Error { constructor(text, code) { super(text); this.code = code; } }\n"
LAZY = (
    "const lazy = (e) =>\n"
    "  Object.defineProperty(e, 'lazy', { enumerable: true, get() { throw new Error('not yet'); } });\n"
)
RAISES = "test('t', () => { expect(() => f()).toThrow(TypeError); expect(() => f()).toThrow('no'); });"
# The tests, a right program and a wrong one.
PROGRAMS: dict[str, tuple[Any, str, str]] = {
    "answers inside a list": (
        "console.assert(sum([f(1), f(2)]) === 6);\nconsole.assert(sum([1, { n: f(1) }.n]) === 3);",
        "const f = (n) => 2 * n;\nconst sum = (all) => all.reduce((a, b) => a + b, 0);",
        "const f = (n) => 2 * n;\nconst sum = (all) => all.length;",
    ),
    "the main module": (
        [{"input": "2", "output": "4"}],
        "function main() { console.log(Number(require('fs').readFileSync(0, 'utf8')) * 2); }\n"
        "if (require.main === module) main();",
        "if (require.main !== module) console.log(4);",
    ),
    "the main module, by import.meta": (
        [{"input": "2", "output": "4"}],
        "import { readFileSync } from 'node:fs';\n"
        "if (import.meta.main) console.log(Number(readFileSync(0, 'utf8')) * 2);",
        "if (!import.meta.main) console.log(4);",
    ),
    "a module that is not the main one": (
        "console.assert(f(2) === 4);",
        "const f = (n) => n * 2;\nif (require.main === module) process.exit(1);",
        "const f = (n) => n;",
    ),
    "nought without its sign": (
        {"test": [{"input": [0], "output": [0, {"n": 0}]}], "entry_point": "f"},
        "const f = (n) => [-n, { n: -n }];",
        "const f = (n) => [-1, { n: -n }];",
    ),
    "instances under strict equality": (
        "test('t', () => { expect([at(1)]).toStrictEqual([new Point(1)]);\n"
        "expect(at(1)).not.toStrictEqual({ x: 1 }); });",
        f"{POINT}const at = (x) => new Point(x);",
        f"{POINT}const at = (x) => new Other(x);",
    ),
    "instances in Deno's assertEquals": (
        "import { assertEquals } from 'jsr:@std/assert';\nassertEquals(at(1), new Point(1));",
        f"{POINT}const at = (x) => new Point(x);",
        f"{POINT}const at = (x) => new Point(x + 1);",
    ),
    "what an error holds": (
        "test('t', () => { try { f(); expect.fail(); } catch (e) { expect(e.code).toBe(7);\n"
        "expect(e).toMatchObject({ code: 7 }); expect(e.cause.message).toBe('why'); } });",
        f"{CODED}const f = () => {{ const e = new Coded('no', 7); e.cause = new Error('why'); throw e; }};",
        f"{CODED}const f = () => {{ const e = new Coded('no', 8); e.cause = new Error('why'); throw e; }};",
    ),
    "errors with what they hold": (
        "const assert = require('assert');\nassert.deepStrictEqual(f(), Object.assign(new Error('no'), { code: 7 }));",
        "const f = () => Object.assign(new Error('no'), { code: 7 });",
        "const f = () => Object.assign(new Error('no'), { code: 8 });",
    ),
    "an error that holds much": (
        RAISES,
        "const f = () => { throw Object.assign(new TypeError('no'), { input: new Uint8Array(3e6) }); };",
        "const f = () => { throw Object.assign(new Error('no'), { input: new Uint8Array(3e6) }); };",
    ),
    "an error that holds what is deep": (
        RAISES,
        "let o = {};\nfor (let n = 0; n < 300; n++) o = { o };\n"
        "const f = () => { throw Object.assign(new TypeError('no'), { o }); };",
        "const f = () => { throw Object.assign(new Error('no'), { o: {} }); };",
    ),
    "an error with a getter that throws": (
        RAISES,
        f"{LAZY}const f = () => {{ throw lazy(new TypeError('no')); }};",
        f"{LAZY}const f = () => {{ throw lazy(new Error('no')); }};",
    ),
    "a text and a comment that look like types, not strict": (
        "console.assert(f(2) === 'a<b>(2');",
        "// makes new Array<number>(3)\nfunction f(n) { for (i = 0; i < n; i++); return 'a<b>(' + i; }",
        "// makes new Array<number>(3)\nfunction f(n) { for (i = 0; i < n; i++); return 'a<b>(' + n + 1; }",
    ),
    "a text that is the name of the main module": (
        "console.assert(f() === 'import.meta.' + 'main');",
        "const f = () => 'import.meta.main';",
        "const f = () => 'import.meta';",
    ),
    "a fence that nothing closes": (
        "console.assert(f(1) === 2);",
        f"Here it is:\n\n{FENCE}js\nconst f = (n) => n + 1;\n",
        f"Here it is:\n\n{FENCE}js\nconst f = (n) => n;\n",
    ),
    "a call with types, without a fence": (
        "console.assert(g() === 1);",
        "function f<T>(n: T): T { return n; }\nconst number = 5, g = () => f<number>(1);",
        "function f<T>(n: T): T { return n; }\nconst number = 5, g = () => f<number>(2);",
    ),
    "tests that are not strict, of a program with types": (
        "n = f(1);\nconsole.assert(n === 2);",
        f"{FENCE}ts\nconst f = (n: number): number => n + 1;\n{FENCE}",
        f"{FENCE}ts\nconst f = (n: number): number => n;\n{FENCE}",
    ),
    "an object that is read twice": (
        "const all = f();\nconsole.assert([...all].length === 2);\nconsole.assert([...all].length === 2);",
        "class L { *[Symbol.iterator]() { yield 1; yield 2; } }\nconst f = () => new L();",
        "class L { *[Symbol.iterator]() { yield 1; } }\nconst f = () => new L();",
    ),
}


@pytest.mark.rotating("templates", "templates", "deno")
def test_right_programs_pass_and_wrong_ones_do_not() -> None:
    rows = [
        row(f"{name}, {kind}", program, tests)
        for name, (tests, *programs) in PROGRAMS.items()
        for kind, program in zip(("right", "wrong"), programs, strict=True)
    ]
    found = scored(rows)
    assert {name: (r.score, r.explanation if r.score is None else "") for name, r in found.items()} == {
        one["id"]: (float(one["id"].endswith("right")), "") for one in rows
    }


@pytest.mark.rotating("templates", "templates", "deno")
def test_tests_that_fail_before_they_ask_say_how() -> None:
    error = scored([row("t", "const f = (n) => 1;", "const x = null;\nx.y();\nconsole.assert(f(1) === 1);")])["t"].error
    assert error is not None
    assert "fails before it asks anything: line 2" in error.message
    assert "of the program" in error.message


SAYS_YES = """
class V { contains() { return true; } isEqual() { return true; } eq() { return true; } compareTo() { return 0; } }
const f = (n) => new V();
"""


@pytest.mark.rotating("templates", "templates", "deno")
def test_what_a_program_says_of_itself_is_no_pass_and_it_is_not_accused() -> None:
    asks = ["contains(7919)", "isEqual(f(9))", "eq(7919)", "compareTo(7919) === 0"]
    found = scored([row(ask, SAYS_YES, f"console.assert(f(1).{ask});") for ask in asks])
    assert {name: (r.score, r.label) for name, r in found.items()} == dict.fromkeys(asks, (0.0, "spoilt"))
    for ask, result in found.items():
        name = ask.partition("(")[0]
        words = f"The program cannot be judged: the tests ask the program's own `{name}` what they expect."
        assert result.explanation == words
