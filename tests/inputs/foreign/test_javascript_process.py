"""What scripts of tools in JavaScript find of Node's process, and what ends one; results of other frameworks."""

from __future__ import annotations

from typing import Any

import pytest

import runner
from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator

LIMIT = "const LIMIT = Number(process.env.LIMIT ?? 3);\n"
BODY = "({ pass: output.length < LIMIT, score: LIMIT, reason: typeof process.cwd() })"
ROWS: list[dict[str, Any]] = [{"input": "q", "output": "ab"}, {"input": "q", "output": "abcd"}]
CASES = """const RUN = 1;
class ExactMatch {
  async score(run) {
    const scored = run.results.map((one) => one.actual === one.expected);
    return { run, passRate: scored.filter(Boolean).length / scored.length };
  }
}
export { ExactMatch };
"""


@pytest.mark.parametrize(
    "source",
    [
        f"{LIMIT}module.exports = (output, context) => {BODY};\n",
        f"{LIMIT}export default function check(output, {{ vars }}) {{ return {BODY}; }}\n",
        f"{LIMIT}export default (output, context) => {BODY} && context.vars && {BODY};\n",
    ],
)
def test_a_script_finds_a_process_without_variables(source: str) -> None:
    results = runner.evaluate(parse_evaluator(source, "script", language="typescript"), ROWS).results
    assert [(one.label, one.score, one.explanation) for one in results] == [
        ("pass", 3, "string"),
        ("fail", 3, "string"),
    ]


def test_one_of_its_own_stays_its_own() -> None:
    source = "const process = { env: { A: 4 } };\nmodule.exports = (output, context) => process.env.A;\n"
    (result,) = runner.evaluate(parse_evaluator(source, "script", language="typescript"), ROWS[:1]).results
    assert result.score == 4


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("process.exit(1);\nmodule.exports = (output, context) => true;\n", "the script called process.exit(1): throw"),
        (
            "module.exports = (output, context) => process.exit();\n",
            "the script called process.exit(0): throw an error",
        ),
        ("Deno.exit(1);\nmodule.exports = (output, context) => true;\n", "it called Deno.exit: throw an error"),
        ("close();\nexport function evaluate({ output }) { return 1; }\n", "it called close: throw an error"),
        ("export function evaluate({ output }) { Deno.exit(1); }\n", "it called Deno.exit: throw an error"),
    ],
)
def test_what_ends_a_process_is_named(source: str, says: str) -> None:
    evaluator = parse_evaluator(source, "script", language="typescript")
    (result,) = runner.evaluate(evaluator, ROWS[:1], max_failed="100%").results
    assert result.error is not None
    assert says in result.error.message


@pytest.mark.parametrize(
    "returned",
    ["{ scorer: 'exact', value: 1, detail: 'Exact' }", "{ name: 'exact', value: true, detail: 'Exact', tries: null }"],
)
def test_a_result_with_a_value_and_its_scorers_name_is_a_score(returned: str) -> None:
    source = f"export const exact = {{ score({{ output, expected }}) {{ return {returned}; }} }};\n"
    evaluator = parse_evaluator(source, "script", language="typescript", entry="exact.score")
    (result,) = runner.evaluate(evaluator, [{"output": "a", "expected": "a"}]).results
    assert (result.score, result.explanation) == (1.0, "Exact")


def test_what_goes_through_a_whole_run_is_told_so() -> None:
    with pytest.raises(EvaluatorError, match=r"`ExactMatch.score` takes `run\.results`, those of all rows together"):
        parse_evaluator(CASES, "script.ts", language="typescript", entry="ExactMatch.score")
    of_row = CASES.replace("run.results.map", "RUN.results.map")
    assert parse_evaluator(of_row, "script.ts", language="typescript", entry="ExactMatch.score").entry
