"""CommonJS modules of no tool: every way of export is called as its parameters are written, by place or by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import evalcell
from runner.core.errors import EvaluatorError, MappingError
from runner.core.types import InputMapping

ROWS = [{"output": "a", "reference": "a"}, {"output": "b", "reference": "c"}]
BY_NAME = "({ output, reference }) => output === reference"
_BUNDLE = """\
var __defProp = Object.defineProperty;
var __export = (target, all) => {
  for (var name in all) __defProp(target, name, { get: all[name], enumerable: true });
};
var scorer_exports = {};
__export(scorer_exports, { evaluate: () => evaluate });
module.exports = __toCommonJS(scorer_exports);
function __toCommonJS(mod) { return Object.assign({}, mod); }
function evaluate({ output, reference }) { return output === reference; }
"""


def labels(folder: Path, source: str, entry: str = "") -> list[str | None]:
    """The labels of the rows, by a script of this text."""
    path = folder / "script.js"
    path.write_text(source)
    return [one.label for one in evalcell.evaluate(f"{path}{entry}", ROWS).results]


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        (f"exports.evaluate = {BY_NAME};\n", ""),
        (f"module.exports = {{ evaluate: {BY_NAME} }};\n", ""),
        ("module.exports = { evaluate({ output, reference }) { return output === reference; } };\n", ""),
        ("module.exports.evaluate = async function ({ output, reference }) { return output === reference; };\n", ""),
        (f"module.exports = {BY_NAME};\n", ""),
        (f'Object.defineProperty(exports, "__esModule", {{ value: true }});\nexports.default = {BY_NAME};\n', ""),
        ("exports.evaluate = (row) => row.output === row.reference;\n", ""),
        ("module.exports = (row) => row.output === row.reference;\n", ""),
        (_BUNDLE, ""),
        (f"exports.score = {BY_NAME};\n", ":score"),
        (f"const scorers = {{ exact: {BY_NAME} }};\nmodule.exports = scorers;\n", ":exact"),
        ("class Scorer { evaluate({ output, reference }) { return output === reference; } }\n"
         "module.exports = new Scorer();\n", ":Scorer.evaluate"),
        ("function score(ctx, output, reference) { return output === reference; }\nexports.score = score;\n", ":score"),
        ("exports.score = function (ctx, output, reference) { return output === reference; };\n", ":score"),
        ("const score = (ctx, output, reference) => output === reference;\nmodule.exports = { score };\n", ":score"),
    ],
)  # fmt: skip
def test_each_export_is_called_as_it_is_written(tmp_path: Path, source: str, entry: str) -> None:
    assert labels(tmp_path, source, entry) == ["true", "false"]


@pytest.mark.parametrize(
    "source",
    [
        "module.exports = (output, { vars }) => output === vars.reference;\n",
        "function evaluate(output, { vars }) { return output === vars.reference; }\nmodule.exports = evaluate;\n",
        "exports.evaluate = (output, context) => output === context.vars.reference;\n",
        "module.exports = { evaluate: (output, { vars }) => output === vars.reference, other: (a, b) => 1 };\n",
    ],
)
def test_an_assertion_stays_one(tmp_path: Path, source: str) -> None:
    assert labels(tmp_path, source) == ["pass", "fail"]


@pytest.mark.parametrize("export", ["new Scorer()", "Scorer"])
def test_a_class_is_named_with_its_method(tmp_path: Path, export: str) -> None:
    with pytest.raises(EvaluatorError, match=r"name it, `.*script\.js:Scorer\.evaluate`"):
        labels(
            tmp_path,
            "class Scorer { evaluate({ output, reference }) { return output === reference; } }\n"
            f"module.exports = {export};\n",
        )


_PYTHON = """\
def exact(prediction, answer):
    return float(prediction == answer)
def evaluate(model, loader):
    return sum(exact(model(one), one) for one in loader)
"""
_SCRIPT = """\
exports.exact = exact;
exports.evaluate = evaluate;
function exact(prediction, answer) { return Number(prediction === answer); }
async function evaluate(program, dataset, metric) { return dataset.map((one) => metric(one, exact(one, one))); }
"""


@pytest.mark.parametrize(("name", "source"), [("script.py", _PYTHON), ("script.js", _SCRIPT)])
@pytest.mark.parametrize(
    ("columns", "why"),
    [(("prediction", "answer"), "all parameters of it are columns"), (("a1", "b1"), "a row is likely scored by that")],
)
def test_an_evaluate_of_a_whole_dataset_hides_no_other(
    tmp_path: Path, name: str, source: str, columns: tuple[str, str], why: str
) -> None:
    path = tmp_path / name
    path.write_text(source)
    rows = [dict.fromkeys(columns, "a"), dict(zip(columns, "bc", strict=True))]
    with pytest.raises(MappingError, match=rf"`exact\(prediction, answer\)`, and {why}: name it, `.*{name}:exact`"):
        evalcell.evaluate(path, rows)
    mapping = dict(zip(("prediction", "answer"), columns, strict=True))
    assert [one.score for one in evalcell.evaluate(f"{path}:exact", rows, mapping=mapping).results] == [1, 0]


def test_an_evaluate_that_has_a_column_is_the_one(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(_PYTHON.replace("model, loader", "prediction, loader"))
    with pytest.raises(MappingError, match="no column for `loader`") as caught:
        evalcell.evaluate(path, [{"prediction": "a", "answer": "a"}])
    assert "exact" not in str(caught.value)


def test_a_braintrust_scorer_may_take_settings_with_defaults(tmp_path: Path) -> None:
    path = tmp_path / "script.ts"
    path.write_text(
        'import type { Scorer } from "autoevals";\n'
        "export const contains: Scorer<string, { strict?: boolean }> = ({ output, expected, strict = false }) => "
        "({ name: 'contains', score: Number(strict ? output === expected : output.includes(expected)) });\n"
    )
    rows = [{"output": "a", "reference": "a"}, {"output": "ab", "reference": "a"}]
    assert [one.score for one in evalcell.evaluate(path, rows).results] == [1, 1]
    strict = InputMapping(literals={"strict": True})
    assert [one.score for one in evalcell.evaluate(path, rows, mapping=strict).results] == [1, 0]


_HUB = """\
import evaluate
class Contains(evaluate.Metric):
    def _compute(self, predictions, references, ignore_case=True):
        return sum(r in p for p, r in zip(predictions, references)) / len(predictions)
"""


def test_a_metric_of_hugging_face_is_told_how_to_judge_a_row(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(_HUB)
    rows = [{"output": "ab", "reference": "a"}, {"output": "b", "reference": "a"}]
    with pytest.raises(EvaluatorError, match=r"no function `evaluate` of its own \(line 1 imports one\)") as caught:
        evalcell.evaluate(path, rows)
    line = str(caught.value).partition("add `")[2].partition("`")[0]
    stand_in = "class evaluate:\n    class Metric: ...\n"  # the package is not what is tried
    path.write_text(f"{_HUB.replace('import evaluate', stand_in)}\n{line}\n")
    assert [one.score for one in evalcell.evaluate(f"{path}:score", rows).results] == [1, 0]
