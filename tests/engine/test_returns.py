"""What a script returns that is no score: nothing, or a number as text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import runner
from runner.inputs.evaluators.load import parse_evaluator
from tests.cli.commands import evalcell
from tests.skips import need

LANGUAGES = {
    "py": (
        "def evaluate(output):\n    if output == 'a':\n        return 1.0\n",
        "def evaluate(output):\n    return '0.5' if output == 'a' else ' 1e-3 '\n",
    ),
    "ts": (
        "export function evaluate({ output }: { output: string }) {\n  return output === 'a' ? 1 : null;\n}\n",
        "export function evaluate({ output }: { output: string }) {\n  return output === 'a' ? '0.5' : ' 1e-3 ';\n}\n",
    ),
}


@pytest.fixture(params=["py", "ts"])
def suffix(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "ts":
        need("deno")
    (tmp_path / "rows.jsonl").write_text('{"output": "a"}\n{"output": "b"}\n')
    for name, text in zip(("silent", "text"), LANGUAGES[request.param], strict=True):
        (tmp_path / f"{name}.{request.param}").write_text(text)
    return str(request.param)


def test_nothing_is_no_result_in_both_languages(suffix: str, tmp_path: Path) -> None:
    report = runner.evaluate(tmp_path / f"silent.{suffix}", tmp_path / "rows.jsonl")
    scored, nothing = report.results
    assert (scored.score, nothing.outcome) == (1.0, "failed")
    assert nothing.error is not None
    assert nothing.error.kind == "invalid_result"
    assert "which says nothing" in nothing.error.message
    assert "to give no score: {" in nothing.error.message
    gated = ["run", str(tmp_path / f"silent.{suffix}"), str(tmp_path / "rows.jsonl"), "--require", "mean>=0.9"]
    assert evalcell(*gated).exit_code == 3


def test_a_number_as_text_is_told_with_the_fix(suffix: str, tmp_path: Path) -> None:
    script, rows = str(tmp_path / f"text.{suffix}"), str(tmp_path / "rows.jsonl")
    fix = {"py": "return float(…)", "ts": "return Number(…)"}[suffix]
    for command in ("run", "check"):
        told = " ".join(evalcell(command, script, rows).stderr.split())
        assert 'note: text gave 2 rows a number as text, such as "0.5" in row 1: that is a label, and no score' in told
        assert fix in told
    assert "number as text" not in evalcell("run", script, rows, "-q").stderr


def test_declared_labels_are_no_numbers(tmp_path: Path) -> None:
    output = 'output = {kind = "categorical", labels = {"1" = 1, "0" = 0}}'
    script = f"# /// script\n# [tool.evalcell]\n# {output}\n# ///\ndef evaluate(output): return output\n"
    (tmp_path / "s.py").write_text(script)
    (tmp_path / "rows.jsonl").write_text('{"output": "1"}\n{"output": "0"}\n')
    ran = evalcell("run", str(tmp_path / "s.py"), str(tmp_path / "rows.jsonl"), "--json")
    assert json.loads(ran.stdout)["mean"] == 0.5
    assert "number as text" not in ran.stderr


INSIDE = (
    {
        "py": "def score(output):\n    found = {'long': {'applies': True, 'pass': len(output) > 1}, 'a': {'pass': "
        "output == 'a'}}\n    return {'id': 'q1', 'run': 1, 'metrics': found, 'excerpt': output}\n",
        "ts": "export function score(output: string) {\n  const found = { long: { applies: true, pass: output.length > "
        "1 }, a: { pass: output === 'a' } };\n  return { id: 'q1', run: 1, metrics: found, excerpt: output };\n}\n",
    },
    {
        "py": "def evaluate(output):\n    result = score(output)\n    return {}\n",
        "ts": "export function evaluate({{ output }}: any) {{ const result: any = score(output); return {}; }}\n",
    },
)


def test_verdicts_inside_an_object_are_proposed_and_not_what_stands_beside_them(suffix: str, tmp_path: Path) -> None:
    script, rows = tmp_path / f"inside.{suffix}", tmp_path / "rows.jsonl"
    script.write_text(INSIDE[0][suffix])
    named = runner.evaluate(f"{script}:score", rows, max_failed="100%").results[0]
    assert named.error is not None
    told = named.error.message
    assert "id =" not in told
    assert "run =" not in told
    line = re.search(r"the verdicts stand inside, so return `([^`]+)`", told)
    header = re.findall(r"`((?:#|//) [^`]+)`", told)
    assert line is not None
    script.write_text("\n".join(header) + "\n" + INSIDE[0][suffix] + INSIDE[1][suffix].format(line[1]))
    summary = runner.evaluate(script, rows).summary
    assert summary.outputs is not None
    assert {name: one.mean for name, one in summary.outputs.items()} == {"long": 0.0, "a": 0.5}


@pytest.mark.parametrize("beside", ["'passed': True", "'overall': 0.5", "'verdict': 'good'", "'value': 1"])
def test_a_verdict_beside_such_an_object_is_not_dropped(beside: str) -> None:
    text = f"def evaluate(output):\n    return {{'parts': {{'a': {{'pass': True}}}}, {beside}}}\n"
    (result,) = runner.evaluate(parse_evaluator(text, "s"), [{"output": "a"}], max_failed="100%").results
    assert result.error is not None
    assert "stand inside" not in result.error.message
