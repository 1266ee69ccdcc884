"""Modules without which a script goes on: named where it gives every row the same, and asked for with the others."""

from __future__ import annotations

import pytest

from runner import evaluate
from runner.engine.scoring.label_notes import label_notes
from runner.inputs.evaluators.load import parse_evaluator

ROWS = [{"output": one, "reference": "a"} for one in "abc"]
FLAG = """try:
    from bert_score import score
    READY = True
except ImportError:
    READY = False
"""
USE = "def evaluate(output, reference):\n    if not READY:\n        return 0.0\n    return score(output)\n"
FUNCTION = """def evaluate(output, reference):
    try:
        import bert_score
    except ImportError:
        return {'score': 0.0}
    return bert_score.score(output)
"""
SCRIPTS = {
    "a flag": FLAG + USE,
    "nothing in its place": FLAG.replace("READY = True", "pass").replace("READY = False", "score = None")
    + USE.replace("not READY", "score is None"),
    "any error": FLAG.replace("ImportError", "Exception") + USE,
    "no handler's kind": FLAG.replace("except ImportError", "except") + USE,
    "a search": "import importlib.util\nREADY = importlib.util.find_spec('bert_score') is not None\n" + USE,
    "in the function": FUNCTION,
    "a dict": FLAG + USE.replace("return 0.0", "return {'score': 0.0, 'explanation': 'no package'}"),
    "a label": FLAG + USE.replace("return 0.0", "return 'none'"),
}


@pytest.mark.parametrize("how", SCRIPTS)
def test_a_module_that_is_not_there_is_named_where_all_scores_are_one(how: str) -> None:
    evaluator = parse_evaluator(SCRIPTS[how], "scorer")
    (note,) = label_notes(evaluate(evaluator, ROWS).summary, evaluator)
    line = next(at for at, one in enumerate(SCRIPTS[how].split("\n"), 1) if "return 'none'" in one or "0.0" in one)
    assert f"which line {line} of scorer gives where `bert_score` cannot be imported" in note
    assert note.endswith('or give SandboxConfig(packages=["bert-score"])')


def test_it_is_not_named_for_another_score_or_where_it_is_asked_for() -> None:
    header = '# /// script\n# dependencies = ["bert-score"]\n# ///\n'
    for text in (
        FLAG + USE.replace("if not READY:", "if READY:").replace("score(output)", "1"),
        FLAG + USE.replace("return 0.0", "pass").replace("score(output)", "output == 'a'"),
        FLAG.replace("READY = False", "from difflib import SequenceMatcher as score") + USE,
    ):
        evaluator = parse_evaluator(text, "scorer")
        source = parse_evaluator("def evaluate(output, reference): return 1.0\n", "same")
        summary = evaluate(source, ROWS).summary
        assert not [note for note in label_notes(summary, evaluator) if "bert_score" in note]
    summary = evaluate(parse_evaluator("def evaluate(output): return 0.0\n", "same"), ROWS).summary
    assert "bert_score" not in "".join(label_notes(summary, parse_evaluator(header + FLAG + USE, "scorer")))


def test_it_is_asked_for_with_what_lacks_beside_it() -> None:
    other = "try:\n    import ujson as json\nexcept ImportError:\n    import json\n"
    result = evaluate(parse_evaluator("import loguru\n" + other + FLAG + USE, "scorer"), ROWS[:1]).results[0]
    assert result.error is not None
    assert 'dependencies = ["loguru", "bert-score"]' in result.error.message
    assert "ujson" not in result.error.message
