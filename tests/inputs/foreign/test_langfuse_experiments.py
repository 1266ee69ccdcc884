"""Langfuse's TypeScript evaluators of experiments, and lists of named scores of no tool."""

from __future__ import annotations

from pathlib import Path

import pytest

import evalcell

TWO = (
    "[{{ name: 'exact', value: {0}output === {0}expectedOutput ? 1 : 0, comment: 'why' }}, "
    "{{ name: 'length', value: 2 }}]"
)
FUNCTIONS = [f"async ({{ input, output, expectedOutput }}) => {TWO.format('')}", f"async (p) => {TWO.format('p.')}"]
IMPORT = 'import type { Evaluator } from "@langfuse/client";\n'
TABLE = 'outputs = {a = {kind = "continuous"}, b = {kind = "continuous"}}'


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["exact", "evaluate"])
def test_a_list_is_a_score_by_each_name(tmp_path: Path, function: str, name: str) -> None:
    path = tmp_path / "script.ts"
    path.write_text(f"{IMPORT}export const {name}: Evaluator = {function};\n")
    rows = [{"output": "ab", "reference": "ab"}, {"output": "a", "reference": "b"}]
    results = evalcell.evaluate(path, rows).results
    scores = [{key: one.score for key, one in each.outputs.items()} for each in results]
    assert scores == [{"exact": 1, "length": 2}, {"exact": 0, "length": 2}]
    assert results[0].outputs["exact"].explanation == "why"


def test_one_that_takes_its_object_apart_needs_no_import(tmp_path: Path) -> None:
    path = tmp_path / "script.ts"
    path.write_text(
        "export const exact = async ({ output, expectedOutput }) => "
        "({ name: 'same', value: output === expectedOutput, dataType: 'BOOLEAN' });\n"
    )
    [result] = evalcell.evaluate(path, [{"output": "ab", "reference": "ab"}]).results
    assert (result.label, result.score) == ("True", 1)


@pytest.mark.parametrize(
    ("suffix", "source", "expression"),
    [
        (
            "ts",
            "const result = [{ name: 'a', value: 1 }, { name: 'b', value: 2 }];\n"
            "export const evaluate = ({ output }) => RESULT;\n",
            "Object.fromEntries(result.map((one) => [one.name, one.value]))",
        ),
        (
            "py",
            "result = [{'name': 'a', 'score': 1}, {'name': 'b', 'score': 2}]\ndef evaluate(output): return RESULT\n",
            '{one["name"]: one["score"] for one in result}',
        ),
    ],
)
def test_a_list_of_no_tool_is_told_the_way(tmp_path: Path, suffix: str, source: str, expression: str) -> None:
    path = tmp_path / f"script.{suffix}"
    path.write_text(source.replace("RESULT", "result"))
    [result] = evalcell.evaluate(path, [{"output": "ab"}]).results
    assert result.error is not None
    assert f"return `{expression}`" in result.error.message
    assert TABLE in result.error.message
    sign = "#" if suffix == "py" else "//"
    header = "".join(f"{sign} {line}\n" for line in ("/// script", "[tool.evalcell]", TABLE, "///"))
    path.write_text(header + source.replace("RESULT", expression))
    [result] = evalcell.evaluate(path, [{"output": "ab"}]).results
    assert {key: one.score for key, one in (result.outputs or {}).items()} == {"a": 1, "b": 2}
