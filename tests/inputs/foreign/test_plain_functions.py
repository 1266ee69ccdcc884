"""Functions that were written for no tool: called by their name, proposed by what they take, and never by guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError
from runner.core.types import Evaluator, InputMapping
from runner.inputs.evaluators.column_suggestions import likely_columns
from runner.inputs.evaluators.load import parse_evaluator

VERL = """
def extract_solution(solution_str, method="strict"):
    return solution_str.rpartition("#### ")[2] or None


def compute_score(solution_str, ground_truth, method="strict", format_score=0.0, score=1.0):
    try:
        return score if extract_solution(solution_str) == ground_truth else format_score
    except Exception:
        return 0
"""
PLAIN = """
from functools import partial


def normalize(text): return text.strip().lower()


def near(k):
    def inner(prediction, target):
        return float(normalize(prediction)[:k] == normalize(target)[:k])
    return inner


def base(prediction, target, limit): return float(prediction[:limit] == target[:limit])


class Exact:
    def __init__(self, k=9):
        self.k = k

    def __call__(self, prediction, target): return float(prediction[:self.k] == target[:self.k])

    def score(self, prediction, target): return self(prediction, target)

    @staticmethod
    def fixed(prediction, target): return float(prediction == target)


class Needs:
    def __init__(self, k): self.k = k

    def score(self, prediction, target): return 1.0


def score(prediction, target): return float(normalize(prediction) == normalize(target))


near_1 = near(1)
first = partial(base, limit=1)
of_three = Exact(3)
lower = lambda prediction, target: float(prediction.lower() == target)
unseen = __import__("operator").eq
"""
ROWS = [{"output": "abcd", "reference": "abzz"}, {"output": "X", "reference": "x"}, {"output": "q", "reference": "q"}]
SIDES = InputMapping(paths={"prediction": "output", "target": "reference"})


def read(text: str, entry: str | None = None, dialect: str | None = None, language: Any = "python") -> Evaluator:
    where = "scorer.py" if language == "python" else "scorer.ts"
    return parse_evaluator(text, "scorer", where, entry=entry, dialect=dialect, language=language)


@pytest.mark.parametrize(
    ("entry", "scores"),
    [
        ("score", [0.0, 1.0, 1.0]),
        ("near_1", [1.0, 1.0, 1.0]),
        ("first", [1.0, 0.0, 1.0]),
        ("of_three", [0.0, 0.0, 1.0]),
        ("lower", [0.0, 1.0, 1.0]),
        ("Exact", [0.0, 0.0, 1.0]),
        ("Exact.score", [0.0, 0.0, 1.0]),
        ("Exact.fixed", [0.0, 0.0, 1.0]),
    ],
)
def test_whatever_can_be_called_is_an_entry(tmp_path: Path, entry: str, scores: list[float]) -> None:
    path = tmp_path / "scorer.py"
    path.write_text(PLAIN)
    report = runner.evaluate(f"{path}:{entry}", ROWS, mapping=SIDES)
    assert [one.score for one in report.results] == scores
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(f"{path}:{entry}", ROWS)
    assert told.value.paths == SIDES.paths


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("near", r"`near\(k\)` makes a function; give what it makes a name .*: `scorer\.py:scorer`"),
        ("Needs", r"`Needs` needs arguments to be made: add `scorer = Needs\(k=…\)\.score`"),
        ("unseen", r"`unseen` cannot be seen without running .* return unseen\(output, reference\)`"),
        ("scor", r"no function `scor` \(did you mean `score`\?\); `score\(prediction, target\)`, "),
    ],
)
def test_what_cannot_be_called_says_why_and_what_to_do(entry: str, why: str) -> None:
    with pytest.raises(EvaluatorError, match=why):
        read(PLAIN, entry)


def test_an_entry_that_is_our_own_is_a_version_of_its_own_and_is_read_again_so() -> None:
    named = read(PLAIN, "score")
    assert (named.dialect, named.entry, named.called) == (None, "score", "score")
    assert named.version != read(PLAIN, "near_1").version
    assert named.version == read(PLAIN, "score", "native").version
    header = f'# /// script\n# [tool.evalcell]\n# entry = "score"\n# ///\n{PLAIN}'
    assert read(header).entry == "score"


def test_a_file_without_evaluate_proposes_what_fits_best_first() -> None:
    with pytest.raises(EvaluatorError) as told:
        read(PLAIN)
    message = str(told.value)
    assert "such as `scorer.py:score`" in message
    assert "normalize" not in message
    assert "near(k)" not in message
    with pytest.raises(EvaluatorError, match=r"`b\(prediction, gold\)` likely scores a row: name it, `scorer\.py:b`"):
        read("def load(path): return 1\ndef b(prediction, gold): return c(1)\ndef c(x): return x")


def test_verls_functions_are_known_and_run_at_once() -> None:
    assert read(VERL).dialect == "verl"
    report = runner.evaluate(read(VERL), [{"output": "#### 4", "reference": "4"}, {"output": "4", "reference": "5"}])
    assert [one.score for one in report.results] == [1.0, 0.0]
    four = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return {}\n"
    kept = read(four.format('{"score": float(data_source == "a"), "acc": True}'))
    rows = [{"output": "x", "reference": "x", "data_source": name} for name in "ab"]
    assert [(one.score, one.explanation) for one in runner.evaluate(kept, rows).results] == [
        (1.0, "{'acc': True}"),
        (0.0, "{'acc': True}"),
    ]
    for returned in ('{"acc": 1.0}', '"good"', "('good', 2)", "None"):
        failed = runner.evaluate(read(four.format(returned)), rows).results[0].error
        assert failed is not None
        assert failed.kind == "invalid_result"


@pytest.mark.parametrize(
    "dialect", ["langsmith", "promptfoo", "openai", "langfuse", "trl", "deepeval", "mlflow", "inspect", "braintrust"]
)
def test_a_dialect_is_refused_for_a_function_that_reads_nothing_of_what_it_would_get(dialect: str) -> None:
    """The function's own `except` hid that it got an object: every row was 0, and nobody said so."""
    with pytest.raises(EvaluatorError, match=r"leave the dialect out|Braintrust gives"):
        read(VERL, "compute_score", dialect)


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("def ok(r, e): return r.outputs == e.outputs", "langsmith"),
        ("def ok(r, e): return same(r, e)\ndef same(a, b): return a['outputs'] == b['outputs']", "langsmith"),
        ("def ok(out, more): return out == more['vars']['x']", "promptfoo"),
        ("def ok(out, more): return out == more.get('vars', {}).get('x')", "promptfoo"),
        ("def ok(out, unused): return len(out) < 9", "promptfoo"),
        ("def ok(s, i): return float(s['output_text'] == i['x'])", "openai"),
        ("def evaluate(it): return {'scores': [{'name': 'a', 'value': it.observation.output}]}", "langfuse"),
    ],
)
def test_a_dialect_is_taken_where_the_function_reads_what_it_gives(text: str, dialect: str) -> None:
    entry = "evaluate" if "evaluate" in text else "ok"
    assert read(text, entry, dialect).dialect == dialect


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("def faithful(output, context): return float(output in context)", None),
        ("def short(output, context): return len(output) < 9", "promptfoo"),
        ("def exact(prediction, expected): return float(prediction == expected)", None),
        ("def exact(output, expected): return float(output == expected)", "braintrust"),
    ],
)
def test_a_likeness_in_names_alone_makes_no_script_another_tools(text: str, dialect: str | None) -> None:
    assert read(text, text[4 : text.index("(")]).dialect == dialect


def test_a_function_that_goes_through_outputs_is_given_no_single_text() -> None:
    text = "def {}(predictions, references):\n    return sum(p == r for p, r in zip(predictions, references)) / 2\n"
    with pytest.raises(EvaluatorError, match=r"takes lists, .* return compute\(\[output\], \[reference\]\)`"):
        read(text.format("compute"), "compute")
    with pytest.raises(EvaluatorError, match=r"`evaluate\(predictions, references\)` takes lists"):
        read(text.format("evaluate"))


def test_what_takes_lists_is_not_proposed_by_its_name() -> None:
    batch = "def compute_score(data_sources, solution_strs, ground_truths):\n"
    batch += "    return [a == b for a, b in zip(solution_strs, ground_truths)]\n"
    call = r"compute_score\(data_sources=data_sources, solution_strs=\[output\], ground_truths=\[reference\]\)"
    for entry in (None, "compute_score"):
        with pytest.raises(EvaluatorError, match=rf"takes lists, .* return {call}"):
            read(batch, entry)
    one = "def f1_score(prediction, reference):\n    return float(prediction == reference)\n"
    with pytest.raises(EvaluatorError, match=r"`f1_score\(prediction, reference\)` likely scores a row"):
        read(batch + one)


def test_an_evaluate_of_a_whole_dataset_is_none_of_a_row() -> None:
    with pytest.raises(EvaluatorError, match=r"`evaluate\(dataset, predictions\)` takes a whole file"):
        read("def evaluate(dataset, predictions):\n    return {one: predictions[one] for one in dataset}\n")
    for names in ("gold_answers, predictions", "y_true, y_preds", "model_outputs, correct_labels"):
        first, second = names.split(", ")
        with pytest.raises(EvaluatorError, match="takes lists"):
            read(f"def evaluate({names}):\n    return sum(a == b for a, b in zip({first}, {second})) / len({first})\n")


def test_verls_own_columns_fill_its_parameters_too() -> None:
    rows = [{"solution_str": "#### 4", "ground_truth": "4"}, {"solution_str": "4", "ground_truth": "5"}]
    assert [one.score for one in runner.evaluate(read(VERL), rows).results] == [1.0, 0.0]
    with pytest.raises(ColumnsError, match="no column for `ground_truth`"):
        runner.evaluate(read(VERL), [{"output": "#### 4", "answer": "4"}])


@pytest.mark.parametrize("made", ["reward = partial(base, limit=3)", "reward = Within(3)"])
def test_what_a_call_makes_is_read_as_its_tool_reads_functions(made: str) -> None:
    text = (
        "from functools import partial\n\n\ndef base(completions, answer, limit, **kwargs):\n"
        "    return [float(len(c) <= limit and c == a) for c, a in zip(completions, answer)]\n\n\n"
        "class Within:\n    def __init__(self, limit):\n        self.limit = limit\n\n"
        "    def __call__(self, completions, answer, **kwargs):\n"
        f"        return base(completions, answer, self.limit)\n\n\n{made}\n"
    )
    one = read(text, "reward")
    assert one.dialect == "trl"
    rows = [{"output": "abc", "answer": "abc"}, {"output": "abcd", "answer": "abcd"}]
    assert [result.score for result in runner.evaluate(one, rows).results] == [1.0, 0.0]


def test_a_reference_that_may_be_left_out_is_asked_for_where_it_is_used() -> None:
    text = "def score(output, expected=None):\n    return float(output == {})\n"
    assert [one.required for one in read(text.format("expected"), "score", "native").parameters] == [True, True]
    assert [one.required for one in read(text.format("'a'"), "score", "native").parameters] == [True, False]


SCRIPT = """
const norm = (text: string) => text.trim();
const near = (k: number) => (prediction: string, target: string) =>
  Number(prediction.slice(0, k) === target.slice(0, k));
export const near1 = near(1);
export function score(prediction: string, target: string) { return Number(norm(prediction) === norm(target)); }
export const both = ({ prediction, target }: { prediction: string; target: string }) => Number(prediction === target);
export function size(answer) { return answer.length; }
export default function other() { return 7; }
"""
COMMON = """
function score(prediction, target) { try { return prediction === target ? 1 : 0; } catch (e) { return 0; } }
module.exports = { score, short: (output, context) => output.length < Number(context.vars.most) };
"""


def scored(text: str, entry: str, paths: dict[str, str]) -> list[float | None]:
    report = runner.evaluate(read(text, entry, language="typescript"), ROWS, mapping=InputMapping(paths=paths))
    return [one.score for one in report.results]


def test_so_it_is_in_typescript() -> None:
    assert scored(SCRIPT, "score", SIDES.paths) == [0.0, 0.0, 1.0]
    assert scored(SCRIPT, "near1", SIDES.paths) == [1.0, 0.0, 1.0]
    assert scored(SCRIPT, "both", SIDES.paths) == [0.0, 0.0, 1.0]
    assert scored(SCRIPT, "size", {"answer": "output"}) == [4.0, 1.0, 1.0]
    with pytest.raises(EvaluatorError, match=r"`near\(k\)` makes a function.*const scorer = near\(…\);`"):
        read(SCRIPT, "near", language="typescript")
    with pytest.raises(EvaluatorError, match=r"no function `scor` \(did you mean `score`\?\); .*scorer\.ts:score"):
        read(SCRIPT, "scor", language="typescript")


def test_a_common_module_is_promptfoos_only_where_it_takes_a_context() -> None:
    assert scored(COMMON, "score", SIDES.paths) == [0.0, 0.0, 1.0]
    assert read(COMMON, "short", language="typescript").dialect == "promptfoo"
    with pytest.raises(EvaluatorError, match=r"`score\(prediction, target\)`, `short\(output, context\)` likely"):
        read(COMMON, language="typescript")
    alone = "module.exports = (prediction, target) => Number(prediction === target);"
    assert scored(alone, "default", SIDES.paths) == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("columns", "output"),
    [
        (["question", "reference_answer"], None),
        (["sys", "ref_output"], None),
        (["a", "golden_response", "expected_output"], None),
        (["predicted_label", "label"], "predicted_label"),
        (["y_true", "y_pred"], "y_pred"),
        (["solution_str", "ground_truth"], "solution_str"),
    ],
)
def test_a_column_of_the_right_answer_is_no_guess_for_the_output(columns: list[str], output: str | None) -> None:
    assert likely_columns({"output": "output"}, columns).get("output") == output


SQUAD = """def f1_score(prediction, ground_truth, lang):
    return float(prediction == ground_truth)


def metric_max_over_ground_truths(metric_fn, prediction, ground_truths):
    return max(metric_fn(prediction, one) for one in ground_truths)


def update_answer(metrics, prediction, gold):
    metrics["em"] += f1_score(prediction, gold, "en")


def eval(prediction_file, gold_file):
    return open(prediction_file).read() == open(gold_file).read()


def evaluate(dataset, predictions, lang):
    return sum(f1_score(predictions[one["id"]], one["answer"], lang) for one in dataset) / len(dataset)
"""


def test_a_function_of_a_whole_file_is_named_as_such_with_the_functions_of_a_row() -> None:
    words = r"takes a whole file .* `f1_score\(prediction, ground_truth, lang\)`"
    with pytest.raises(EvaluatorError, match=words) as caught:
        read(SQUAD)
    for other in ("metric_max_over_ground_truths", "update_answer", "eval(prediction_file"):
        assert other not in str(caught.value)


def test_a_setting_is_proposed_as_a_value_and_not_as_a_column() -> None:
    evaluator, rows = read(SQUAD, "f1_score"), [{"prediction": "4", "answer": "4"}]
    with pytest.raises(ColumnsError) as caught:
        runner.evaluate(evaluator, rows)
    assert (caught.value.paths, caught.value.values) == ({"ground_truth": "answer"}, ("lang",))
    mapping = InputMapping(paths=caught.value.paths, literals={"lang": "en"})
    assert [one.score for one in runner.evaluate(evaluator, rows, mapping=mapping).results] == [1.0]
