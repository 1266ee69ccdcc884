"""Where a TypeScript script's `evaluate` is found, and how it is called."""

from __future__ import annotations

import pytest

from sandboxes import Call, Execution, Script
from tests.deno.opened import LIMITS, Opened

pytestmark = pytest.mark.rotating("deno", "deno")

FOUND = [
    "export function evaluate({a}: {a: number}): number { return a }",
    "export async function evaluate({a}) { return a }",
    "export const evaluate = ({a}: EvaluatorParams) => a;",
    "export const evaluate: Evaluator = async ({a}) => a;",
    "export let evaluate = function ({a}) { return a };",
    "const own = ({a}) => a;\nexport { own as evaluate };",
    "export default ({a}) => a;",
    "export default async ({a}) => a;",
    "export default function ({a}) { return a }",
    "export default async function judge({a}) { return a }",
    "const judge = ({a}) => a;\nexport default judge;",
    "const judge = ({a}) => a;\nexport { judge as default };",
    "function evaluate({a}) { return a }",
    "async function evaluate({a}) { return a }",
    "const evaluate = ({a}) => a;",
    "let evaluate = function ({a}) { return a };",
    "var evaluate = async ({a}) => a;",
    "let evaluate;\nevaluate = ({a}) => a;",
    "function evaluate(a: string): string;\nfunction evaluate(a: unknown) { return a.a }",
    "function evaluate({a}) { return a } // no newline",
    "export default () => 'default';\nexport function evaluate({a}) { return a }",
    "export default ({a}) => a;\nfunction evaluate() { return 'local' }",
    "export const evaluate = {a: ({a}) => a}.a;",
]

NOT_FOUND = [
    "",
    "export const other = () => 1;",
    "// export function evaluate() { return 1 }",
    "const text = `\nexport function evaluate() { return 1 }\n`;",
    "{ function evaluate() { return 1 } }",
    "globalThis.evaluate = () => 1;",
    "declare function evaluate(): number;",
    "type evaluate = () => number;\nexport type { evaluate };",
    "class evaluate {}",
    "export class evaluate {}",
    "export default class {}",
    "export const evaluate = class {};",
    "export const evaluate = 1;",
    "export default {evaluate: () => 1};",
]


@pytest.mark.parametrize("source", FOUND)
def test_an_evaluate_is_found(opened: Opened, source: str) -> None:
    (found,) = opened.evaluate(source, [{"a": 3}])
    assert (found.status, found.value) == ("ok", 3), found.error


@pytest.mark.parametrize("source", NOT_FOUND)
def test_what_is_no_function_of_that_name_is_none(opened: Opened, source: str) -> None:
    (found,) = opened.evaluate(source, [{"a": 3}])
    assert found.error is not None
    assert (found.status, found.error.type) == ("error", "ReferenceError")
    assert found.error.message == "the script defines no function named evaluate, or does not export it"


def test_what_is_only_defined_is_not_found_unless_it_is_exported(opened: Opened) -> None:
    async def loaded(source: str) -> Execution:
        program = await opened.sandbox().load(Script(source, "typescript", "get_assert"), LIMITS)
        await program.close()
        return program.loaded

    found = opened.run(loaded("function get_assert() { return 1 }"))
    assert found.error is not None
    assert found.error.message == "the script defines no function named get_assert, or does not export it"
    assert opened.run(loaded("export default () => 1;")).status == "ok"


def test_values_by_position_are_passed_so(opened: Opened) -> None:
    source = "export function evaluate(a, b = 'default', ...rest) { return [a, b, rest] }"
    batch = [Call(id=n, positional=("x", None, {"y": 1})[:n]) for n in range(1, 4)]
    assert [e.value for e in opened.evaluate(source, batch)] == [
        ["x", "default", []],
        ["x", None, []],
        ["x", None, [{"y": 1}]],
    ]


def test_without_arguments_it_gets_an_empty_object(opened: Opened) -> None:
    source = "export function evaluate(...given) { return given }"
    assert [e.value for e in opened.evaluate(source, [{}])] == [[{}]]


def test_it_has_no_this(opened: Opened) -> None:
    source = "export function evaluate() { return String(this) }"
    assert [e.value for e in opened.evaluate(source, [{}])] == ["undefined"]


def test_typescript_that_is_more_than_types_works(opened: Opened) -> None:
    source = """
enum Axis { Low, High = 5 }
namespace Rules { export const limit = 2 }
abstract class Judge { constructor(protected readonly axis: Axis) {} abstract score(): number }
class Own extends Judge { #factor = 3; score() { return this.axis * this.#factor } }
const kept = <T,>(x: T) => x satisfies T;
export function evaluate({output}: EvaluatorParams): EvaluatorResult {
  using held = { [Symbol.dispose]() { console.log("disposed") } };
  return {label: Axis[5], score: kept(new Own(Axis.High).score()) + Rules.limit, explanation: output!.text as string};
}
"""
    (found,) = opened.evaluate(source, [{"output": {"text": "so"}}])
    assert found.value == {"label": "High", "score": 17, "explanation": "so"}
    assert found.output == "disposed\n"


def test_type_errors_are_no_concern_of_a_run(opened: Opened) -> None:
    (found,) = opened.evaluate("export const evaluate = (): number => 'text' as unknown as null + missing.type;", [{}])
    assert found.error is not None
    assert found.error.type == "ReferenceError"
    (found,) = opened.evaluate("const x: number = 'text';\nexport const evaluate = () => x;", [{}])
    assert found.value == "text"
