"""What a Python script is read as, where its dialect needs no package."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from runner.core.errors import EvaluatorError
from runner.core.types import Continuous, Evaluator, Freeform
from runner.inputs.evaluators.load import parse_evaluator
from sandboxes.guest.foreign.braintrust import wrap


@pytest.mark.parametrize(
    ("grader", "why"),
    [
        ('{"type": "score_model", "name": "x"}', "of the type score_model needs `input`"),
        ('{"type": "label_model"}', "of the type label_model needs `input`"),
        ('{"type": "strng_check"}', "did you mean `string_check`"),
        ('{"type": "text_similarity", "input": "", "reference": "", "evaluation_metric": "cosine"}', "embeddings"),
        ('{"type": "multi", "graders": {"a": {"type": "score_model"}}, "calculate_output": "a"}', "grader `a`"),
        (
            '{"type": "multi", "graders": {"a": {"type": "python", "source": "def grade(sample, item): return 1"}}, '
            '"calculate_output": "a.__class__"}',
            "`calculate_output` may have",
        ),
        (
            '{"type": "multi", "graders": {"a": {"type": "python", "source": "def grade(sample, item): return 1"}}, '
            f'"calculate_output": "{"a+" * 1000}a"}}',
            "longer than 2000 characters",
        ),
        ("[1]", "not an object"),
        ("{", "no JSON"),
    ],
)
def test_a_grader_that_cannot_be_run_is_refused_by_its_name(grader: str, why: str) -> None:
    with pytest.raises(EvaluatorError, match=why):
        parse_evaluator(grader, "grader.json", entry="<json>")


GRADER = '{"type": "python", "source": "def grade(sample, item): return 1"}'


@pytest.mark.parametrize("operator", ["%", "//", "|", "&", "<<", ">>", "@", "**"])
def test_an_operator_that_openai_has_not_is_refused_by_its_name(operator: str) -> None:
    text = f'{{"type": "multi", "graders": {{"a": {GRADER}}}, "calculate_output": "1 + a {operator} 2"}}'
    with pytest.raises(EvaluatorError, match=f"has the operator {re.escape(operator)}, which OpenAI's formula"):
        parse_evaluator(text, "grader.json", entry="<json>")
    for known in "+-*/^":
        assert parse_evaluator(text.replace(operator, known), "grader.json", entry="<json>").dialect == "openai"


@pytest.mark.parametrize("operator", ["~", "not"])
def test_so_is_one_before_a_name(operator: str) -> None:
    text = f'{{"type": "multi", "graders": {{"a": {GRADER}}}, "calculate_output": "{operator} a"}}'
    with pytest.raises(EvaluatorError, match=f"has the operator {operator}, which OpenAI's formula"):
        parse_evaluator(text, "grader.json", entry="<json>")


@pytest.mark.parametrize(
    "formula",
    [
        "a # + b",
        "True",
        "0x10",
        "1_000 + a",
        "(1)(2)",
        "a(1)",
        "min + 1",
        "abs",
        "min()",
        "max(a, key=a)",
        "1j",
    ],
)
def test_nothing_else_of_python_is_a_formula(formula: str) -> None:
    """The rest of `a # + b` is a comment to Python: rows were scored by a part of the formula."""
    parts = json.dumps({"a": json.loads(GRADER), "b": json.loads(GRADER)})
    text = f'{{"type": "multi", "graders": {parts}, "calculate_output": %s}}'
    with pytest.raises(EvaluatorError, match="`calculate_output` may have numbers"):
        parse_evaluator(text % json.dumps(formula), "grader.json", entry="<json>")
    for known in ("min(a, 1.5e-3) + 2E2 - .5", "(a + b) / 2", "sqrt(max(a, b))", "(a +\n b)"):
        assert parse_evaluator(text % json.dumps(known), "grader.json", entry="<json>").dialect == "openai"


def test_the_scorer_of_an_eval_is_the_one_in_its_scores() -> None:
    text = (
        "from braintrust import Eval\nfrom autoevals import Levenshtein\n\n\n"
        "def helper(output, expected): return 1\n\n\n"
        "def exact(output, expected): return 1\n\n\nEval('a', data=[], task=len, scores=[{}])\n"
    )
    assert parse_evaluator(text.format("exact"), "a").entry == "exact"
    assert parse_evaluator(text.format("Levenshtein()"), "a").packages == ("autoevals",)
    with pytest.raises(EvaluatorError, match=r"scorers `exact`, `Levenshtein`; say which: `a\.py:exact`"):
        parse_evaluator(text.format("exact, Levenshtein"), "a", "a.py")
    for beside, told in (
        ("autoevals.Levenshtein", "autoevals.Levenshtein"),
        ("print", "print"),
        ("len or max", "len or max"),
    ):
        with pytest.raises(EvaluatorError, match=rf"scorers `exact`, `{told}.*; say which: `a\.py:exact`"):
            parse_evaluator(text.format(f"exact, {beside}"), "a", "a.py")
    with pytest.raises(EvaluatorError, match=r"the scorer `autoevals\.Levenshtein`; give the one to run a name"):
        parse_evaluator(text.format("autoevals.Levenshtein()"), "a", "a.py")
    assert parse_evaluator("near = Levenshtein()\n" + text.format("near"), "a").entry == "near"


@pytest.mark.parametrize(
    ("brought", "called"),
    [
        ("from braintrust.framework import Eval, EvalAsync", "EvalAsync"),
        ("import braintrust.framework", "braintrust.framework.Eval"),
        ("import braintrust.framework as b", "b.Eval"),
    ],
)
def test_an_eval_by_its_long_name_needs_no_package_either(brought: str, called: str) -> None:
    text = (
        f"{brought}\n\n\ndef helper(output, expected): return 1\n\n\ndef exact(output, expected): return 0.5\n\n\n"
        f"{called}('a', data=[], task=len, scores=[exact])\n"
    )
    found = parse_evaluator(text, "a")
    assert (found.entry, found.packages) == ("exact", ())
    with patch.dict(sys.modules):
        call = wrap(text, "exact")
    assert call(output="a", reference="b") == {"score": 0.5, "explanation": None}


def test_a_deep_script_is_read_from_a_deep_stack() -> None:
    text = f"def exact(output, expected): return 1\n\n\nsum = {'+'.join('1' * 2500)}\n"

    def read(frames: int) -> Evaluator:
        return read(frames - 1) if frames else parse_evaluator(text, "a", dialect="braintrust")

    assert read(200).entry == "exact"


@pytest.mark.parametrize(
    ("text", "directed"),
    [
        ("def get_assert(output, context): return 1.0", True),
        ("def handler(input, output, expected): return 1.0", True),
        ("def grade(sample, item): return 1.0", True),
        ("def reward(completions, **kwargs): return [1.0]", True),
        (
            "from deepeval.metrics import BaseMetric\n\nclass A(BaseMetric):\n    def measure(self, case): return 1",
            False,
        ),
        ("def ok(inputs, outputs, reference_outputs): return 1.0", False),
        ("def evaluate(output, reference): return 1.0", False),
    ],
)
def test_a_higher_score_is_better_only_where_the_tool_says_so_of_every_script(text: str, directed: bool) -> None:
    one = parse_evaluator(text, "a")
    assert one.configs == ({"": Freeform(direction="maximize")} if directed else {})
    own = {"": Continuous(direction="minimize")}
    assert one.model_copy(update={"outputs": own}).configs == own


def test_a_script_that_uses_more_of_a_package_gets_it() -> None:
    text = "import braintrust\nfrom braintrust import {}\n\n\ndef handler(output, expected): return 1\n"
    assert parse_evaluator(text.format("Score"), "a").packages == ()
    assert parse_evaluator(text.format("init_logger"), "a").packages == ("braintrust",)


def test_what_could_be_several_is_refused_with_what_to_write() -> None:
    text = "def one(output, expected): return 1\n\n\ndef two(inputs, outputs, reference_outputs): return 1\n"
    with pytest.raises(EvaluatorError, match="could be a script for `langsmith`, `braintrust`; say which"):
        parse_evaluator(text, "graders.py")
    assert parse_evaluator(text, "graders.py", entry="one").dialect == "braintrust"
    header = '# /// script\n# [tool.evalcell]\n# dialect = "langsmith"\n# entry = "two"\n# ///\n'
    assert parse_evaluator(header + text, "graders.py").entry == "two"


def test_what_is_more_than_a_type_takes_the_package() -> None:
    own = parse_evaluator("from autoevals import Levenshtein\n", "one.py", dialect="braintrust")
    assert (own.entry, own.packages) == ("Levenshtein", ("autoevals",))
    client = "from langsmith import Client\n\n\ndef ok(run, example): return True\n"
    assert parse_evaluator(client, "one.py").packages == ("langsmith",)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("def get_assert(output, context): return 1.0", "promptfoo get_assert"),
        ("def grade(sample, item): return 1.0", "openai grade"),
        ("import mlflow\n\n@mlflow.genai.scorer\ndef x(inputs, outputs): return 1.0", "mlflow x"),
        (
            "def helper(input, output): return 0\n\ndef x(output): return helper(1, output)",
            None,
        ),
        ("lev = Levenshtein()\n\ndef close(input, output): return 1 - lev(output, input).score", None),
        ("def ok(inputs, outputs, reference_outputs): return Levenshtein()(outputs)", "langsmith ok"),
        ("def ok(run, example): return {'score': 0}", "langsmith ok"),
        ("def ok(outputs, reference_outputs): return 0", "langsmith ok"),
        ("def ok(*, input, output, expected_output, metadata, **more): return Levenshtein()(output)", None),
        ("def close(output, reference): return Levenshtein()(output, reference)", None),
    ],
)
def test_a_scorer_that_is_imported_takes_the_place_of_no_function(text: str, read: str | None) -> None:
    source = f"from autoevals import Levenshtein\n\n\n{text}\n"
    if read is None:
        with pytest.raises(EvaluatorError, match=r"could be a script for|has no function"):
            parse_evaluator(source, "script")
    else:
        found = parse_evaluator(source, "script")
        assert f"{found.dialect} {found.entry}" == read


def test_a_function_that_uses_a_scorer_of_the_package_is_meant_and_not_that_scorer() -> None:
    for parameters in ("input, output, **kwargs", "input, output, expected"):
        script = (
            f"from autoevals import NumericDiff\n\n\ndef close({parameters}):\n    return NumericDiff()(output, 4)\n"
        )
        read = parse_evaluator(script, "script")
        assert (read.dialect, read.entry, read.packages) == ("braintrust", "close", ("autoevals",))


BRAINTRUST = "import braintrust\n\n\ndef helper(output, expected): return 1\n\n\n{}\n\n\n{}\n"
EXACT = "def exact(output, expected, **kwargs): return float(output == expected)"
NEAR = "def near(k): return lambda output, expected: float(output[:k] == expected[:k])\n\n\nnear_1 = near(1)"


@pytest.mark.parametrize(
    ("defined", "handed", "entry"),
    [
        (EXACT, "braintrust.Eval('a', data=[], task=len, scores=[exact])", "exact"),
        (EXACT, "if __name__ == '__main__':\n    braintrust.Eval('a', data=[], task=len, scores=[exact])", "exact"),
        (EXACT, "SCORES = (exact,)\nbraintrust.Eval('a', [], len, SCORES)", "exact"),
        (EXACT, "p = braintrust.projects.create(name='p')\np.scorers.create(name='e', handler=exact)", "exact"),
        (NEAR, "braintrust.Eval('a', data=[], task=len, scores=[near_1])", "near_1"),
        ("import autoevals", "braintrust.Eval('a', data=[], task=len, scores=[autoevals.ExactMatch])", None),
    ],
)
def test_what_braintrust_is_handed_is_its_scorer(defined: str, handed: str, entry: str | None) -> None:
    text = BRAINTRUST.format(defined, handed)
    found = parse_evaluator(text, "a")
    assert (found.dialect, found.entry) == ("braintrust", entry or "autoevals.ExactMatch")
    assert found.packages == (() if entry else ("autoevals",))
    if entry:
        with patch.dict(sys.modules):
            call = wrap(text, entry)
            assert call(output="a", reference="a")["score"] == 1.0
            assert call(output="b", reference="a")["score"] == 0.0


def test_an_input_that_what_a_call_makes_does_not_show_to_use_is_not_asked_for() -> None:
    inner = "    def score(input, output, expected=None): return float(output == expected)\n    return score\n"
    made = f"def near(k):\n{inner}"
    found = parse_evaluator(BRAINTRUST.format(f"{made}\nnear_1 = near(1)", "braintrust.Eval('', scores=[near_1])"), "a")
    assert {one.name: one.required for one in found.parameters}["input"] is False


def test_scorers_that_are_made_in_the_list_have_to_be_named() -> None:
    text = BRAINTRUST.format(NEAR, "braintrust.Eval('a', data=[], task=len, scores=[near(2)])")
    with pytest.raises(EvaluatorError, match=r"its Eval has the scorer `near\(2\)`; give the one to run a name"):
        parse_evaluator(text, "a", "a.py")


def test_braintrust_gives_what_it_does_not_know_by_place_which_is_said() -> None:
    text = BRAINTRUST.format("def f(prediction, expected): return 1", "braintrust.Eval('a', [], len, scores=[f])")
    with pytest.raises(EvaluatorError, match=r"gives f\(prediction, expected\) its input as `prediction`"):
        parse_evaluator(text, "a")


def test_a_stand_in_hides_nothing_of_a_package_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "braintrust"
    package.mkdir()
    (package / "__init__.py").write_text("projects, Score, own = 'theirs', 'theirs', 'theirs'\ndef Eval(*a): 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "import braintrust\nbraintrust.Eval('a')\nfrom braintrust import own\n\n\n"
        "def handler(output): return float((braintrust.projects, braintrust.Score, own) == ('theirs',) * 3)\n"
    )
    with patch.dict(sys.modules):
        assert wrap(text, "handler")(output="a")["score"] == 1.0


SUM = " + ".join("1" * 1500)
LONG = {
    "langsmith": f"def same(outputs, reference_outputs):\n    n = {SUM}\n    return n == reference_outputs['a']\n",
    "trl": f"def reward(completions, **kwargs):\n    n = {SUM}\n    return [float(one == n) for one in kwargs['a']]\n",
    "braintrust": BRAINTRUST.format("SCORES = []", f"braintrust.Eval('', scores=[helper, {SUM}])"),
    "native": f"def evaluate(output, reference):\n    return {SUM}\n",
}


@pytest.mark.parametrize("dialect", LONG)
def test_a_script_of_a_long_sum_is_read_as_any_other(dialect: str) -> None:
    if dialect == "braintrust":
        with pytest.raises(EvaluatorError, match="its Eval has the scorers `helper`, `…`; say which"):
            parse_evaluator(LONG[dialect], "script")
        return
    found = parse_evaluator(LONG[dialect], "script")
    assert found.dialect == (None if dialect == "native" else dialect)


def test_keywords_with_a_result_of_langfuse_are_its_evaluator() -> None:
    source = (
        "from langfuse import Evaluation\n\n\ndef _hits(*, output, **_kwargs):\n"
        "    return Evaluation(name='hits', value=len(output['found']))\n\n\n"
        "def _mean(*, item_results, **_kwargs):\n    return Evaluation(name='mean', value=1)\n"
    )
    found = parse_evaluator(source, "script")
    assert (found.dialect, found.entry) == ("langfuse", "_hits")
