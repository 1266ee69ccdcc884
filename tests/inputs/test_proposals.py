"""What is proposed as scoring a row judges one: no helper of that, no base class, and nothing that runs scorers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError
from runner.core.types import InputMapping
from runner.inputs.evaluators.load import parse_evaluator
from tests.cli.commands import evalcell, run, write_rows

WHOLE = """
class BBHEvaluator:
    def extract_answer(self, response, id):
        return 1 if "yes" in self.normalize(response) else 0

    def normalize(self, response):
        return response.lower()

    def evaluate(self, data):
        truth = [int(item["reference"]) for item in data]
        given = [self.extract_answer(item["response"], item["id"]) for item in data]
        return sum(a == b for a, b in zip(given, truth)) / len(truth)
"""
ROWS = [
    {"id": "a", "response": "Yes", "reference": "1"},
    {"id": "b", "response": "no", "reference": "1"},
    {"id": "c", "response": "no", "reference": "0"},
]
JUDGE = """
def judge_choice(prediction, option_list, answer_token):
    return float(answer_token in option_list and prediction == answer_token)


def doc_to_target(doc):
    return doc["answer"][5]


def judge_mc(predictions, references):
    return judge_choice(predictions[0], ["A", "B"], references[0])
"""
RUNS = """
def create_toxicity_evaluator(temperature=0.0):
    return make_judge(temperature)


def run_experiment_eval(dataset_name, experiment_name){arrow}:
    judge = create_toxicity_evaluator()
    result = run_experiment(dataset_name, name=experiment_name, evaluators=[judge])
    print(result)
{end}
"""


def message_of(source: str, entry: str | None = None, language: Any = "python") -> str:
    with pytest.raises(EvaluatorError) as error:
        parse_evaluator(source, "s", "s.ts" if language == "typescript" else "s.py", entry=entry, language=language)
    return str(error.value)


def test_a_method_over_all_rows_is_named_with_the_line_that_works(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(WHOLE)
    write_rows(tmp_path / "rows.jsonl", ROWS)
    said = " ".join(evalcell("run", str(tmp_path / "s.py"), str(tmp_path / "rows.jsonl"), COLUMNS="900").output.split())
    assert "BBHEvaluator.evaluate takes all rows as one list, `data`" in said
    assert "extract_answer" not in said
    line = next(line for line in message_of(WHOLE).splitlines() if line.startswith("def evaluate"))
    results = runner.evaluate(parse_evaluator(f"{WHOLE}\n{line}\n", "s"), ROWS).results
    assert [result.score for result in results] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["run", "compute", "__call__", "calculate_all"])
def test_it_is_named_whatever_its_name_is(name: str) -> None:
    source = WHOLE.replace("BBHEvaluator", "Bench").replace("def evaluate(", f"def {name}(")
    assert "takes all rows as one list, `data`" in message_of(source)
    outside = "def extract_answer(response, id):\n    return len(response)\n\n\ndef run(data):\n"
    outside += "    return sum(extract_answer(d['response'], d['id']) == d['reference'] for d in data)\n"
    assert "run takes all rows as one list, `data`" in message_of(outside)


@pytest.mark.parametrize(
    "helper",
    [
        "parse_score(response, id)",
        "extract_correct_option(response, id)",
        "clean_answer(response, id)",
        "normalize_prediction(prediction, id)",
        "preprocess_response(response, id)",
        "strip_answer(output, id)",
    ],
)
@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_helper_that_another_function_calls_is_not_proposed(helper: str, language: str) -> None:
    name = helper.partition("(")[0]
    if language == "python":
        source = (
            f"def {helper}:\n    return 1\n\n\ndef mark(text, model):\n    return {name}(text, '') == model.ask()\n"
        )
    else:
        source = f"export function {helper} {{ return 1; }}\n"
        source += f"export function mark(text, path) {{ return {name}(text, '') === read(path); }}\n"
    assert f"`{name}(" not in message_of(source, language=language).partition(" (it defines")[0]


def test_a_function_that_judges_is_proposed_though_its_name_is_like_a_helpers() -> None:
    source = "def get_accuracy(pred, gold):\n    return float(pred == gold)\n\n\n"
    source += "def main():\n    print(get_accuracy(1, 1))\n"
    assert "`get_accuracy(pred, gold)` likely scores a row" in message_of(source)
    source = source.replace("get_accuracy", "parse_and_compare")
    assert "`parse_and_compare(pred, gold)` likely scores a row" in message_of(source)


def test_a_metric_of_lists_is_named_before_what_it_calls() -> None:
    said = message_of(JUDGE)
    assert "`judge_mc(predictions, references)` takes lists" in said
    assert "return judge_mc([output], [reference])" in said
    assert "judge_choice" not in said
    assert "doc_to_target" not in said
    beside = "\n\ndef length_score(response):\n    return len(response)\n"
    said = message_of(JUDGE + beside)
    assert said.index("`judge_mc(predictions, references)`") < said.index("`length_score(response)` likely")
    nearer = "\n\ndef f1(prediction, reference):\n    return 1.0\n"
    said = message_of(JUDGE + nearer)
    assert said.index("`f1(prediction, reference)`") < said.index("`judge_mc(predictions, references)` takes all rows")


def test_a_constant_is_said_where_no_column_fits() -> None:
    evaluator = parse_evaluator(JUDGE, "s", entry="judge_choice")
    rows = [{"question": "q", "answer": "A", "prediction": "A"}]
    with pytest.raises(ColumnsError) as error:
        runner.evaluate(evaluator, rows)
    assert "a value for all rows is given by InputMapping(literals={'option_list': 'VALUE'})" in str(
        error.value
    ).replace('"', "'")
    mapping = InputMapping(paths={"answer_token": "answer"}, literals={"option_list": ["A", "B"]})
    assert runner.evaluate(evaluator, rows, mapping=mapping).results[0].score == 1.0


@pytest.mark.parametrize(("arrow", "end"), [(" -> None", ""), ("", ""), ("", "    return result")])
def test_what_runs_scorers_is_no_scorer_and_the_factory_is_named(arrow: str, end: str) -> None:
    said = message_of(RUNS.format(arrow=arrow, end=end))
    assert "run_experiment_eval(dataset_name" not in said
    assert "`judge`, which is made by `create_toxicity_evaluator()`" in said
    assert "add `scorer = create_toxicity_evaluator()`" in said


def test_what_returns_nothing_is_no_scorer() -> None:
    source = "def score_all(output, reference):\n    print(output == reference)\n"
    assert "score_all(" not in message_of(source)
    assert "`score(a)` likely scores a row" in message_of("def score(a): pass")


@pytest.mark.parametrize(
    "base",
    [
        "class Base(Protocol):\n    def __call__(self, completions, **kwargs) -> list: ...\n",
        "class Base(ABC):\n    @abstractmethod\n    def __call__(self, completions, **kwargs): ...\n",
        "class Base:\n    def __call__(self, completions, **kwargs):\n        raise NotImplementedError\n",
    ],
)
def test_a_base_class_is_not_proposed(base: str) -> None:
    head = "from abc import ABC, abstractmethod\nfrom typing import Protocol\n\n\n"
    own = (
        "class {0}(Base):\n    def __call__(self, completions, **kwargs):\n        return [1.0 for _ in completions]\n"
    )
    said = message_of(head + base + own.format("A") + own.format("B"))
    assert "has `A`, `B`, and each is a reward function of TRL" in said
    assert parse_evaluator(head + base + own.format("A"), "s", "s.py").entry == "A"


def test_all_scorers_local_to_functions_are_named() -> None:
    source = "def run_a():\n    def correct(outputs, reference_outputs):\n        return outputs == reference_outputs\n"
    source += "    def hit(outputs, reference_outputs):\n        return 1\n    start([correct, hit])\n"
    source += (
        "\n\ndef run_b():\n    class Match(Base):\n        def score(self, output, reference):\n            return 1\n"
    )
    source += "    start([Match()])\n"
    said = message_of(source)
    assert "`correct(outputs, reference_outputs)` (line 2) that is local to `run_a`" in said
    assert "local, too: `hit(outputs, reference_outputs)` (line 4), `Match.score(output, reference)` (line 11)" in said


def test_of_two_columns_that_do_as_well_both_are_named(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("def evaluate(hyp, ref):\n    return float(hyp == ref)\n")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"hyp1": "a", "hyp2": "b", "ref": "a"}) + "\n")
    said = " ".join(evalcell("run", str(tmp_path / "s.py"), str(tmp_path / "rows.jsonl"), COLUMNS="900").output.split())
    assert "--map hyp=hyp" in said
    assert "would do for `hyp` as well" in said


ARRAYS = """export function exactMatch(predictions: string[], references: readonly string[]): number {
  let hits = 0;
  for (let i = 0; i < predictions.length; i++) if (predictions[i] === references[i]) hits++;
  return hits / predictions.length;
}
export class Bench {
  extractAnswer(response: string, id: string): number { return response === "yes" ? 1 : 0; }
  run(data: { response: string; reference: string }[]): number {
    return data.filter((one) => this.extractAnswer(one.response, "") === Number(one.reference)).length / data.length;
  }
}
"""


def test_an_array_of_typescript_is_given_no_text_and_the_line_to_write_works() -> None:
    rows = [{"prediction": "axc", "reference": "abc"}, {"prediction": "abc", "reference": "abc"}]
    mapping = InputMapping(paths={"predictions": "prediction", "references": "reference"})
    read: dict[str, Any] = {"name": "s", "where": "s.ts", "language": "typescript"}
    with pytest.raises(EvaluatorError, match="exactMatch declares an array there: add this line") as error:
        runner.evaluate(parse_evaluator(ARRAYS, **read, entry="exactMatch"), rows, mapping=mapping)
    line = str(error.value).splitlines()[-1]
    run = runner.evaluate(parse_evaluator(f"{ARRAYS}{line}\n", **read), rows, mapping=mapping)
    assert [one.score for one in run.results] == [0.0, 1.0]
    lists = [{"prediction": ["a", "b"], "reference": ["a", "c"]}]
    assert (
        runner.evaluate(parse_evaluator(ARRAYS, **read, entry="exactMatch"), lists, mapping=mapping).results[0].score
        == 0.5
    )


def test_a_method_over_all_rows_in_typescript_has_its_line_too() -> None:
    rows = [{"response": "yes", "reference": "1"}, {"response": "no", "reference": "1"}]
    read: dict[str, Any] = {"name": "s", "where": "s.ts", "language": "typescript"}
    with pytest.raises(ColumnsError, match="`data` is an array: if that is of all rows, add `") as error:
        runner.evaluate(parse_evaluator(ARRAYS, **read, entry="Bench.run"), rows)
    line = str(error.value).partition("add `")[2].partition("` to the script")[0]
    run = runner.evaluate(parse_evaluator(f"{ARRAYS}{line}\n", **read), rows)
    assert [one.score for one in run.results] == [1.0, 0.0]


@pytest.mark.parametrize("called", ["compute_score", "score"])
@pytest.mark.parametrize("whole", [True, False])
def test_an_object_with_all_keys_that_are_read_is_proposed_as_a_whole(called: str, whole: bool) -> None:
    source = (
        f"def {called}(solution_str, ground_truth, extra_info=None):\n    print(ground_truth['question'])\n"
        "    return float(solution_str == ground_truth['target'])\n"
    )
    truth = {"target": "4"} | ({"question": "2+2?"} if whole else {})
    row = {"prompt": "2+2?", "response": "4", "reward_model": {"style": "rule", "ground_truth": truth}}
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(parse_evaluator(source, "s", "s.py", entry=called), [row])
    path = "$.metadata.reward_model.ground_truth"
    assert (told.value.paths.get("ground_truth") == path) == whole
    assert any(one.startswith("ground_truth.") for one in told.value.paths) == (not whole)


@pytest.mark.parametrize(
    "body",
    [
        "return sum(len(p['qas']) for article in dataset for p in article['paragraphs'])",
        "n = 0\n    for one in dataset:\n        for p in one.get('paragraphs'):\n            n += 1\n    return n",
    ],
)
def test_what_goes_through_a_nested_dataset_is_said_to_take_all_rows(body: str) -> None:
    source = f"def evaluate_v20(dataset, predictions):\n    {body}\n"
    with pytest.raises(EvaluatorError) as told:
        parse_evaluator(source, "s", "s.py")
    assert "`evaluate_v20` takes all rows at once: it goes through `paragraphs` of each object" in str(told.value)
    assert "likely scores" not in str(told.value)


def test_what_goes_through_a_rows_own_objects_is_proposed_still() -> None:
    source = "def score(answer, contexts):\n    return sum(s in answer for one in contexts for s in one['sentences'])\n"
    with pytest.raises(EvaluatorError, match=r"`score\(answer, contexts\)` likely scores a row"):
        parse_evaluator(source, "s", "s.py")


@pytest.mark.parametrize("answers", ["output", "outputs"])
def test_output_beside_a_prediction_is_the_right_answer(answers: str) -> None:
    source = "def evaluate(output, reference): return float(output in reference)\n"
    rows = [{"id": "1", "pred": "a", answers: "ab"}, {"id": "2", "pred": "ab", answers: "a"}]
    with pytest.raises(ColumnsError) as told:
        runner.evaluate(parse_evaluator(source, "s"), rows)
    assert told.value.paths == {"output": "pred", "reference": answers}
    run = runner.evaluate(parse_evaluator(source, "s"), rows, mapping=InputMapping(paths=told.value.paths))
    assert [one.score for one in run.results] == [1.0, 0.0]


CLASSES = """
class Base:
    def __init__(self, config): self.config = config
    def calculate(self, data): return {}
class F1(Base):
    def token_scores(self, prediction, ground_truths): return float(prediction in ground_truths)
    def calculate_metric(self, data): return 0
class Whole(Base):
    def calculate_metric(self, data): return 0
def split_retrieval(pred): return pred.split()
"""


def test_method_of_a_class_that_needs_arguments_is_named_with_the_line() -> None:
    line = "scorer = F1(config=…).token_scores"
    for entry in (None, "F1", "F1.token_scores"):
        with pytest.raises(EvaluatorError, match=r"`F1` needs arguments to be made: add") as told:
            parse_evaluator(CLASSES, "s", entry=entry)
        assert f"`{line}`" in str(told.value)
        assert not {"`Base`", "split_retrieval(pred)"} & {*str(told.value).split()}
    with pytest.raises(EvaluatorError, match=r"`scorer = Whole\(…\).calculate_metric`"):
        parse_evaluator(CLASSES, "s", entry="Whole")
    assert parse_evaluator(f"{CLASSES}{line.replace('…', '{}')}\n", "s", entry="scorer").parameters


def test_texts_made_of_a_doc_are_not_proposed_and_result_is_a_list_of_lm_eval_s() -> None:
    source = """
def own_doc_to_text(doc, kwargs): return doc["question"]
def own_doc_to_mc_target(doc): return doc["gt"]
"""
    with pytest.raises(EvaluatorError) as told:
        parse_evaluator(source, "s")
    assert "score" not in str(told.value)
    source += "def own_process_result(doc, result): return {'acc': float(result[0].strip() == doc['gt'])}\n"
    evaluator = parse_evaluator(source, "s")
    assert (evaluator.dialect, evaluator.entry) == ("lm-eval", "own_process_result")
    run = runner.evaluate(evaluator, [{"output": "Paris", "gt": "Paris"}, {"output": "Paris", "gt": "P"}])
    assert [one.score for one in run.results] == [1.0, 0.0]


def test_what_the_script_must_make_is_not_in_the_line_to_run(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "def accuracy(executor, db_id, pred_sql, gold_sql):\n"
        "    return float(executor.execute(db_id, pred_sql) == executor.execute(db_id, gold_sql))\n"
    )
    (tmp_path / "d.jsonl").write_text('{"db_id": "x", "query": "select 1", "prediction": "select 2"}')
    told = run(str(tmp_path / "s.py:accuracy"), str(tmp_path / "d.jsonl")).stderr
    assert "make `executor` in the script itself" in told
    assert "without `:accuracy`" in told
    assert "Run this" not in told  # that line would be refused again


@pytest.mark.parametrize("test", ['method == "near"', 'method in ("near", "far")'])
def test_a_setting_that_is_compared_with_texts_is_given_one_of_them(test: str, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(f"def score(pred, gold, method):\n    return float({test} and pred == gold)\n")
    (tmp_path / "d.jsonl").write_text('{"pred": "a", "gold": "a"}')
    script, data = str(tmp_path / "s.py:score"), str(tmp_path / "d.jsonl")
    told = run(script, data).stderr
    assert '`method` is compared with `"near"`' in told
    assert """--set 'method="near"'""" in told
    assert run(script, data, "--set", 'method="near"').exit_code == 0
