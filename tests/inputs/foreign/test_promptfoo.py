"""promptfoo's assertions, as published, in evalcell's sandboxes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.core.errors import ColumnsError, EvaluatorError
from runner.inputs.evaluators.load import parse_evaluator
from tests.cli.commands import run

ROWS = [
    {"output": "4", "reference": "4", "question": "2 + 2"},
    {"output": "5", "expected": "4", "question": "2 + 2"},
    {"output": "boom", "expected": "4"},
]

SCRIPT = '''"""Compares with what is expected."""
import inspect


def get_assert(output, context):
    assert __name__ == "evaluator" and inspect.getsource(get_assert).startswith("def get_assert(output")
    wanted = context["vars"]["expected"]
    if output == "boom":
        raise ValueError("no")
    return {
        "pass": output == wanted,
        "score": float(output == wanted),
        "reason": f"expected {wanted}",
        "named_scores": {"length": len(output)},
    }
'''


def written(folder: Path, source: str, name: str = "assertion.py") -> Path:
    path = folder / name
    path.write_text(source)
    return path


def test_a_published_assertion_runs_as_it_is(tmp_path: Path) -> None:
    report = runner.evaluate(written(tmp_path, SCRIPT), ROWS)
    good, bad, raised = report.results
    assert (good.label, good.score, good.explanation) == ("pass", 1.0, "expected 4")
    assert {name: one.score for name, one in good.outputs.items()} == {"overall": 1.0, "length": 1.0}
    assert (bad.label, bad.score) == ("fail", 0.0)
    assert raised.outcome == "failed"
    assert raised.error is not None
    assert raised.error.message == "ValueError: no (line 9)"
    assert report.summary.outputs["length"].mean == 1.0
    assert report.summary.mean == 0.5


def test_a_named_score_does_not_replace_the_assertion_s_own(tmp_path: Path) -> None:
    named = '"pass": False, "score": 0.2, "reason": "r", "namedScores": {"overall": 1}'
    report = runner.evaluate(written(tmp_path, f"def get_assert(output, context):\n    return {{{named}}}\n"), ROWS[:1])
    found = {name: (one.label, one.score) for name, one in report.results[0].outputs.items()}
    assert found == {"overall": ("fail", 0.2), "namedScores.overall": (None, 1.0)}
    assert report.results[0].score == 0.2


def test_its_own_reading_of_an_exception_has_to_be_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, SCRIPT)
    as_zero = runner.read_evaluator(path, failures="as-zero")
    results = runner.evaluate(as_zero, ROWS[2:]).results
    assert (results[0].outcome, results[0].label, results[0].score) == ("scored", "fail", 0.0)
    assert as_zero.version != runner.read_evaluator(path).version


@pytest.mark.parametrize(
    ("returned", "label", "score"),
    [
        ("True", "pass", 1.0),
        ("0.3", "pass", 0.3),
        ("-1", "fail", -1.0),
        ("'TRUE'", "pass", 1.0),
        ("'false'", "fail", 0.0),
        ("'0.5 or so'", "pass", 0.5),
        ("""'{"pass": true, "score": 2, "reason": "r"}'""", "pass", 2.0),
        ("{'pass_': False, 'score': 1, 'reason': 'r'}", "fail", 1.0),
        ("None", None, None),
        ("[]", None, None),
        ("'good'", None, None),
        ("{'pass': 1, 'score': 1, 'reason': 'r'}", None, None),
        ("{'pass': True, 'score': 1}", None, None),
    ],
)
def test_each_shape_that_it_may_return(returned: str, label: str | None, score: float | None) -> None:
    from sandboxes.guest.foreign.promptfoo import result

    found = result(eval(returned))
    if label is None:
        assert list(found) == ["invalid"]
    else:
        assert (found["label"], found["score"]) == (label, score)


@pytest.mark.parametrize(
    ("source", "entry", "expected"),
    [
        ("def score(output, context): return len(output)", "score", 3.0),
        ("class A:\n    @staticmethod\n    def m(output, context): return 2", "A.m", 2.0),
        ("async def get_assert(output, context): return 5", None, 5.0),
        ("def get_assert(output, context): return context['config']['limit']", None, 7.0),
        ("def get_assert(output, context): return context['vars']['n']", None, 9.0),
    ],
)
def test_an_entry_and_what_a_context_has(tmp_path: Path, source: str, entry: str | None, expected: float) -> None:
    path = written(tmp_path, source)
    name = str(path) if entry is None else f"{path}:{entry}"
    paths = {"vars.n": "metadata.deep.n"} if "'n'" in source else {}
    literals: dict[str, Any] = {"limit": 7} if "config" in source else {}
    mapping = runner.InputMapping(paths=paths, literals=literals)
    report = runner.evaluate(name, [{"output": "abc", "deep": {"n": 9}}], mapping=mapping)
    assert report.results[0].score == expected, report.results[0].error


def test_a_native_script_stays_native(tmp_path: Path) -> None:
    native = "def get_assert(output, context): return 1\n\ndef evaluate(output): return 2"
    assert runner.read_evaluator(written(tmp_path, native)).dialect is None
    mapped = "def evaluate(context): return len(context)"
    report = runner.evaluate(
        written(tmp_path, mapped), [{"output": "abc"}], mapping=runner.InputMapping(paths={"context": "output"})
    )
    assert report.results[0].score == 3.0


def test_an_entry_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "def get_assert(output, context): return 1")
    with pytest.raises(EvaluatorError, match="has no function `other`"):
        runner.read_evaluator(f"{path}:other")
    with pytest.raises(EvaluatorError, match="no dialect 'promptfo'"):
        runner.read_evaluator(path, dialect="promptfo")


def test_of_several_functions_one_has_to_be_named(tmp_path: Path) -> None:
    two = "def {}(outputs, reference_outputs): return 1\n"
    path = written(tmp_path, two.format("correct") + two.format("concise"))
    for dialect in (None, "langsmith"):
        with pytest.raises(EvaluatorError, match=r"`correct`, `concise`, and each is a LangSmith .*: `.*\.py:correct`"):
            runner.read_evaluator(path, dialect=dialect)
    assert runner.read_evaluator(f"{path}:concise").entry == "concise"
    own = runner.read_evaluator(f"{written(tmp_path, 'def score(a, b, c): return 1')}:score")
    assert (own.dialect, own.entry, [one.name for one in own.parameters]) == (None, "score", ["a", "b", "c"])


def test_a_script_that_changes_the_part_beside_it_fakes_no_other_row(tmp_path: Path) -> None:
    script = (
        "import sys\n\n\ndef get_assert(output, context):\n"
        "    if output == 'evil':\n        part = sys.modules['evalcell_part']\n"
        "        part.result = part.finished = lambda *_: {'outputs': {'x': {'score': 99}}}\n    return 0.5\n"
    )
    rows = [{"output": "good"}, {"output": "evil"}, {"output": "good"}]
    scores = [one.score for one in runner.evaluate(written(tmp_path, script), rows).results]
    assert (scores[0], scores[2]) == (0.5, 0.5)


def test_a_script_of_our_own_imports_nothing_of_dialects(tmp_path: Path) -> None:
    code = (
        "import sys, runner.cli.commands.score.run, runner.inputs.evaluators.load as load\n"
        "load.read_evaluator(sys.argv[1])\n"
        "rooms = ('runner.inputs.evaluators.foreign', 'sandboxes.cluster.sandbox')\n"
        "print([name for name in sys.modules if name.startswith(rooms)])\n"
    )
    path = written(tmp_path, "def evaluate(output, reference=None): return 1.0\n")
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_outputs_that_only_the_script_names_are_told_where_a_file_or_a_gate_needs_their_names(tmp_path: Path) -> None:
    named = '{"pass": True, "score": 1, "reason": "r", "namedScores": {"length": 3}}'
    path = written(tmp_path, f"def get_assert(output, context):\n    return {named}\n")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"output": "a"}\n', "utf-8")
    found = run(str(path), str(rows), "-o", str(tmp_path / "out.csv"))
    assert '# "length" = {kind = "freeform"}' in found.output
    gate = run(str(path), str(rows), "--fail-if", "length.mean<1")
    assert gate.exit_code == 2
    assert "[tool.evalcell.outputs.length]" in gate.output
    summary = runner.evaluate(path, [{"output": "a"}]).summary
    directions = {name: one.direction for name, one in summary.outputs.items()}
    assert (summary.direction, directions) == ("maximize", {"overall": "maximize", "length": "none"})


PROVIDER: dict[str, tuple[Any, str]] = {
    "a key": ("python", "def get_assert(output, context):\n    return 'b' in context['provider']\n"),
    "a function that gets the context": (
        "python",
        "def of(context):\n    return context['provider']\n\n\n"
        "def get_assert(output, context):\n    return 'b' in of(context)\n",
    ),
    "a property": ("typescript", "module.exports = (output, context) => context.provider.includes('b');\n"),
    "a pattern": ("typescript", "module.exports = (output, { vars, provider }) => provider.includes('b');\n"),
}


@pytest.mark.parametrize("script", PROVIDER)
def test_the_provider_is_the_column_of_its_name(script: str) -> None:
    language, source = PROVIDER[script]
    evaluator = parse_evaluator(source, "script", language=language)
    rows = [{"output": "o", "provider": "a"}, {"output": "o", "provider": "b"}]
    assert [one.score for one in runner.evaluate(evaluator, rows).results] == [0.0, 1.0]
    renamed = [{"output": "o", "model": "b"}]
    with pytest.raises(ColumnsError, match="no column for `provider`"):
        runner.evaluate(evaluator, renamed)
    (result,) = runner.evaluate(evaluator, renamed, mapping={"provider": "model"}).results
    assert result.score == 1.0


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", "def get_assert(output, context=None):\n    return (context or {}).get('provider') is None\n"),
        ("typescript", "module.exports = (output, context) => !context.provider?.includes('b');\n"),
    ],
)
def test_a_provider_that_a_script_can_do_without_needs_no_column(language: Any, source: str) -> None:
    evaluator = parse_evaluator(source, "script", language=language)
    assert [one.score for one in runner.evaluate(evaluator, [{"output": "o"}]).results] == [1.0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (
            "assertion.cjs",
            "const own = (output) => output === 'a';\nmodule.exports = (output, context) => own(output, context);",
        ),
        (
            "assertion.js",
            "const own = (output) => output === 'a';\nexport default (output, context) => own(output, context);",
        ),
        (
            "assertion.py",
            "def own(output, more): return output == 'a'\ndef check(output, context): return own(output, str(context))",
        ),
    ],
)
def test_an_assertion_that_reads_no_vars_is_one_where_the_dialect_is_named(
    tmp_path: Path, name: str, source: str
) -> None:
    path = str(written(tmp_path, source, name))
    path += ":check" if name.endswith(".py") else ""
    report = runner.evaluate(path, [{"output": "a"}, {"output": "b"}], dialect="promptfoo")
    assert [one.label for one in report.results] == ["pass", "fail"]
