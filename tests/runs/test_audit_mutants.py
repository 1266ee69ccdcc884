"""Does an audit notice what worked examples do not?"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import templates
from runner import audit
from runner.runs.audit.mutants.python import python_edits
from runner.runs.audit.mutants.types import apply_edit
from runner.runs.audit.types import MutantScore
from runner.runs.audit.words import _mutants
from tests.cli.commands import evalcell, write_rows

PYTHON = '''# /// script
# [tool.evalcell.output]
# kind = "continuous"
# ///
def evaluate(output, reference):
    """Compare."""
    if not isinstance(output, str):
        raise TypeError("text")
    same = output.strip().lower() == reference.strip().lower()
    return {"score": 1.0 if same else 0.0, "explanation": f"{same}" + "!"}
'''
TYPESCRIPT = """
export function evaluate({ output, reference }: { output: string; reference: string }) {
  const same = output.trim().toLowerCase() === reference.trim().toLowerCase();
  return { score: same ? 1 : 0, explanation: "it is " + same };
}
"""
ROWS = [{"id": f"r{n}", "output": f"Word {n}", "reference": f"word {n}"} for n in range(6)]
FEW: list[dict[str, Any]] = [
    {"id": "equal", "output": "a", "reference": "a", "expected": {"score": 1}},
    {"id": "other", "output": "a", "reference": "b", "expected": {"score": 0}},
]
MORE: list[dict[str, Any]] = [
    {"id": "case", "output": "A", "reference": "a", "expected": {"score": 1}},
    {"id": "its-case", "output": "a", "reference": "A", "expected": {"score": 1}},
    {"id": "space", "output": " a ", "reference": "a", "expected": {"score": 1}},
    {"id": "its-space", "output": "a", "reference": " a", "expected": {"score": 1}},
    {"id": "number", "output": 1, "reference": "1", "expected": {"outcome": "failed", "kind": "raised"}},
]


def changes(source: str) -> list[str]:
    data = source.encode()
    return [f"{apply_edit(data, one).line}: {one.change}" for one in sorted(python_edits(source))]


def test_mutants_leave_alone_what_nobody_judges() -> None:
    assert changes(PYTHON) == [
        "7: not removed",
        "7: not isinstance(output, str) -> False",
        "7: not isinstance(output, str) -> True",
        "9: .strip() removed",
        "9: .lower() removed",
        "9: == -> !=",
        "9: .strip() removed",
        "9: .lower() removed",
        "10: the returned value -> None",
        "10: 1.0 -> 2",
        "10: same -> False",
        "10: same -> True",
        "10: 0.0 -> 1",
    ]


@pytest.mark.parametrize("name", ["exact-match", "rouge-l", "json-distance", "tool-calls"])
def test_a_mutant_is_python_with_the_same_lines(name: str) -> None:
    source = templates.source(name)
    edits = [*python_edits(source)]
    for edit in edits[:: max(1, len(edits) // 40)]:
        mutant = apply_edit(source.encode(), edit)
        ast.parse(mutant.source)
        assert mutant.source != source


def tried(folder: Path, source: str, examples: list[dict[str, Any]], name: str = "grader.py") -> MutantScore:
    path = folder / name
    path.write_text(source)
    write_rows(folder / "grader.cases.jsonl", examples)
    found = audit(path, ROWS).mutants
    assert found is not None
    return found


def test_a_gap_has_a_line_that_closes_it(tmp_path: Path) -> None:
    before = tried(tmp_path, PYTHON, FEW)
    assert {gap.change for gap in before.gaps} >= {".strip() removed", ".lower() removed"}
    assert (before.killed + len(before.gaps) + before.silent, before.broken) == (before.tried, 0)
    lower = next(gap for gap in before.gaps if gap.change == ".lower() removed")
    assert (lower.rows, lower.of, lower.result, lower.mutant) == (6, 6, "1", "0")
    lines = {json.dumps(gap.example): gap.example for gap in before.gaps}
    assert len(lines) <= len(before.gaps)
    after = tried(tmp_path, PYTHON, [*FEW, *lines.values()])
    assert after.gaps == ()
    assert after.share == 1


@pytest.mark.parametrize("names", [("output", "reference"), ("answer", "gold")])
def test_a_mapping_is_of_the_dataset_and_of_examples_that_have_its_columns(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    path, mapping = tmp_path / "grader.py", {"output": "answer", "reference": "gold"}
    path.write_text(PYTHON)
    write_rows(
        tmp_path / "grader.cases.jsonl", [{**one, names[0]: one["output"], names[1]: one["reference"]} for one in FEW]
    )
    data = [{"id": row["id"], "answer": row["output"], "gold": row["reference"]} for row in ROWS]
    found = audit(path, data, mapping=mapping).mutants
    assert found is not None
    assert found.why is None
    assert found.failing == ()
    assert found.killed


def test_good_examples_leave_no_gap_and_what_changes_nothing_is_in_no_figure(tmp_path: Path) -> None:
    found = tried(tmp_path, PYTHON.replace("reference.strip()", "reference.strip().strip()"), [*FEW, *MORE])
    assert found.gaps == ()
    assert found.silent >= 2  # one of two strips may go


@pytest.mark.rotating("mutants of TypeScript", "engine")
def test_mutants_of_typescript(tmp_path: Path) -> None:
    found = tried(tmp_path, TYPESCRIPT, FEW, "grader.ts")
    assert {gap.change for gap in found.gaps} == {".trim() removed", ".toLowerCase() removed"}
    assert found.killed >= 5


@pytest.mark.rotating("mutants of TypeScript", "engine")
@pytest.mark.parametrize("suffix", ["py", "ts"])
def test_modules_beside_a_script_have_mutants_too(tmp_path: Path, suffix: str) -> None:
    parts = {
        "py": {
            "utils/text.py": "def clean(text):\n    return text.strip().lower()\n",
            "grader.py": "from utils.text import clean\n\ndef evaluate(output, reference):\n"
            "    return float(clean(output) == clean(reference))\n",
        },
        "ts": {
            "utils/text.ts": "export const clean = (text: string) =>\n  text.trim().toLowerCase();\n",
            "grader.ts": 'import { clean } from "./utils/text.ts";\nexport function evaluate({ output, reference }: '
            "{ output: string; reference: string }) {\n"
            "  return clean(output) === clean(reference) ? 1 : 0;\n}\n",
        },
    }
    (tmp_path / "utils").mkdir()
    (tmp_path / "words.txt").write_text("1 == 1\n")
    for name, text in parts[suffix].items():
        (tmp_path / name).write_text(text)
    found = tried(tmp_path, parts[suffix][f"grader.{suffix}"], FEW, f"grader.{suffix}")
    assert found.killed
    assert {(gap.file, gap.line) for gap in found.gaps} == {(f"utils/text.{suffix}", 2)}
    words = [line.text for line in _mutants(found) if line.head == "gap"]
    assert all(text.startswith(f"utils/text.{suffix}:2: ") for text in words)


def test_examples_that_fail_already_notice_nothing(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"id": "wrong", "output": "a", "reference": "b", "expected": {"score": 1}}]
    found = tried(tmp_path, PYTHON, wrong)
    assert (found.tried, found.failing) == (0, ("wrong",))
    assert "no worked example of it passes" in str(found.why)
    assert tried(tmp_path, PYTHON, [*FEW, *wrong]).failing == ("wrong",)


def test_a_loop_without_end_is_killed_soon(tmp_path: Path) -> None:
    body = "def evaluate(output, reference):\n    n = 0\n    while n < 3:\n        n += 1\n    return float(n)\n"
    found = tried(tmp_path, body, [{"id": "three", "output": "a", "reference": "a", "expected": {"score": 3}}])
    assert (found.gaps, found.broken) == ((), 0)
    assert found.killed >= 5


def test_a_grader_of_chance_has_no_mutants(tmp_path: Path) -> None:
    body = "import random\ndef evaluate(output, reference):\n    return random.random() + 0 * len(output)\n"
    found = tried(tmp_path, body, [{"id": "a", "output": "a", "reference": "a", "expected": {"outcome": "scored"}}])
    assert "differ from run to run" in str(found.why)


def test_the_command_prints_lines_to_paste_and_judges_gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grader.py").write_text(PYTHON)
    write_rows(tmp_path / "rows.jsonl", [{**row, "ok": "yes"} for row in ROWS])
    write_rows(tmp_path / "grader.cases.jsonl", FEW)
    gate = ("--require", "killed>=0.9")
    done = evalcell("audit", "grader.py", "rows.jsonl", *gate, "--report", "r.md", "--report", "r.html")
    assert done.exit_code == 1, done.stderr
    (line, *_) = [line for line in done.stdout.splitlines() if line.startswith('{"id": "r')]
    write_rows(tmp_path / "grader.cases.jsonl", [*FEW, *MORE, json.loads(line)])
    assert "required 'killed>=0.9' is not met" in " ".join(done.stdout.split())
    for report in ("r.md", "r.html"):
        assert "worked examples" in (tmp_path / report).read_text()
    done = evalcell("audit", "grader.py", "rows.jsonl", *gate, "--report", "r.xml")
    assert done.exit_code == 0, done.stdout
    assert 'name="killed&gt;=0.9"' in (tmp_path / "r.xml").read_text()
    assert evalcell("audit", "grader.py", "rows.jsonl", "--labels", "ok", "--require", "tnr>=0.9").exit_code == 3
    assert evalcell("audit", "grader.py", "rows.jsonl", "--report", "r.codequality.json").exit_code == 2


def test_check_says_at_most_one_line_of_an_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "grader.py").write_text(PYTHON)
    assert "audit" not in evalcell("check", "grader.py", "rows.jsonl").stderr
    (tmp_path / "grader.py").write_text("def evaluate(output, reference):\n    return float(output != 'Word 1')\n")
    done = evalcell("check", "grader.py", "rows.jsonl")
    (line,) = [line for line in done.stderr.splitlines() if "audit" in line]
    assert "evalcell audit grader.py rows.jsonl shows them" in line
    assert done.exit_code == 0
