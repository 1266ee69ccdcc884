"""TypeScript scripts as evaluators: what is found in them, and how what cannot be used is refused."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from runner.core.types import Continuous, Parameter
from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.load import MAX_SOURCE, read_evaluator
from runner.inputs.evaluators.typescript.parse import TypeScriptModule, exporting
from sandboxes.base import Call, Limits, SandboxConfig
from sandboxes.errors import SandboxUnavailableError
from sandboxes.registry import create
from tests.inputs.parsing import parsed, refusal
from tests.scripts import typescript
from tests.skips import need

GOOD = "export function evaluate({ output, reference }) {\n  return output === reference;\n}\n"
RIGHT, WRONG = '() => "right"', '() => "wrong"'

FOUND = [
    (f"export const evaluate = {RIGHT};", "named"),
    ('export function evaluate() { return "right"; }', "named"),
    ('export async function evaluate() { return "right"; }\nexport default 1;', "named"),
    (f"const evaluate = {RIGHT};\nexport {{ evaluate }};", "named"),
    (f"const score = {RIGHT};\nconst evaluate = {WRONG};\nexport {{ score as evaluate }};", "named"),
    (f'const score = {RIGHT};\nexport {{ score as "evaluate" }};', "named"),
    (f"export let evaluate = {WRONG};\nevaluate = {RIGHT};", "named"),
    (f"export const evaluate = {RIGHT};\nexport default {WRONG};", "named"),
    (f"export default {RIGHT};", "default"),
    (f"const evaluate = {WRONG};\nexport default {RIGHT};", "default"),
    ('export default function () { return "right"; }', "default"),
    ('export default async function evaluate() { return "right"; }', "default"),
    (f"const score = {RIGHT};\nexport default score;", "default"),
    (f"const score = {RIGHT};\nexport {{ score as default }};", "default"),
    (f"const wrap = (f) => f;\nexport default wrap({RIGHT});", "default"),
    ('function evaluate() { return "right"; }', "local"),
    (f"let evaluate;\nevaluate = {RIGHT};", "local"),
    (f"var evaluate = {RIGHT};\nexport default {{ evaluate }};", "local"),
    (f"const evaluate = (({RIGHT}) as any) satisfies unknown;\nexport default class {{}}", "local"),
    (f"const other = {RIGHT};\nconst evaluate = other!;\nexport const name = 1;", "local"),
    ("export type { evaluate } from 'x';\nfunction evaluate(a: string): string;\n"
     'function evaluate(a: any) { return "right"; }', "local"),
    ("class evaluate {}", None),
    ("export class evaluate {}", None),
    ("namespace a { export function evaluate() {} }", None),
    ("declare function evaluate(): void;", None),
    ("interface evaluate {}", None),
    ("export default class { evaluate() {} }", None),
    ("{ function evaluate() {} }", None),
    ("", None),
]  # fmt: skip


@pytest.mark.parametrize(("source", "how"), FOUND)
def test_how_it_is_found(source: str, how: str | None) -> None:
    found = TypeScriptModule(source).function(NAME)
    assert (found and found.how) == how
    added = "\nexport { evaluate };\n" if how == "local" else ""
    assert exporting(source, NAME) == source + added, "its lines keep their numbers"


@pytest.mark.rotating("what a sandbox finds in a script", "scripts", "deno")
def test_what_is_found_is_what_the_sandbox_calls() -> None:
    need("deno")

    async def returned() -> list[object]:
        async with create(SandboxConfig(backend="deno", jobs=1)) as sandbox:
            values: list[object] = []
            for source, _ in FOUND:
                program = await sandbox.load(typescript(source), Limits())
                values += [execution.value async for execution in program.run([Call(id=1)], Limits())]
                await program.close()
        return values

    assert asyncio.run(returned()) == ["right" if how else None for _, how in FOUND]


def names(source: str) -> str:
    """The parameters, as in `a, b?`, with a slash after those by position."""
    evaluator = parsed(source, "typescript")
    found = [p.name + "?" * (not p.required) + "/" * p.positional_only for p in evaluator.parameters]
    return ", ".join([*found, "..."] if evaluator.accepts_any else found)


OPEN = "output?, reference?, input?, metadata?, ..."
PLACES = "output/, reference/, k?/, j?/"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("{ output, reference }: EvaluatorParams", "output, reference"),
        ('{ output: o, "a b": p, \'c\': q = 1, metadata: { k } = {}, m: { n }, 5: five }',
         "output, a b, c?, metadata?, m, 5"),
        ("{ a, b, c = 1 }: { a: string; b?: number; c: string }", "a, b?, c?"),
        ("{ a /* b */, ...rest } = {}", "a, ..."),
        ("{ a }, k = 1, ...rest", "a"),
        ("this: void, { a }: any", "a"),
        ("", ""),
        ("params", OPEN),
        ("params?: any", OPEN),
        ("params: Record<string, unknown>", OPEN),
        ("output: EvaluatorParams", OPEN),
        ("p: Missing", OPEN),
        ("p: { a: 1 } | { b: 1 }", OPEN),
        ("p: { readonly a: string; 'b c'?: 1; f(): void; get d(): 1 }", "a, b c?, d"),
        ("p: { a: 1; [name: string]: unknown }", "a, " + OPEN),
        ("p: Own", "a, b?"),
        ("p: Derived", "a, b?, c"),
        ("p: Readonly<Own> & Partial<{ d: 1 }>", "a, b?, d?"),
        ("p: EvaluatorParams & { k?: 1 }", "k?, " + OPEN),
        ("p: Loop", ""),
        ("output: string, reference, k = 3, j?: number", PLACES),
        ("output, reference, k = 3, j?, ...more: any[]", PLACES),
        ("output", "output/"),
        ("reference: any", "reference/"),
        ("input", OPEN),
        ("text: string", "text/"),
        ("text: Text", "text/"),
        ('text: ("a" | null)[] | [1, 2] | Array<string> | readonly string[]', "text/"),
        ("text: string | Own", OPEN),
    ],
)  # fmt: skip
def test_parameters(parameters: str, expected: str) -> None:
    types = """
        interface Own { a: string; b?: number }
        export interface Derived extends Own { c: 1 }
        type Loop = Loop & Loop;
        export type Text = (string | number);
    """
    assert names(f"{types}\nfunction evaluate({parameters}) {{}}") == expected
    assert names(f"{types}\nexport default async <T,>({parameters}): Promise<T> => 1 as T;") == expected


def test_what_a_function_does_nothing_with_may_be_lacking() -> None:
    read = "({ output, reference, input, metadata, limit = input }) { return output === reference; }"
    assert names(f"function evaluate{read}") == "output, reference, input, metadata?, limit?"
    assert names("function evaluate({ output, metadata }) { return 1; }") == "output, metadata"


def test_parameters_elsewhere_than_in_a_declaration() -> None:
    assert names("const evaluate = output => 1;") == "output/"
    assert names("const evaluate: Evaluator = ((async function ({ a }) {}) as any)!;") == "a"
    assert names("function f({ a }) {}\nconst g = f, evaluate = <any>g;") == "a"
    assert names("function evaluate(a: 1): void;\nfunction evaluate(a: 2): void;\nfunction evaluate({ k }) {}") == "k"
    assert names("var evaluate = ({ a }) => 1;\nfunction evaluate({ b }) {}") == "a"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("type F = ((text: string) => 1); export const evaluate: F = text => 1;", "text/"),
        ("const f = ((text) => 1) satisfies (text: string) => 1; export default f;", "text/"),
        ("const evaluate = (<(p: { a: 1; b?: 1 }) => 1>((p) => 1))!;", "a, b?"),
        ("export const evaluate: (p: { a: 1; b?: 1 }) => 1 = ({ a, b }) => 1;", "a, b?"),
        ("const evaluate: (a: string) => 1 = (p: { own: 1 }) => 1;", "own"),
        ("const evaluate = ((p) => 1) as any as (text: string) => 1;", OPEN),
        ("type A = B; type B = A; const evaluate: A = (p) => 1;", OPEN),
    ],
)
def test_types_that_stand_beside_the_function(source: str, expected: str) -> None:
    assert names(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "x.ts has no function `evaluate`; define `function evaluate({ output, reference }) { … }`"),
        ("function Evaluate() {}", "(line 1 defines `Evaluate`)"),
        ("\nconst evalute = () => 1;", "(line 2 defines `evalute`)"),
        ("function a() {}\nclass B {}", "(it defines `a`)"),
        ("class A {\n static evaluate = () => 1 }", "(line 2 has one, inside the class `A`)"),
        ("export default class { evaluate() {} }", "(line 1 has one, inside the default export)"),
        ("namespace N { export function evaluate() {} }", "(line 1 has one, inside the namespace `N`)"),
        ("export default { evaluate };", "(line 1 has one, inside the default export)"),
        ("\nmodule.exports = { evaluate };", "(line 2 assigns `module.exports`; write `export default` instead)"),
        ("class evaluate {}", "(line 1 makes it a class)"),
        ("export default wrap(f);", "x.ts:1: the parameters of this `evaluate` cannot be seen"),
        (
            "import { evaluate } from 'node:util';",
            "x.ts:1: this `evaluate` is imported from 'node:util', and scores no row itself",
        ),
        ("const { evaluate } = a;", "cannot be seen"),
        ("let evaluate;", "cannot be seen"),
        ("function evaluate({ [a]: b }) {}", "cannot be seen"),
        ("function evaluate({ '\\x61': b }) {}", "cannot be seen"),
        ("function evaluate([a]) {}", "must take one object or plain parameters"),
        ("function evaluate(...all) {}", "must take one object or plain parameters"),
        ("function evaluate({ a }, b) {}", "must take one object or plain parameters"),
        (f"function evaluate({{ {', '.join(f'a{n}' for n in range(256))} }}) {{}}", "more than 255 parameters"),
        ("\nimport 'jsr:@std/a';\n" + GOOD, "x.ts:2: 'jsr:@std/a' cannot be imported: packages of JSR are not"),
        (
            "import { join } from 'path';\n" + GOOD,
            "'path' cannot be imported: it is a module of Node: write `node:path`",
        ),
        (
            "import fs from 'fs/promises';\n" + GOOD,
            "it is a module of Node that scripts in a sandbox do not have; the modules of Node that are available: "
            "node:assert, buffer, crypto, events, path, stream, url, util, zlib; where another is used outside of "
            "scoring only, copy the scoring function alone, with what it uses, into a file of its own and run that",
        ),
        (
            "import fs from 'node:http';\n" + GOOD,
            "'node:http' cannot be imported: scripts in a sandbox have no http; the",
        ),
        (
            "import { readFile } from 'node:fs/promises';\n" + GOOD,
            "copy the scoring function alone, with what it uses, into a file of its own and run that",
        ),
        (
            "import x from 'jsr:@std/fs';\n" + GOOD,
            "'jsr:@std/fs' cannot be imported: packages of JSR are not available",
        ),
        (
            "export * from 'https://a.b/c.ts';\n" + GOOD,
            "'https://a.b/c.ts' cannot be imported: nothing is loaded from the network",
        ),
        ("import x = require('jsr:lodash');\n" + GOOD, "x.ts:1: 'jsr:lodash' cannot be imported"),
        (
            "import x from '/etc/passwd' with { type: 'text' };\n" + GOOD,
            "'/etc/passwd' is no file of the script's folder",
        ),
        ("a = 1\0", "a null byte at byte 6"),
        ("/" * (MAX_SOURCE + 1), "larger than 256 KB"),
        ("x = '\ud800'", "a lone surrogate"),
        (GOOD.encode("utf-16"), "is UTF-16"),
    ],
)
def test_refused(source: str | bytes, message: str) -> None:
    told = refusal(source, "typescript")
    assert message in told
    assert told.isprintable(), "it is more than one line"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("function evaluate({ a }) { return 1 +; }", "x.ts:1:38: expected a name or a value"),
        ("function evaluate({ a }) {\n  if (a { return 1; }\n}", "x.ts:2:8: expected `)`"),
        ("function evaluate({ a }) {\n  return { a: 1 b: 2 };\n}", "x.ts:2:17: unexpected 'b: 2'"),
        ("function evaluate({ a }) { return 1; }\n}", "x.ts:2:1: unexpected '}'"),
        ("const é = 'ü' é;\n", "x.ts:1:15: unexpected 'é'"),
        ("const a = `b;\n", "x.ts:1:11: text that begins with ` is never closed"),
        ("let a = 1;\nfoo((1, {\n", "x.ts:2:9: `{` is never closed"),
        ("def evaluate(output):\n  return 1\n", "x.ts:1:1: unexpected 'def evaluate(output):'"),
    ],
)
def test_wrong_syntax_is_shown(source: str, message: str) -> None:
    told, excerpt, caret = refusal(source, "typescript").split("\n")
    assert told == message
    line, column = map(int, message.split(":")[1:3])
    text = source.split("\n")[line - 1]
    assert excerpt.strip() == text.strip()
    assert excerpt[caret.index("^") :] == text.rstrip()[column - 1 :]


@pytest.mark.parametrize(
    "source",
    [
        "interface A<in out T, in U, out V> {}",
        "const a = String.raw`\\u \\x ${1} \\u{`;",
        "enum A { b = 1 }\nabstract class C<const T> extends D<T> implements E { accessor f = 1; static {} #g?: 1 }",
        "type A<T> = T extends [infer H extends string, ...infer R] ? `a${H}` : { -readonly [K in keyof T]+?: T[K] };",
        "using a = b();\nconst c = (await d)! satisfies E as const;\nfor await (const f of g) {}",
        "#!/usr/bin/env deno\n/[/]\\/(?<a>b)/v.test(c); label: while (1) break label;",
        "import type { A } from 'npm:zod';\nimport { type B, c as d } from 'node:util';\nimport e from 'data:,';",
        "@a class B { @c() d = 1 }\nexport abstract class C {}\ndeclare global { interface F {} }",
    ],
)
def test_what_typescript_takes_is_read(source: str) -> None:
    assert names(f"{source}\nfunction evaluate({{ output }}) {{}}") == "output"


def test_foreign_imports() -> None:
    source = (
        "import a, { b } from 'npm:a';\nimport type C from 'npm:c';\n\nexport { d } from \"./d.ts\";\nimport 'data:,';"
    )
    assert TypeScriptModule(source).foreign == [("npm:a", 1), ("./d.ts", 4)]


@pytest.mark.parametrize(
    ("source", "description"),
    [
        ("/** One. */\nfunction evaluate({ a }) {}", "One."),
        ("/**\n * One.\n *\n *   Two.\n * @param a no\n */\nexport const evaluate = ({ a }) => 1;", "One.\n\n  Two."),
        ("// no\n/* no */\n/**/\nfunction evaluate({ a }) {}", ""),
        ("/** Module. */\nimport 'node:util';\n/** Own. */\nfunction evaluate({ a }) {}", "Module."),
        ("/** Module. */\n/** Helper. */\nfunction f() {}\n/** Own. */\nfunction evaluate({ a }) {}", "Module."),
        ("/** Module. */\n\nfunction f() {}\n/** Own. */\nfunction evaluate({ a }) {}", "Module."),
        ("/** Helper. */\nfunction f() {}\n/** Own. */\nexport default ({ a }) => 1;", "Own."),
        ("/** Helper. */\nexport const f = () => 1;\n/** Own. */\nfunction evaluate({ a }) {}", "Own."),
        ("/** Helper. */\nfunction f() {}\nfunction evaluate({ a }) {}", "Helper."),
        ("function evaluate({ a }) {}\n/** After. */\nfunction f() {}", ""),
    ],
)
def test_description(source: str, description: str) -> None:
    assert parsed(source, "typescript").description == description


def header(text: str) -> str:
    return "// /// script\n" + "".join(f"// {line}".rstrip() + "\n" for line in text.split("\n")) + "// ///\n" + GOOD


def test_header() -> None:
    evaluator = parsed(
        header(
            "dependencies = []\n\n[tool.evalcell]\n"
            'description = "Header."\n'
            'output = {kind = "continuous", upper_bound = 1}\n'
            'mapping.output = "metadata.text"\n'
            "[tool.evalcell.parameters]\n"
            'reference = {type = "string", default = "a"}'
        ),
        "typescript",
    )
    assert (evaluator.language, evaluator.description) == ("typescript", "Header.")
    assert evaluator.outputs == {"": Continuous(upper_bound=1)}
    assert evaluator.mapping.paths == {"output": "metadata.text"}
    assert [(p.name, p.required) for p in evaluator.parameters] == [("output", True), ("reference", False)]
    assert parsed(GOOD, "typescript").parameters == (Parameter(name="output"), Parameter(name="reference"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ]", "x.ts:2: the header is not TOML"),
        ("\n[tool.evalcell]\nmapping.a = 'b'", "maps `a`, which is not a parameter of evaluate(output, reference)"),
        ('requires-python = ">=3.11"', "x.ts:2: `requires-python` is for Python scripts"),
        ('dependencies = ["zod"]', 'x.ts:2: \'zod\' is no package of npm; write "npm:NAME", as "npm:zod@^3"'),
        ('dependencies = ["npm:fs"]', "x.ts:2: 'npm:fs' is a module of Node's own"),
        ('dependencies = ["npm:zod@3/v4"]', "x.ts:2: 'npm:zod@3/v4' names a part of a package; declare the package"),
        ('dependencies = ["npm:zod@git+https"]', "x.ts:2: 'npm:zod@git+https' has no versions that npm knows"),
        ("# ///\n// ///\n// /// script", "x.ts:3: the header is not TOML"),
    ],
)
def test_header_refused(text: str, message: str) -> None:
    assert message in refusal(header(text), "typescript")


def test_headers_are_those_of_the_language() -> None:
    python = "# /// script\n# a = ]\n# ///\n"
    assert "the header is not TOML" in refusal(header("a = ]"), "typescript")
    assert "a header begins with `// /// script`" in refusal(python + GOOD, "typescript")
    two = header("a = 1") + "// /// script\n//\n// ///\n"
    assert "a second `// /// script` block" in refusal(two, "typescript")


def test_version_and_source_do_not_depend_on_the_system() -> None:
    plain = parsed(GOOD, "typescript")
    for same in (GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD, GOOD.encode()):
        assert (parsed(same, "typescript").version, parsed(same, "typescript").source) == (plain.version, GOOD)


def test_without_the_parser_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_typescript", None)
    assert refusal(GOOD, "typescript").endswith("run `pip install 'evalcell[deno]'`")
    with pytest.raises(SandboxUnavailableError):
        exporting(GOOD, NAME)


def test_the_published_recipes_are_evaluators() -> None:
    folder = Path(__file__).parents[3] / "shared" / "recipes"
    if not folder.is_dir():
        pytest.skip("the published recipes are not here")
    for path in folder.glob("*.ts"):
        assert [p.name for p in read_evaluator(path).parameters] == ["output", "reference"]
