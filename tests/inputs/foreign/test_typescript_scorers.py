"""Other people's TypeScript: what is named in objects and classes, what is proposed, and what is never undefined."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError
from runner.core.types import Evaluator, InputMapping
from runner.inputs.evaluators.load import parse_evaluator

ROWS = [{"output": "a", "expected": "a"}, {"output": "a", "expected": "b"}]


def read(text: str, entry: str | None = None, dialect: str | None = None) -> Evaluator:
    return parse_evaluator(text, "scorer", "scorer.ts", language="typescript", entry=entry, dialect=dialect)


def scored(text: str, entry: str | None = None, rows: Any = ROWS, paths: dict[str, str] | None = None) -> list[Any]:
    report = runner.evaluate(read(text, entry), rows, mapping=InputMapping(paths=paths or {}))
    return [one.score if one.outcome != "failed" else one.error for one in report.results]


OBJECTS = """
import type { Scorers, Base } from "./types.js";
import { Result } from "somewhere";
const assertText: (value: unknown, label: string) => asserts value is string = (value, label) => {
  if (typeof value !== "string") throw new Error(label);
};
const same = (a: unknown, b: unknown): boolean => a === b;
export const scorers = {
  exact: (_ctx, output: unknown, expected: unknown): Result => ({ score: same(output, expected) ? 1 : 0, pass: true }),
  method(output: string, expected: string) { assertText(output, "output"); return this.exact(null, output, expected); },
  "with-dash": ({ output, expected }) => Number(output === expected),
  inner: { deep: (output: string, expected: string) => Number(output === expected) },
  same,
} satisfies Scorers;
export const listed = [{ name: "x", scorer: ({ output, expected }: any) => (output === expected ? 1 : 0) }];
export const frozen = Object.freeze({ exact: (output: string, expected: string) => Number(output === expected) });
export class Exact {
  private readonly one = 1;
  score({ output, expected }: { output: string; expected: string }) { return output === expected ? this.one : 0; }
  static is(output: string, expected: string) { return Number(output === expected); }
  protected hidden(output: string, expected: string) { return 0; }
}
export class Near {
  constructor(private readonly k: number) {}
  evaluate(output: string, expected: string) { return Number(output.slice(0, this.k) === expected.slice(0, this.k)); }
}
export const near = new Near(1);
export namespace Space { export function exact(output: string, expected: string) { return +(output === expected); } }
export function exact(opts: { trim?: boolean } = {}) {
  const score = ({ output, expected }: any) => ({ value: output === expected ? 1 : 0, passed: false, reason: "why" });
  return { name: "exact", score };
}
export const made = exact();
export function over(output: string): number;
export function over(output: string, expected: string): number;
export function over(output: string, expected?: string): number { return output === expected ? 1 : 0; }
export const generic = <T,>(output: T, expected: T): number => (output === expected ? 1 : 0);
export async function* stream(output: string) { yield 1; }
export default { score: ({ output, expected }: any) => Number(output === expected), list: [] };
"""


@pytest.mark.parametrize(
    "entry",
    [
        *("scorers.exact", "scorers.method", "scorers.with-dash", "scorers.inner.deep", "listed.0.scorer"),
        *("frozen.exact", "Exact.score", "Exact.is", "near.evaluate", "Space.exact", "made.score", "over", "generic"),
        "default.score",
    ],
)
def test_a_function_in_something_that_has_a_name_is_an_entry(entry: str) -> None:
    assert scored(OBJECTS, entry) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            "exact",
            r"`exact\(\)` makes an object with `score`.*`export const scorer = exact\(\);`.*`scorer\.ts:scorer\.s",
        ),
        (
            "Near",
            r"`Near` is a class that needs arguments; add `const scorer = new Near\(…\);`.*`scorer\.ts:scorer\.ev",
        ),
        ("Exact", r"`Exact` is a class; .*`scorer\.ts:Exact\.score`"),
        ("scorers", r"`scorers` is no function; .*`scorer\.ts:scorers\.exact`"),
        ("scorers.exat", r"`scorers` has no function `scorers\.exat` \(did you mean `scorers\.exact`\?\)"),
        ("Exact.hidden", r"`Exact` has no function `Exact\.hidden`"),
        ("stream", r"`stream` is a generator"),
    ],
)
def test_what_cannot_be_called_says_what_to_write(entry: str, why: str) -> None:
    with pytest.raises(EvaluatorError, match=why):
        read(OBJECTS, entry)


def test_only_what_is_exported_and_returns_something_is_proposed() -> None:
    with pytest.raises(EvaluatorError) as told:
        read(OBJECTS)
    assert "`scorers.exact(output, expected)`" in str(told.value)
    for other in ("assertText", "`same(", "hidden", "stream("):
        assert other not in str(told.value)
    with pytest.raises(EvaluatorError, match=r"`score\(output, expected\)` likely"):
        read("const score = (output, expected) => 1;")
    factory = "export function exact(o = {}) { return { score({ output, expected }) { return 1; } }; }"
    with pytest.raises(
        EvaluatorError, match=r"no function `evaluate`; `exact\(\)` makes an object with `score`.*scorer\."
    ):
        read(factory)


@pytest.mark.parametrize(
    "text",
    [
        "import type { Args } from 'x';\nexport const f = (args: Args) => Number(args.output === args.expected);",
        "export const f: Scorer = (args) => { const { output, expected } = args; return +(output === expected); };",
        "const same = (a) => Number(a.output === a['expected']);\nexport const f = (args: any) => same(args);",
        "export const f = (row, _unused) => Number(row!.output === row.expected);",
    ],
)
def test_what_is_read_of_an_object_without_a_type_is_asked_for(text: str) -> None:
    assert scored(text, "f") == [1.0, 0.0]
    with pytest.raises(ColumnsError) as told:
        scored(text, "f", [{"output": "a", "answer": "a"}])
    assert told.value.paths == {"expected": "answer"}


def test_what_a_function_asks_for_first_may_be_left_out() -> None:
    text = "export const f = (a: any) => a.output === 'a' && !a.note && (a.limit ?? 2) > 1 && !a.x?.y ? 1 : 0;"
    assert scored(text, "f", [{"output": "a"}]) == [1.0]


def test_one_value_of_any_name_is_no_object() -> None:
    assert scored("export const f = (text) => text.trim().length;", "f", ROWS, {"text": "output"}) == [1.0, 1.0]
    assert scored("export const f = (it) => (it === 'a' ? 1 : 0);", "f", ROWS, {"it": "output"}) == [1.0, 1.0]


def test_keys_of_an_object_by_position_are_mapped_one_by_one() -> None:
    text = "export const f = (result, example) => Number(result.output === example.expected);"
    with pytest.raises(ColumnsError) as told:
        scored(text, "f")
    assert told.value.paths == {"result.output": "output", "example.expected": "expected"}
    assert scored(text, "f", ROWS, told.value.paths) == [1.0, 0.0]


def test_an_import_of_types_alone_is_none() -> None:
    text = "import A, {{ B }} from 'x';\nimport * as C from 'y';\nexport const f = (output: A, expected: C.D) => {};"
    assert scored(text.format("Number(output === expected)"), "f") == [1.0, 0.0]
    with pytest.raises(EvaluatorError, match=r"scorer:1: 'x' is a package that is not declared"):
        scored(text.format("Number(output === B)"), "f")


BRAINTRUST = """
import type { EvalScorer } from 'braintrust';
export const exact: EvalScorer<any, any, any> = async ({ output, expected }) => {
  if (output === "skip") return null;
  if (output === "two") return [{ name: "x", score: 1 }, { name: "y", score: 0.5 }];
  if (output === "bool") return true;
  if (output === "high") return 2;
  return { name: "Exact", score: output === expected ? 1 : 0, metadata: { expected } };
};
"""


def test_a_braintrust_scorer_is_judged_as_braintrust_does() -> None:
    rows = [{"output": one, "expected": "a"} for one in ("a", "b", "skip", "bool", "high")]
    assert read(BRAINTRUST).dialect == "braintrust"
    report = runner.evaluate(read(BRAINTRUST), rows)
    assert [one.outcome for one in report.results] == ["scored", "scored", "abstained", "scored", "failed"]
    assert [one.score for one in report.results] == [1.0, 0.0, None, 1.0, None]
    assert report.results[0].explanation == '{"expected":"a"}'
    (two,) = runner.evaluate(read(BRAINTRUST), [{"output": "two", "expected": "a"}]).results
    assert {name: one.score for name, one in two.outputs.items()} == {"x": 1.0, "y": 0.5}
    with pytest.raises(ColumnsError):
        runner.evaluate(read(BRAINTRUST), [{"output": "a"}])


@pytest.mark.parametrize(
    ("returned", "label", "score", "explanation"),
    [
        ({"name": "x", "score": True}, None, 1.0, None),
        (
            {"score": 0.5, "label": "mid", "reason": "why", "details": {"d": 1}},
            "mid",
            0.5,
            'why\n{"details": {"d": 1}}',
        ),
        ({"value": 0.25, "comment": "c", "dataType": "NUMERIC"}, None, 0.25, 'c\n{"dataType": "NUMERIC"}'),
        ({"pass": False, "reason": "no"}, "fail", 0.0, "no"),
        ({"name": "x", "score": None}, None, None, "it gave no score"),
    ],
)
def test_another_result_of_a_named_function_is_read(returned: Any, label: Any, score: Any, explanation: Any) -> None:
    script = f"def score(output):\n    return {returned!r}\n"
    one = parse_evaluator(script, "scorer", "scorer.py", entry="score")
    (result,) = runner.evaluate(one, [{"output": "a"}]).results
    assert (result.label, result.score, result.explanation) == (label, score, explanation)
    own = parse_evaluator(script.replace("score(", "evaluate(", 1), "scorer")
    assert runner.evaluate(own, [{"output": "a"}]).results[0].outcome == "failed"


def test_several_scores_stay_to_be_declared() -> None:
    one = parse_evaluator("def f(output):\n    return {'em': 1, 'f1': 0.5}\n", "scorer", "scorer.py", entry="f")
    (result,) = runner.evaluate(one, [{"output": "a"}]).results
    assert result.error is not None
    assert "outputs = {em" in result.error.message


COMMON = """
class Exact { score(output, expected) { return Number(output === expected); } }
module.exports = { scorers: { exact: (output, expected) => Number(output === expected) }, Exact };
"""
MADE = """
const scorers = {
  within(max) { return ({ output, expected }) => Number(output.slice(0, max) === expected.slice(0, max)); },
  same: () => ({ score({ output, expected }) { return Number(output === expected); } }),
};
export const near = scorers.within(9);
export const same = scorers.same();
const wrap = (f) => async (args) => f(args);
export const hidden = wrap(({ output }) => 1);
"""


@pytest.mark.parametrize(
    ("text", "entry"),
    [(COMMON, "Exact.score"), (COMMON, "scorers.exact"), (MADE, "near"), (MADE, "same.score")],
)
def test_so_are_members_of_a_common_module_and_what_a_member_makes(text: str, entry: str) -> None:
    assert scored(text, entry) == [1.0, 0.0]


def test_an_object_that_goes_where_nobody_sees_is_refused() -> None:
    with pytest.raises(
        EvaluatorError, match=r"scorer\.ts:8: what `hidden` reads of `args` cannot be seen.*`function ev"
    ):
        read(MADE, "hidden")


def test_keys_of_a_part_of_the_object_are_proposed_too() -> None:
    text = """export class Exact {
      score(ctx: Context) {
        const { testCase, actualOutput, config } = ctx;
        return Number(testCase.expectedOutput === actualOutput && config.strict !== true);
      }
    }"""
    with pytest.raises(ColumnsError) as told:
        scored(text, "Exact.score")
    assert told.value.paths == {"testCase.expectedOutput": "expected", "actualOutput": "output"}
    assert told.value.values == ("config",)


def test_a_figure_of_all_rows_is_no_scorer() -> None:
    text = "export class Mean { calculate(results: Row[]) { return results.length; } }"
    with pytest.raises(
        EvaluatorError, match=r"`Mean\.calculate` takes `results`, those of all rows.*`function aggregate"
    ):
        read(text, "Mean.calculate")
