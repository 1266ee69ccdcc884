"""What the README shows is run: its script, its commands, its Python."""

from __future__ import annotations

import asyncio
import json
import linecache
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runner.cli.main import cli

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
    return [text for named, text in found if named == language]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's script and a dataset for it."""
    monkeypatch.chdir(tmp_path)
    (script,) = [b for b in blocks("python") if b.startswith("def evaluate(output, reference)")]
    (tmp_path / "same.py").write_text(script)
    (words,) = blocks("ts")
    (tmp_path / "words.ts").write_text(words)
    rows = [{"output": "a", "reference": "a"}, {"output": "b", "reference": "a"}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    quickstart = (Path(__file__).parents[1] / "docs" / "quickstart.md").read_text("utf-8")
    (answers,) = re.findall(r'^```csv title="answers.csv"\n(.*?)^```$', quickstart, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "answers.csv").write_text(answers)
    return tmp_path


COMMANDS = {
    "evalcell run same.py answers.csv": 2,
    "evalcell run same.py answers.csv --map output=prediction --map reference=gold": 0,
    "evalcell check same.py data.jsonl": 0,
    "evalcell run same.py data.jsonl -o results.jsonl": 0,
    "evalcell run same.py data.jsonl --report report.html": 0,
    "evalcell run same.py data.jsonl --baseline results.jsonl": 0,
    "evalcell run same.py data.jsonl -o results.csv --keep output": 0,
    "evalcell run same.py data.jsonl --require 'mean>=0.9' --max-failed 5%": 1,
    "evalcell init": 0,
    "evalcell run -e same.py -e exact-match data.jsonl": 0,
    "evalcell run --config evals/evalcell.toml": 0,
    "evalcell new polite": 0,
    "evalcell test polite.py": 0,
    "evalcell templates": 0,
    "evalcell new mine --from json-similarity": 0,
    "evalcell run contains demo --set words=the,answer": 0,
    "evalcell parity json-distance demo --sandbox wasm --sandbox deno": 0,
    "evalcell check words.ts data.jsonl": 0,
    "evalcell run words.ts data.jsonl --set minimum=2": 0,
    "evalcell run json-distance demo": 0,
    "evalcell run json-distance demo -o all/ --limit 50": 0,
    "evalcell run json-distance demo -o all/ --resume": 0,
    "evalcell run json-distance demo --cache": 0,
    "evalcell run json-distance demo --repeat 3": 0,
    "evalcell parity json-distance demo --twice": 0,
    "evalcell run token-cosine demo": 0,
    "evalcell run same.py data.jsonl --with scikit-learn": 0,
    "evalcell run token-cosine demo -o run/": 0,
    "evalcell run token-cosine demo --lock run/requirements.lock": 0,
    "evalcell cache": 0,
}

REMOTE = {
    "evalcell sandboxes --try e2b --env-file keys.env",
    "evalcell run same.py data.jsonl --sandbox e2b -j 2 --env-file keys.env",
    "evalcell sandboxes --live --env-file keys.env",
    "evalcell reap --env-file keys.env",
}
"""Need a key: tests/remote/test_readme.py runs them against a local server."""

SERVES = {"evalcell serve"}
"""Goes on until it is stopped: tests/server/page starts it as a user does, and looks at the page in a browser."""

BEFORE = {
    "evalcell run same.py data.jsonl --baseline results.jsonl": "evalcell run same.py data.jsonl -o results.jsonl",
    "evalcell run --config evals/evalcell.toml": "evalcell init",
    "evalcell run token-cosine demo --lock run/requirements.lock": "evalcell run token-cosine demo -o run/",
    "evalcell test polite.py": "evalcell new polite",
}


def test_the_commands_are_the_ones_that_are_run() -> None:
    shown = {line.partition("  #")[0].strip() for block in blocks("") for line in block.splitlines()}
    assert {line for line in shown if line.startswith("evalcell")} == set(COMMANDS) | REMOTE | SERVES


@pytest.mark.rotating("commands of pages", "pages")
@pytest.mark.parametrize(("command", "code"), COMMANDS.items())
def test_a_command_ends_as_it_says(here: Path, command: str, code: int) -> None:
    if before := BEFORE.get(command):
        test_a_command_ends_as_it_says(here, before, 0)
    words = shlex.split(command.partition(">")[0] if " > " in command else command)
    result = CliRunner().invoke(cli, words[1:])
    assert result.exit_code == code, result.output


def test_the_commands_and_python_are_short() -> None:
    python = [b for b in blocks("python") if "import" in b]
    assert all(len(b.strip().splitlines()) <= 10 for b in python)


def test_the_synchronous_door(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, *others = [b for b in blocks("python") if "import evaluate" in b]
    for other in others:
        linecache.cache["README.md, a block"] = (0, None, other.splitlines(keepends=True), "README.md, a block")
        names: dict[str, Any] = {}
        exec(compile(other, "README.md, a block", "exec"), names)
        assert names["report"].summary.scored == names["report"].summary.rows
    exec(compile(script, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["0.5", "1 scored same 1.0", "2 scored different 0.0"]


def test_the_asynchronous_door(here: Path) -> None:
    (script,) = [b for b in blocks("python") if "stream" in b]
    names: dict[str, Any] = {}
    exec(compile(script, "README.md", "exec"), names)
    assert asyncio.run(names["worst"]("data.jsonl")) == 0.0


def test_the_script_with_a_header_runs(here: Path) -> None:
    (script,) = [b for b in blocks("python") if b.startswith("# ///")]
    (here / "headed.py").write_text(script)
    (here / "nested.jsonl").write_text('{"output": {"answer": {"text": 4}}}\n')
    result = CliRunner().invoke(cli, ["run", "headed.py", "nested.jsonl", "--json", "-q"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["mean"], summary["passed"], summary["threshold"]) == (0.5, 0, 0.8)
