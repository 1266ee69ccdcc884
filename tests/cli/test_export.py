"""`evalcell export` and `evalcell lines`. `in_tools.py` has the files in the tools themselves."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner import SandboxConfig
from runner.core.errors import EvaluatorError, InputError
from runner.core.types import InputMapping, Result
from runner.runs.export import RowScorer
from runner.runs.export.scorer import MOST, score_lines
from sandboxes import SandboxUnavailableError
from sandboxes.errors import UnsupportedConfigError
from tests.cli.commands import evalcell
from tests.skips import need

ROOT = Path(__file__).parents[2]
SCRIPT = """
def evaluate(output, reference, bonus=0):
    if output == "raise":
        raise ValueError("no such answer")
    if output == "skip":
        return {"score": None, "explanation": "nothing to say"}
    if output == "word":
        return "good"
    if output == "yes":
        return True
    return {"score": float(output == reference) + bonus, "explanation": f"wanted {reference}"}
"""
COMMAND = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m runner "$@"\n'
ROWS = [{"output": one, "reference": "4"} for one in ("4", "5", "raise", "skip", "word", "yes")]
PROCESS = SandboxConfig(backend="process", jobs=1)


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "polite.py").write_text(SCRIPT)
    (here / "evalcell").write_text(COMMAND)
    (here / "evalcell").chmod(0o755)
    return here


def exported(tool: str, *options: str, script: str = "polite.py") -> str:
    result = evalcell("export", tool, script, *options)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_file_has_the_script_by_its_place_and_what_was_asked(folder: Path) -> None:
    (folder / "tests").mkdir()
    asked = ["--map", "reference=metadata.x", "--set", "bonus=[1]", "--timeout", "3", "--sandbox", "process", "-j", "2"]
    said = evalcell("export", "langsmith", "polite.py", *asked, "-o", "tests/polite_langsmith.py")
    assert (said.exit_code, said.stdout, said.stderr) == (0, "", "wrote tests/polite_langsmith.py\n")
    made = (folder / "tests" / "polite_langsmith.py").read_text()
    assert "Path(__file__).parent / '../polite.py'" in made
    assert "mapping=InputMapping(paths={'reference': 'metadata.x'}, literals={'bonus': [1]})" in made
    assert "limits=Limits(timeout=3.0)" in made
    assert "sandbox=SandboxConfig(backend='process', jobs=2)" in made
    assert "from polite_langsmith import polite\n" in made
    script = exported("promptfoo", *asked, "--threshold", "0.5")
    words = ["--sandbox", "process", "--map", "reference=metadata.x", "--set", "bonus=[1]", "--timeout", "3"]
    assert f"const OPTIONS = {json.dumps([*words, '--jobs', '2', '--threshold', '0.5'])};" in script


def test_templates_functions_of_a_script_and_dialects_are_named(folder: Path) -> None:
    (folder / "graders.py").write_text("def score(output, context):\n    return len(output) > 3\n")
    named = ["--dialect", "promptfoo"]
    made = exported("langsmith", *named, script="graders.py:score")
    assert "str(Path(__file__).parent / 'graders.py') + ':score'" in made
    assert "dialect='promptfoo'" in made
    assert '+ "graders.py:score";' in exported("promptfoo", *named, script="graders.py:score")
    made = exported("inspect", script="exact-match")
    assert "_score = inspect_scorer('exact-match')\n" in made
    assert "def exact_match():" in made
    made = exported("promptfoo", "--threshold", "2", script="levenshtein-distance")
    assert 'EVALUATOR = "levenshtein-distance";' in made
    assert "LOWER_IS_BETTER = true;" in made


def test_any_name_leaves_the_file_readable(folder: Path) -> None:
    (folder / "it's.py").write_text(SCRIPT)
    for script in ("polite.py", "it's.py:evaluate"):
        for tool in ("inspect", "langsmith", "pytest", "promptfoo"):
            name = f'{tool} \\N """ \n{len(script)}'
            threshold = ["--threshold", "1"] if tool in ("pytest", "promptfoo") else []
            said = evalcell("export", tool, script, *threshold, "-o", name)
            assert said.exit_code == 0, said.output
            made = (folder / name).read_text()
            assert "\\N" not in made
            if tool == "promptfoo":
                assert f"file://{tool} _N _ _{len(script)}\n" in made
            else:
                # The grammar of 3.11: no quotes of an f-string inside of it.
                ast.parse(made, feature_version=(3, 11))
                assert 'f"{Path' not in made


@pytest.mark.parametrize("place", ["namedScores[NAME]", "EVALUATOR, which", "OPTIONS = []", "= SCRIPT;", "= false"])
def test_a_name_with_a_place_of_the_file_stays_a_name(folder: Path, place: str) -> None:
    name = f"{place} LOWER_IS_BETTER = false namedScores[NAME]+process.exit(7)+.py"
    (folder / name).write_text(SCRIPT)
    made = exported("promptfoo", script=name)
    code = [line for line in made.split("\n") if not line.startswith("//")]
    assert f'const EVALUATOR = fileURLToPath(new URL(".", import.meta.url)) + {json.dumps(name)};' in code
    assert f"namedScores[{json.dumps(name.removesuffix('.py'))}] = result.score" in made
    template = Path("runner/runs/export/promptfoo.mjs")
    assert len(made.split("\n")) == len((ROOT / template).read_text("utf-8").split("\n"))
    beside = "\n".join(code).replace(json.dumps(name), "").replace(json.dumps(name.removesuffix(".py")), "")
    assert "process.exit" not in beside


@pytest.mark.parametrize("name", ["pytest", "row", "request", "scorer", "Path", "str", "RowScorer"])
def test_a_script_named_as_what_a_file_uses_gets_another_name_there(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text(SCRIPT)
    for tool in ("inspect", "langsmith", "pytest"):
        made = exported(tool, script=f"{name}.py")
        compile(made, "made.py", "exec", dont_inherit=True)
        assert f"score_{name}" in made


def test_an_env_file_is_found_from_any_folder(folder: Path) -> None:
    (folder / "keys.env").write_text("KEY=1\n")
    where = str(folder / "keys.env")
    options = ["--sandbox", "process", "--env-file", "keys.env"]
    assert f"env_file={where!r}" in exported("langsmith", *options)
    assert json.dumps(["--env-file", where])[1:-1] in exported("promptfoo", "--threshold", "1", *options)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("export", "promptfoo", "levenshtein-distance"), "has no threshold, and lower is better"),
        (("export", "pytest", "levenshtein-distance"), "give one: --threshold 3"),
        (("lines", "levenshtein-distance"), "has no threshold"),
        (("export", "pytest", "polite.py", "-o", "polite.py"), "polite.py exists already"),
        (("export", "inspect", "polite.py", "--threshold", "1"), "inspect takes scores alone"),
        (("export", "langsmith", "polite.py", "--threshold", "1"), "langsmith takes scores alone"),
        (("export", "pytest", "polite.py", "--lock", "x"), "it cannot be carried along"),
        (("export", "inspect", "absent.py"), "absent.py"),
        (("export", "inspect", "polite.py", "--set", "x=1"), "has no parameter `x`"),
        (("export", "inspect", "polite.py", "--sandbox", "wasm", "--allow-network"), "no network"),
        (("export", "inspect", "polite.py", "--inline", "1"), "save it as a script"),
        (("export", "openai", "polite.py"), "'openai' is not one of"),
    ],
)
def test_what_cannot_be_exported_is_refused(folder: Path, words: tuple[str, ...], why: str) -> None:
    result = evalcell(*words)
    assert result.exit_code == 2, result.output
    assert why in result.stderr, result.stderr


def loaded(text: str, folder: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "exported", "__file__": str(folder / "exported.py")}
    exec(compile(text, "exported.py", "exec"), names)
    return names


def test_langsmith_gets_feedback_and_the_error_of_a_row(folder: Path) -> None:
    options = ["--sandbox", "process", "-j", "1", "--map", "bonus=metadata.bonus"]
    evaluate = loaded(exported("langsmith", *options), folder)["polite"]
    assert evaluate.__name__ == "polite"

    def feedback(output: Any, expected: Any = "4") -> dict[str, Any]:
        run = SimpleNamespace(outputs=output, inputs={})
        example = SimpleNamespace(inputs={"q": 1}, outputs=expected, metadata={"bonus": 1})
        (found,) = evaluate(run, example)["results"]
        return dict(found)

    assert feedback({"output": "4"}) == {"key": "polite", "score": 2.0, "comment": "wanted 4"}
    assert feedback({"a": 1, "output": 2}, {"a": 1, "output": 2})["score"] == 2.0
    assert feedback({"output": "word"}) == {"key": "polite", "score": None, "comment": None, "value": "good"}
    assert feedback({"output": "skip"}) == {"key": "polite", "score": None, "comment": "nothing to say"}
    failed = feedback({"output": "raise"})
    assert (failed["score"], failed["extra"]) == (None, {"error": True})
    assert "ValueError: no such answer" in failed["comment"]


def test_a_row_that_failed_raises_and_a_word_is_no_number(folder: Path) -> None:
    with RowScorer("polite.py", sandbox=PROCESS) as scorer:
        good, bad, yes = (scorer.score(ROWS[place]) for place in (0, 1, 5))
        assert [scorer.passed(one) for one in (good, bad, yes)] == [True, False, True]
        with pytest.raises(EvaluatorError, match="the row failed: raised: ValueError: no such answer"):
            scorer.score(ROWS[2])
        with pytest.raises(EvaluatorError, match="the label 'good' has no score"):
            scorer.passed(scorer.score(ROWS[4]))
    with RowScorer("levenshtein-distance", threshold=1, sandbox=PROCESS) as scorer:
        found = [scorer.passed(scorer.score({"output": one, "reference": "abc"})) for one in ("abc", "ab", "a")]
        assert found == [True, True, False]


def test_lines_are_answered_each_whatever_they_are(folder: Path) -> None:
    said: list[dict[str, Any]] = []
    mapping = InputMapping(literals={"bonus": 1})
    lines = [json.dumps({**row, "id": n}) for n, row in enumerate(ROWS)]
    lines += ["no JSON", '{"output": 1, "expected": "4", "id": "x"}', "", "[]"]
    with RowScorer("polite.py", sandbox=PROCESS, mapping=mapping) as scorer:
        outcomes = score_lines(
            scorer, io.BytesIO("\n".join(lines).encode()), lambda line: said.append(json.loads(line))
        )
    found = {one["id"]: one for one in said}
    assert [found[str(n)]["outcome"] for n in range(6)] == [
        *("scored", "scored", "failed", "abstained", "failed", "scored")
    ]
    assert [found[str(n)].get("passed") for n in range(6)] == [True, True, None, None, None, True]
    assert "has no score" in found["4"]["error"]["message"]
    assert found["7"]["error"] == {"kind": "mapping", "message": "the line is no JSON object"}
    assert "reference" in found["x"]["error"]["message"]
    assert len(said) == 9
    assert len({tuple(sorted(one)) for one in said}) == 1
    assert outcomes == {"scored", "abstained", "failed"}


class Broken(RowScorer):
    """Raises what the row names."""

    def result(self, row: Mapping[str, Any], call: str | None = None) -> Result:
        raise {"config": UnsupportedConfigError, "input": InputError, "key": KeyError, "exit": SystemExit}[row["id"]](
            "said \x1b[31mwhy"
        )


def test_whatever_is_raised_for_a_row_is_told_in_its_line() -> None:
    said: list[dict[str, Any]] = []
    ids = ("config", "input", "key", "exit")
    rows = "".join(json.dumps({"id": id}) + "\n" for id in ids) + '{"id": "unknown"}\n'
    score_lines(Broken("exact-match"), io.BytesIO(rows.encode()), lambda line: said.append(json.loads(line)))
    found = {one["id"]: one for one in said}
    assert found.keys() == {*ids, "unknown"}
    assert {one["outcome"] for one in said} == {"lost"}
    assert found["config"]["error"] == found["input"]["error"]
    assert found["config"]["error"]["kind"] == "lost"
    assert found["config"]["error"]["message"].startswith("said ")
    assert "\x1b" not in found["config"]["error"]["message"]
    assert found["key"]["error"]["message"].startswith("KeyError: ")
    assert found["exit"]["error"]["message"].startswith("SystemExit: said")


def test_a_line_that_cannot_be_said_ends_it() -> None:
    def say(line: str) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        score_lines(Broken("exact-match"), io.BytesIO(b"[]\n" * 100), say)


@pytest.mark.parametrize(("outcomes", "code"), [({"lost", "failed"}, 3), ({"lost", "abstained"}, 0), (set(), 0)])
def test_lines_end_with_3_where_all_that_could_be_scored_was_lost(
    monkeypatch: pytest.MonkeyPatch, outcomes: set[str], code: int
) -> None:
    monkeypatch.setattr("runner.runs.export.scorer.score_lines", lambda *_: outcomes)
    assert evalcell("lines", "exact-match").exit_code == code


def test_lines_end_with_3_where_the_sandbox_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: object) -> None:
        raise SandboxUnavailableError("no sandbox today; install one")

    monkeypatch.setattr("runner.runs.api.warm.WarmRun", closed)
    result = evalcell("lines", "exact-match", input='{"output": "4", "reference": "4"}\n[]\n')
    assert result.exit_code == 3, result.output
    assert "no sandbox today" in result.stdout


def test_promptfoo_gets_all_digits_of_the_threshold(folder: Path) -> None:
    script = exported("promptfoo", "--sandbox", "process", "--threshold", "0.123456789")
    assert 'const OPTIONS = ["--sandbox", "process", "--threshold", "0.123456789"];' in script


def test_a_line_that_does_not_end_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1 of the rows has more than 64 MB"):
        score_lines(RowScorer("exact-match"), io.BytesIO(b"x" * (MOST + 1)), lambda _: None)


@pytest.mark.rotating("export", "doors", "cli")
def test_pytest_passes_fails_and_skips(folder: Path) -> None:
    file = folder / "test_polite.py"
    text = exported("pytest", "--threshold", "0.5", "--sandbox", "process")
    rows = ",\n".join(f"    {row!r}" for row in ROWS[:4])
    file.write_text(text.replace("]\n", f"{rows}\n]\n", 1))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", "test_polite.py"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert "2 failed, 1 passed, 1 skipped" in done.stdout, done.stdout
    assert "polite gave 0.0: wanted 4" in done.stdout
    assert "polite: the row failed: raised: ValueError: no such answer" in done.stdout
    assert "polite gave no score: nothing to say" in done.stdout


DRIVER = """
import assertion from "./polite.mjs";
const context = { vars: { expected: "4", q: 1 }, prompt: "2 + 2", config: { bonus: 1 } };
const tried = async (output) => {
  try { return await assertion(output, context); } catch (error) { return error.stack; }
};
console.log(JSON.stringify(await Promise.all(["4", "5", "raise", "skip", "word", "yes"].map(tried))));
"""


@pytest.mark.rotating("export", "doors", "cli")
def test_promptfoos_assertion_keeps_one_evalcell_and_lets_its_program_end(folder: Path) -> None:
    need("deno")
    from sandboxes.deno.binary import find_deno

    (folder / "polite.mjs").write_text(exported("promptfoo", "--threshold", "1.5", "--sandbox", "process"))
    (folder / "driver.mjs").write_text(DRIVER)
    env = {**os.environ, "EVALCELL": str(folder / "evalcell")}
    command = [find_deno(), "run", "-A", "--no-config", "driver.mjs"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=100)
    assert done.returncode == 0, done.stderr
    right, wrong, raised, skipped, word, yes = json.loads(done.stdout)
    assert right == {"pass": True, "score": 2, "reason": "wanted 4", "namedScores": {}}
    assert (wrong["pass"], wrong["score"]) == (False, 1)
    assert raised.startswith("Error: raised: ValueError: no such answer")
    assert skipped == "Error: no score: nothing to say"
    assert "the label 'good' has no score" in word
    assert (yes["pass"], yes["score"], yes["reason"]) == (False, 0, "True")
