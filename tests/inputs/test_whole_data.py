"""Functions that take what no row has, a data frame or a file or all rows: refused with the lines that call them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.core.errors import EvaluatorError
from runner.core.types import Evaluator
from runner.inputs.evaluators.load import parse_evaluator
from tests.cli.commands import run

PAIRS = [{"preds": "<a>x</a>", "golds": "x"}, {"preds": "y", "golds": "x"}]
LOOP = """
import re
def reward({a}, {b}, **kwargs):
    rewards = []
    for one, gold in zip({a}, {b}):
        found = re.search("<a>(.*?)</a>", one)
        score = 0.0
        for key in range(3):
            score += 0
        rewards.append(float((found[1] if found else one) == gold))
    return {result}
"""
ANLS = """
class Judge:
    def close(self, s1, s2):
        return float(s1.lower() == s2.lower())

    def eval_list(self, pred_list):
        scores = []
        for (index, entry) in pred_list.items():
            scores.append(max(self.close(entry.text, one) for one in entry.gt_text))
        return sum(scores) / len(scores)
"""
OF_FILE = """
import json
def calculate_accuracy(prediction_file):
    with open(prediction_file) as f:
        rows = json.load(f)
    return sum(row["predicted"] == row["expected"] for row in rows) / len(rows)
"""


def read(text: str, entry: str | None = None) -> Evaluator:
    return parse_evaluator(text, "s", "s.py", entry=entry)


def refused(text: str, entry: str | None = None, rows: Any = None) -> str:
    with pytest.raises(EvaluatorError) as told:
        runner.evaluate(read(text, entry), rows or [])
    return str(told.value)


def lines_of(told: str) -> str:
    return "\n".join(line for line in told.split("\n") if line.startswith(("def ", "from ", "import ")))


@pytest.mark.parametrize("names", [("hypos_list", "truth_list"), ("pred_texts", "gold_texts"), ("list_a", "list_b")])
@pytest.mark.parametrize("result", ["rewards", "list(rewards)", "(sum(rewards) / len(rewards), rewards)"])
def test_of_a_list_with_a_value_for_each_row_the_row_is_given_its_own(names: tuple[str, str], result: str) -> None:
    text = LOOP.format(a=names[0], b=names[1], result=result)
    rows = [dict(zip(names, one.values(), strict=True)) for one in PAIRS]
    told = refused(text, "reward", rows)
    assert "aggregate" not in told
    report = runner.evaluate(read(f"{text}\n{lines_of(told)}"), rows)
    assert [one.score for one in report.results] == [1.0, 0.0]


def test_what_takes_lists_by_the_names_of_outputs_is_indexed_as_well() -> None:
    text = "def reward(predictions, references):\n    return [float(a == b) for a, b in zip(predictions, references)]\n"
    assert "return reward([output], [reference])[0]`" in refused(text, "reward")
    assert "aggregate" in refused(text.replace("return [", "return sum([").replace("references)]", "references)])"))


def test_a_list_of_other_things_than_the_rows_has_no_value_of_a_row() -> None:
    body = (
        "    hits = []\n    for k in (1, 2):\n        hits.append(k in pred_list and k in gold_list)\n    return hits\n"
    )
    rows = [{"pred_list": 1, "gold_list": 2}]
    assert ")[0]" not in refused(f"def hits(pred_list, gold_list):\n{body}", "hits", rows)


def test_a_list_of_one_value_says_that_it_may_be_the_rows() -> None:
    report = runner.evaluate(read("def evaluate(output): return [1.0]"), [{"output": "a"}])
    assert report.results[0].error is not None
    assert "return that, as by `[0]`" in report.results[0].error.message


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (
            'def mrr(data, col_gold):\n    data["x"] = data.apply(lambda x: x[col_gold] == x["pred"], axis=1)\n'
            '    return data["x"].mean()\n',
            'def evaluate(pred, col_gold): return mrr(pandas.DataFrame([{"pred": pred, "col_gold": col_gold}]), '
            '"col_gold")',
        ),
        (
            "import pandas as pd\ndef accuracy(rows: pd.DataFrame) -> float:\n"
            '    return (rows["pred"] == rows["gold"]).mean()\n',
            'def evaluate(pred, gold): return accuracy(pandas.DataFrame([{"pred": pred, "gold": gold}]))',
        ),
        (
            'def score(df, limit):\n    return sum(row["a"] > limit for _, row in df.iterrows())\n',
            'def evaluate(a, limit): return score(pandas.DataFrame([{"a": a}]), limit)',
        ),
        (
            "def evaluate(results_df):\n    return results_df.loc[0].mean()\n",
            'def evaluate(COLUMN): return NAME(pandas.DataFrame([{"COLUMN": COLUMN}]))',
        ),
    ],
)
def test_a_data_frame_is_made_of_the_row(text: str, call: str) -> None:
    entry = text[text.index("def ") + 4 : text.index("(", text.index("def "))]
    for told in (refused(text), refused(text, entry)):
        assert "takes a data frame of all rows" in told
        assert call in told.split("\n")


def test_what_may_be_another_object_is_no_data_frame() -> None:
    for text in (
        "def score(df, gold): return float(len(df) == len(gold))",
        "def score(data, gold):\n    data = pd.DataFrame(data)\n    return data.apply(len).mean()",
        "def score(table, gold): return float(len(table.columns) == gold)",
    ):
        assert read(text, "score").called == "score"


def test_a_frame_is_told_of_a_list_too_and_never_as_several_references() -> None:
    text = "def mrr(data, gold):\n    return data.apply(len).mean() == gold\n"
    assert "best of several" not in refused(text, "mrr", [{"data": ["a", "b"], "gold": "a"}])


def test_a_method_that_goes_through_all_rows_is_told_with_the_lines_for_a_row() -> None:
    """Also where nothing is named: what it calls for a row, `Judge.close(s1, s2)`, is its helper."""
    assert "return Judge().eval_list({0: SimpleNamespace(" in refused(ANLS)
    lines = lines_of(refused(ANLS, "Judge.eval_list"))
    rows = [{"text": "A", "gt_text": ["b", "a"]}, {"text": "A", "gt_text": ["c"]}]
    report = runner.evaluate(read(f"{ANLS}\n{lines}"), rows)
    assert [one.score for one in report.results] == [1.0, 0.0]


def test_an_object_that_is_compared_by_its_keys_is_a_rows_own() -> None:
    text = "def fields(gold):\n    return float(all(value.strip() for key, value in gold.items()))\n"
    assert read(text, "fields").called == "fields"


@pytest.mark.parametrize("entry", [None, "calculate_accuracy"])
def test_a_files_name_is_no_column(entry: str | None) -> None:
    told = refused(OF_FILE, entry)
    assert "s.py:4: `prediction_file` of calculate_accuracy is the name of a file, which it opens" in told
    assert "`def evaluate(predicted, expected): …`" in told


@pytest.mark.parametrize(
    "opening", ["pathlib.Path(a).read_text()", "Path(a).open()", "pd.read_csv(a)", "a.read_text()", "helper(a)"]
)
def test_a_file_is_opened_in_any_way(opening: str) -> None:
    text = f"def helper(name): return open(name)\n\ndef score(a, b): return float({opening} == b)\n"
    if "pathlib" in opening:
        text = text.replace("pathlib.", "")
    assert "`a` of score is the name of a file" in refused(text, "score")


def test_what_asks_first_whether_it_is_a_file_takes_a_text() -> None:
    text = "import os\ndef score(a, b):\n    t = open(a).read() if os.path.exists(a) else a\n    return float(t == b)\n"
    assert read(text, "score").called == "score"


def test_numbers_as_keys_say_how_they_are_made_text() -> None:
    report = runner.evaluate(read("def evaluate(output): return {1: 0.5, 5: 1.0}"), [{"output": "a"}])
    assert report.results[0].error is not None
    assert 'return one of its values, or all as `{f"at_{key}": value' in report.results[0].error.message


def test_frames_beside_each_other_have_a_column_each() -> None:
    text = "import pandas as pd\ndef scores(y_pred: pd.DataFrame, y_test: pd.DataFrame): return len(y_pred == y_test)\n"
    told = refused(text, "scores")
    call = 'scores(pandas.DataFrame([{"y_pred": y_pred}]), pandas.DataFrame([{"y_test": y_test}]))'
    assert f"def evaluate(y_pred, y_test): return {call}" in told


def test_columns_by_parameters_with_defaults_are_given_too() -> None:
    text = "def accuracy(df, target_col, predict_col=None):\n    return (df[target_col] == df[predict_col]).mean()\n"
    assert '"target_col", predict_col="predict_col")' in refused(text)


@pytest.mark.parametrize("body", ["a, b = eval_pred", "a, b = eval_pred.predictions, eval_pred.label_ids"])
def test_what_a_trainer_calls_takes_all_rows(body: str) -> None:
    told = refused(f"def compute_metrics(eval_pred):\n    {body}\n    return float((a == b).mean())\n")
    assert "of all rows as `eval_pred`, as a trainer of transformers calls it" in told
    lines = lines_of(told)
    assert "compute_metrics((numpy.array([a]), numpy.array([b])))" in lines or "SimpleNamespace(predictions=" in lines


def test_a_list_of_all_rows_as_objects_is_made_of_the_row() -> None:
    text = (
        "def evaluate_rag(results):\n    return sum(r['answer'] == r['ground_truth'] for r in results) / len(results)\n"
    )
    lines = lines_of(refused(text))
    rows = [{"answer": "a", "ground_truth": "a"}, {"answer": "a", "ground_truth": "b"}]
    assert [one.score for one in runner.evaluate(read(f"{text}\n{lines}"), rows).results] == [1.0, 0.0]


def test_pairs_of_lists_that_are_gone_through_twice_are_lists_of_lists() -> None:
    text = (
        "def mrr(retrieved_list, relevant_list):\n    found = []\n"
        "    for retrieved, relevant in zip(retrieved_list, relevant_list):\n"
        "        for at, one in enumerate(retrieved, 1):\n            if one in relevant:\n"
        "                found.append(1 / at)\n                break\n    return sum(found) / len(retrieved_list)\n"
    )
    rows = [{"retrieved_list": ["d1", "d2"], "relevant_list": ["d2"]}]
    notes = runner.evaluate(read(text, "mrr"), rows).notes
    assert any(
        "def evaluate(retrieved_list, relevant_list): return mrr([retrieved_list], [relevant_list])" in n for n in notes
    )


def test_a_list_whose_parts_are_judged_each_is_told() -> None:
    text = (
        "def same(pred_vectors, ref_vectors):\n    return [float(a == b) for a, b in zip(pred_vectors, ref_vectors)]\n"
    )
    report = runner.evaluate(read(text, "same"), [{"pred_vectors": [1, 0], "ref_vectors": [1, 0]}])
    assert any("return same([pred_vectors], [ref_vectors])[0]`" in note for note in report.notes)


def test_one_list_alone_with_a_value_for_each_is_indexed() -> None:
    text = "def reward_fn(samples, outputs, **kwargs):\n    return [float(len(one) > 1) for one in outputs]\n"
    told = refused(text, "reward_fn", [{"samples": "x", "outputs": "abc"}])
    assert "def evaluate(samples, outputs): return reward_fn(samples, [outputs])[0]" in told


SCORER = """
from typing import List
METRICS = {{"near": lambda one, other: float(one == other)}}
def scorer({}):
    total = 0.0
    for prediction, ground_truths in zip(predictions, answers):
        best = 0.0
        for ground_truth in ground_truths:
            if dataset in ["trec"]:
                prediction = prediction.strip()
            best = max(best, METRICS[dataset](prediction, ground_truth))
        total += best
    return 100 * total / len(predictions)
"""
TYPES = "dataset: str, predictions: List[str], answers: List[List[str]], all_classes: List[str]"


@pytest.mark.parametrize("names", [TYPES, "dataset, predictions, answers, all_classes"])
def test_no_two_parameters_are_the_output_and_what_all_rows_share_has_no_brackets(names: str) -> None:
    told = refused(SCORER.format(names), "scorer")
    line = (
        "def evaluate(output, reference, dataset, all_classes): return scorer(dataset=dataset, predictions=[output], "
    )
    assert f"`{line}answers=[reference], all_classes=all_classes)`" in told


@pytest.mark.parametrize("names", [TYPES, "dataset, predictions, answers, all_classes"])
@pytest.mark.parametrize("several", [True, False])
def test_lists_of_all_rows_are_made_of_the_columns(names: str, several: bool, tmp_path: Path) -> None:
    pairs = [("ab", "ab"), ("abc", "cba")]  # by its characters the second would be like the first
    rows = [
        {"pred": a, "answers": ["x", b] if several else b, "all_classes": None, "length": 3, "dataset": "near"}
        for a, b in pairs
    ]
    (tmp_path / "m.py").write_text(SCORER.format(names))
    (tmp_path / "d.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    told = run(str(tmp_path / "m.py:scorer"), str(tmp_path / "d.jsonl")).stderr
    step = re.search(r"`(def evaluate[^`]+)`", told)
    assert step is not None
    assert step[1].startswith("def evaluate(pred, answers, dataset, all_classes): return scorer(dataset=dataset, ")
    report = runner.evaluate(read(f"{SCORER.format(names)}\n{step[1]}\n"), rows)
    assert [one.score for one in report.results] == [100.0, 0.0]


@pytest.mark.parametrize(("row", "given"), [({"preds": "a", "golds": "a"}, "[preds], [golds]"), (
    {"preds": ["a"], "golds": ["a"]}, "preds, golds"), ({"pred": "a", "gold": "a"}, "[pred], [gold]")])  # fmt: skip
def test_a_rows_own_lists_have_no_more_brackets(row: dict[str, Any], given: str, tmp_path: Path) -> None:
    text = "def score(preds, golds):\n    return sum(a == b for a, b in zip(preds, golds)) / len(preds)\n"
    (tmp_path / "m.py").write_text(text)
    (tmp_path / "d.jsonl").write_text(json.dumps(row))
    told = run(str(tmp_path / "m.py:score"), str(tmp_path / "d.jsonl")).stderr
    assert f"return score({given})`" in told


def test_words_of_comments_and_texts_are_no_names_of_what_judges_all_rows() -> None:
    text = '# test_results\ndef tidy(one):\n    """Cut test_results."""\n    return one[0]\n'
    assert "as `test_results` looks like" not in refused(text)
    assert "as `test_results` looks like" in refused(text.replace("one", "test_results"))
