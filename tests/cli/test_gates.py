"""Gates and exit codes on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import LENGTH, header, run, write_rows

UNJUDGED = "gate 'mean>1': could not be judged, 2 failed of 4 rows; fix them, or allow some with --max-failed 5%"

LABELS = UNJUDGED.replace("mean>1", "label:x>0").replace("rows;", "rows, which may have had the label;")


@pytest.mark.parametrize(
    ("gates", "code", "words"),
    [
        (["mean>5", "max 2"], 0, []),
        (["mean>1", "max 50%"], 1, ["gate 'mean>1' failed: the value is 2"]),
        (["mean>1"], 3, [UNJUDGED]),
        (["mean>5", "failed>1"], 1, ["gate 'failed>1' failed: the value is 2", UNJUDGED.replace("1", "5")]),
        (["max 1"], 1, ["gate 'max-failed 1' failed: 2 failed of 4 rows"]),
        (["label:x>2"], 0, []),
        (["label:x>0", "max 2"], 0, []),
        (["label:x>0"], 3, [LABELS]),
    ],
)
def test_gates_decide_the_exit_code(here: Path, gates: list[str], code: int, words: list[str]) -> None:
    arguments = [a for gate in gates for a in _option(gate)]
    result = run("length.py", "data.jsonl", "-q", *arguments)
    assert result.exit_code == code
    assert result.stderr.splitlines() == words


def test_what_is_required(here: Path) -> None:
    Path("some.py").write_text("def evaluate(n):\n    return n if n else {'score': None, 'label': 'none'}\n")
    write_rows(here / "n.jsonl", [{"n": n} for n in (0, 1, 0, 3)])
    arguments = ["some.py", "n.jsonl", "--map", "n=n"]
    result = run(*arguments, "--require", "mean>=2", "--require", "rows==4")
    assert result.exit_code == 0
    assert "required 'mean>=2' is met: the value is 2 (2 rows abstained and are in no score)\n" in result.stderr
    assert run(*arguments, "--require", "mean>=2", "-q").output == ""
    result = run(*arguments, "--require", "mean>=2.5", "--max-abstained", "25%", "-q")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "gate 'max-abstained 25%' failed: 2 abstained of 4 rows",
        "required 'mean>=2.5' is not met: the value is 2 (2 rows abstained and are in no score)",
    ]
    result = run("length.py", "data.jsonl", "--require", "mean>=0", "-q")
    assert (result.exit_code, result.stderr) == (
        3,
        "required 'mean>=0': could not be judged, 2 failed of 4 rows; fix them, or allow some with --max-failed 5%\n",
    )
    for wrong, words in (
        (["--require", "mean"], "--require mean is not METRIC OP NUMBER"),
        (["--max-abstained", "x"], "write for example --max-abstained 5%, or --max-abstained 10"),
    ):
        result = run(*arguments, *wrong)
        assert result.exit_code == 2
        assert words in result.stderr


def _option(gate: str) -> tuple[str, str]:
    most = gate.removeprefix("max ")
    return ("--fail-if", gate) if most == gate else ("--max-failed", most)


def test_gates_are_in_the_printed_summary_and_in_the_manifest(here: Path) -> None:
    result = run("length.py", "data.jsonl", "--json", "--fail-if", "mean>1", "--max-failed", "2", "-o", "run/")
    assert result.exit_code == 1
    gates = json.loads(result.stdout)["gates"]
    assert [(gate["gate"], gate["verdict"], gate["value"]) for gate in gates] == [
        ("max-failed 2", "passed", 2),
        ("mean>1", "failed", 2),
    ]
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["summary"]["gates"] == gates
    assert manifest["command"].endswith(" --fail-if 'mean>1' --max-failed 2")


def test_a_gate_without_anything_to_judge_is_3(here: Path) -> None:
    Path("word.py").write_text("def evaluate(output):\n    return 'good'\n")
    result = run("word.py", "data.jsonl", "-q", "--fail-if", "mean>1", "--max-failed", "1")
    assert result.exit_code == 3
    assert result.stderr == "gate 'mean>1': could not be judged, there is no value for mean\n"
    result = run("word.py", "data.jsonl", "-q", "--fail-if", "mean>1", "--fail-if", "rows>1")
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("cut.json", '[{"output": "x"}, {"output": "x"}, {"outp'), ("open.csv", 'output\nx\nx\n"x\nx\nx\n')],
)
def test_a_dataset_that_ends_too_soon_passes_no_gate(here: Path, name: str, text: str) -> None:
    Path(name).write_text(text)
    result = run("length.py", name, "--fail-if", "mean<0.9", "--max-failed", "50%")
    assert result.exit_code == 3
    assert result.stderr.splitlines()[1:] == [
        f"note: {name} could not be read to its end; it may have more rows",
        "gate 'max-failed 50%': could not be judged, the dataset could not be read to its end",
        "gate 'mean<0.9': could not be judged, the dataset could not be read to its end",
    ]


def test_nothing_scored_is_3_with_the_most_common_error(here: Path) -> None:
    Path("bad.py").write_text("def evaluate(output):\n    return 1 / 0\n")
    result = run("bad.py", "data.jsonl", "--fail-if", "failed>0")
    assert result.exit_code == 3
    message = "nothing was scored; raised in 3 rows, as in row a: ZeroDivisionError: division by zero (line 2)"
    assert message in result.stderr.splitlines()
    Path("shy.py").write_text("def evaluate(output):\n    return {'score': None, 'label': 'unsure'}\n")
    result = run("shy.py", "data.jsonl", "--limit", "2", "-q")
    assert (result.exit_code, result.stderr.strip()) == (
        3,
        "nothing was scored: the script abstained on all of 2 rows",
    )


def test_a_threshold_tells_passed_from_missed(here: Path) -> None:
    config = ("[tool.evalcell.output]", 'kind = "continuous"', 'direction = "minimize"', "threshold = 1")
    Path("bounded.py").write_text(header(LENGTH, *config))
    result = run("bounded.py", "data.jsonl", "--limit", "2")
    assert "1 of 2 (50.0%), threshold 1" in result.stdout
    assert result.stdout.index("missed") < result.stdout.index("passed")
    result = run("bounded.py", "data.jsonl", "-q", "--fail-if", "pass_rate<0.9", "--max-failed", "50%")
    assert result.exit_code == 1
