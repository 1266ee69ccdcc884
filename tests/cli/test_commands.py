"""The commands beside `run`, in this process: check, show, templates, sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

import templates
from tests.cli.commands import LENGTH, evalcell, header, run, write_rows


def test_check_says_what_it_would_do(here: Path) -> None:
    config = ("[tool.evalcell.output]", 'kind = "continuous"', "lower_bound = 0", "threshold = 3")
    Path("bounded.py").write_text(header(LENGTH, *config))
    result = evalcell("check", "bounded.py")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    for words in (
        "bounded, python, version",
        "signature evaluate(output, weight=…)",
        "description Counts characters.",
        "output <- $.output (by name)",
        "weight <- weight (by name, else its default)",
        "continuous, maximize, from 0, threshold 3",
        "packages none",
        "no packages declared -> wasm",
    ):
        assert words in text


def test_check_tries_the_first_three_rows(here: Path) -> None:
    result = evalcell("check", "length.py", "data.jsonl")
    assert result.exit_code == 0, result.stderr
    assert "failed: mapping" in result.stdout
    assert "\n a " in result.stdout
    assert "\n d " not in result.stdout
    write_rows(here / "bad.jsonl", [{"input": 1}] * 5 + [{"output": ""}])
    result = evalcell("check", "length.py", "bad.jsonl")
    assert result.exit_code == 3
    assert "none of the first 3 rows was scored; mapping in row 1: bad.jsonl:1: the row has no" in result.stderr
    assert result.stderr.endswith("or give the parameter a default\n"), "the next step is not cut off"
    result = evalcell("check", "length.py", "data.jsonl", "--map", "output=$.id", "--set", "weight=3")
    assert "weight <- " in result.stdout
    assert evalcell("check", "json-distance", "demo").exit_code == 0


def test_show_prints_the_source_and_nothing_else(here: Path) -> None:
    result = evalcell("show", "json_distance")
    assert result.stdout_bytes == templates.source("json-distance").encode()
    Path("mine.py").write_bytes(result.stdout_bytes)
    assert run("mine.py", "demo", "-q", "--limit", "5").exit_code == 0
    result = evalcell("show", "levenshtein-distance", "--lang", "ts")
    assert result.stdout == templates.source("levenshtein-distance", "typescript")
    assert "import" not in result.stdout


PARAMETERS = (
    "[tool.evalcell.parameters]",
    'pattern = {type = "string", description = "What to look for."}',
    'mode = {choices = ["all", "any"], default = "all"}',
)


def test_check_says_what_parameters_take(here: Path) -> None:
    Path("search.py").write_text(header("def evaluate(output, pattern, mode): 0\n", *PARAMETERS))
    result = evalcell("check", "search.py", "--set", "pattern=^a+$")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "signature evaluate(output, pattern, mode=…)" in text
    assert "pattern <- literal '^a+$': text; What to look for." in text
    assert 'mode <- mode (by name, else its default "all"): one of "all", "any", default "all"' in text
    result = evalcell("check", "search.py", "--set", "pattern=a", "--set", "mode=al")
    assert result.exit_code == 2
    said = 'evalcell: `mode` must be one of "all", "any", not'
    assert evalcell("check", "search.py", "--set", "pattern=a", "--set", 'mode="al"').stderr.startswith(said)
    plain = " ".join(evalcell("check", "search.py").stdout.split())
    assert "pattern <- pattern (by name): text; What to look for." in plain


@pytest.mark.usefixtures("theirs")
def test_what_a_sandbox_can_grant_is_listed_with_the_option_for_it() -> None:
    text = " ".join(evalcell("sandboxes").stdout.partition("theirs")[2].split())
    assert "packages installs what the script declares, and --with" in text
    assert "can grant files (--file), variables (--env), network (--allow-network)" in text


def test_templates_and_sandboxes_are_listed() -> None:
    result = evalcell("templates")
    assert result.exit_code == 0
    assert "json-distance" in result.stdout
    assert "python" in result.stdout
    assert "How many fields" in result.stdout
    result = evalcell("sandboxes")
    assert result.exit_code == 0
    for word in ("wasm", "state", "available", "python", "isolation", "call, batch", "enforced", "memory"):
        assert word in result.stdout
    assert "nothing: no files, no variables, no network" in result.stdout
    assert "fake" not in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
