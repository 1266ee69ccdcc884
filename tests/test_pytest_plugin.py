"""The plugin for pytest: worked examples as tests, the fixture, and what it costs where it is not used."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxes.cache import cache_dir

pytestmark = pytest.mark.rotating("doors of the runner", "doors")

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "pytest.md"
POLITE = """\
# /// script
# [tool.evalcell]
# output = {kind = "continuous", direction = "maximize"}
# ///
def evaluate(output):
    print("looked at", output)
    polite = "please" in output
    return {"score": float(polite), "label": "polite" if polite else "rude"}
"""
CASES: list[dict[str, Any]] = [
    {"id": "greeting", "output": "please", "expected": {"score": 1, "label": "polite"}},
    {"id": "order", "output": "do it", "expected": {"score": 1}},
    {"output": 3, "expected": {"score": 1}},
    {"id": "a::b/c\u001b[2J", "output": "please", "expected": {"label": "rude"}},
]


CACHE = str(cache_dir())
"""pytester has a HOME of its own, where the sandbox would be compiled once more for each test."""


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALCELL_CACHE_DIR", CACHE)


@pytest.fixture
def place(pytester: pytest.Pytester) -> Path:
    (pytester.path / "polite.py").write_text(POLITE)
    write(pytester.path / "polite.cases.jsonl", CASES)
    return pytester.path


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:schemathesis", "-v", *words)


def test_each_worked_example_is_a_test(pytester: pytest.Pytester, place: Path) -> None:
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "polite.cases.jsonl::greeting PASSED*",
            "polite.cases.jsonl::order FAILED*",
            "polite.cases.jsonl::3 FAILED*",
            "polite.cases.jsonl::a:b|c\\x1b[[]2J FAILED*",
            "polite.cases.jsonl:2: order",
            "  score: expected 1.0",
            "         got      0.0",
            "  printed: looked at do it",
            "polite.cases.jsonl:3: 3",
            '  outcome: expected "scored"',
            '           got      "failed"',
            "  failed: TypeError: argument of type 'int' is not *(line 7)",
            '  label: expected "rude"',
            '         got      "polite"',
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "\x1b[2J" not in result.stdout.str()


def test_only_the_selected_examples_run(pytester: pytest.Pytester, place: Path) -> None:
    (place / "polite.py").write_text("def evaluate(output):\n    while output == 'loop': pass\n    return 1\n")
    write(
        place / "polite.cases.jsonl",
        [
            {"id": "one", "output": "x", "expected": {"score": 1}},
            {"id": "two", "output": "loop", "expected": {"score": 1}},
        ],
    )
    (place / "conftest.py").write_text(
        "import runner.runs.api.run, runner.runs.pytest_plugin.examples as ours\n"
        "def told(script, some):\n"
        "    print('TRIED', [example.id for example in some])\n"
        "    return runner.runs.api.run.check_examples(script, some)\n"
        "ours.check_examples = told\n"
    )
    result = run(pytester, "-s", "-k", "one")
    result.assert_outcomes(passed=1, deselected=1)
    assert "TRIED ['one']" in result.stdout.str()
    by_name = run(pytester, "-s", "polite.cases.jsonl::one")
    assert by_name.ret == 0
    assert "TRIED ['one']" in by_name.stdout.str()


def test_an_example_is_tried_with_each_language_it_is_for(pytester: pytest.Pytester, place: Path) -> None:
    (place / "polite.ts").write_text(
        'function evaluate({ output }) {\n  return output.includes("please") ? 1 : 0;\n}\n'
    )
    rows = [
        {"id": "both", "output": "please", "expected": {"score": 1}},
        {"id": "own", "output": "x", "expected": {"label": "rude"}, "languages": ["python"]},
    ]
    write(place / "polite.cases.jsonl", rows)
    result = run(pytester)
    names = re.findall(r"::(\S+) (\w+)", result.stdout.str())
    assert names[:3] == [("both[py]", "PASSED"), ("own[py]", "PASSED"), ("both[ts]", "PASSED")]


def test_files_of_others_are_left_alone_unless_they_are_named(pytester: pytest.Pytester) -> None:
    write(pytester.path / "mine.cases.jsonl", [{"anything": 1}])
    (pytester.path / "other.py").write_text("x = 1\n")
    write(pytester.path / "other.cases.jsonl", [{"anything": 1}])
    assert run(pytester).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    named = run(pytester, "mine.cases.jsonl")
    named.stdout.fnmatch_lines(["mine.cases.jsonl: there is no evaluator mine.py or mine.ts beside it; *"])


def test_a_mistake_in_a_file_is_one_line(pytester: pytest.Pytester, place: Path) -> None:
    (place / "polite.cases.jsonl").write_text('{"output": "x"}\n')
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["polite.cases.jsonl:1: *expected*"])
    assert "Traceback" not in result.stdout.str()
    write(place / "polite.cases.jsonl", CASES[:1])
    (place / "polite.py").write_text("evaluate = 3 +\n")
    broken = run(pytester)
    broken.assert_outcomes(failed=1)
    broken.stdout.fnmatch_lines(["*polite.py:1:*"])


def test_the_fixture_shows_the_worst_rows_of_a_test_that_fails(pytester: pytest.Pytester, place: Path) -> None:
    pytester.makepyfile(
        test_quality="""
        ROWS = [{"output": "please"}, {"id": "bad\\x1b[2J", "output": "now"}, {"output": 3}]

        def test_low(evalcell):
            report = evalcell("polite.py", ROWS, gates=["mean<0.9"], max_failed="1")
            assert report.summary.mean > 0.9

        def test_fine(evalcell):
            assert evalcell("polite.py", ROWS).summary.failed == 1
        """
    )
    result = run(pytester, "test_quality.py")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "* where *mean=0.5*",
            "*Captured evalcell call*",
            "polite in wasm/*: 3 rows, 2 scored, 1 failed",
            "mean 0.5, median 0.5, min 0, max 1",
            "gate 'mean<0.9' failed: the value is 0.5",
            "The worst rows:",
            "  bad\\x1b[[]2J  scored  0  rude",
            "  1  scored  1  polite",
            "  3  failed: raised  TypeError: *",
        ]
    )
    assert result.stdout.str().count("Captured evalcell call") == 1
    assert "\x1b[2J" not in result.stdout.str()


def test_the_page(pytester: pytest.Pytester, place: Path) -> None:
    text = PAGE.read_text("utf-8")
    [code] = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    (place / "test_answers.py").write_text(code)
    write(place / "answers.jsonl", [{"output": "please"}, {"output": "now"}])
    write(place / "polite.cases.jsonl", [CASES[0], {"id": "order", "output": "please", "expected": {"score": 0}}])
    commands, *printed = re.findall(r"^```\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    results = [run(pytester, *command.split()[1:]) for command in commands.splitlines()]
    assert [result.ret for result in results] == [1, 0]
    shown = " ".join(results[0].stdout.str().split())
    for line in "".join(printed).splitlines():
        assert " ".join(line.removesuffix("E").split()).replace(
            "polite in wasm/python-3.14.0/wasmtime-50.0.1", "polite in wasm"
        ) in ("..." + re.sub(r"(polite in wasm)/\S+:", r"\1:", shown)), line


def test_a_gate_that_is_not_met_fails_with_its_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_answers="def test_answers(evalcell):\n    evalcell('same.py', 'data.jsonl').require('mean >= 0.5')\n"
    )
    (pytester.path / "same.py").write_text(
        "def evaluate(output, reference):\n    return float(output.strip() == reference.strip())\n"
    )
    write(pytester.path / "data.jsonl", [{"output": "4", "reference": "4"}, {"output": "5", "reference": "4"}])
    run(pytester).assert_outcomes(passed=1)
    write(pytester.path / "data.jsonl", [{"output": "4", "reference": "4"}, {"output": 5, "reference": "4"}])
    failed = run(pytester)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*RequirementError: *1 failed*", "*Captured evalcell call*"])
    assert "in require" not in failed.stdout.str()


def test_nothing_is_imported_where_it_is_not_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_any="def test_any():\n    pass\n")
    pytester.makeconftest(
        "import sys\n"
        "def pytest_unconfigure(config):\n"
        "    assert config.pluginmanager.hasplugin('evalcell')\n"
        "    tops = ('runner', 'sandboxes', 'templates', 'pydantic', 'rich', 'wasmtime')\n"
        "    print('HERE', sorted(m for m in sys.modules if m.split('.')[0] in tops))\n"
    )
    words = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-s"]
    done = pytester.run(sys.executable, "-m", "pytest", *words)
    assert "HERE ['runner', 'runner.runs', 'runner.runs.pytest_plugin']" in done.stdout.str()
