"""`evalcell compare`: the verdict on the terminal and as JSON, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner import NotComparableError, compare_datasets
from tests.cli.commands import evalcell, header, write_rows

SCRIPT = header(
    "def evaluate(output, reference):\n    return 1.0 if output == reference else len(output) / 10\n",
    "[tool.evalcell]",
    'output = {kind = "continuous", direction = "maximize", lower_bound = 0, upper_bound = 1}',
)


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base, and a new dataset whose outputs are worse in every third row."""
    monkeypatch.chdir(tmp_path)
    Path("same.py").write_text(SCRIPT)
    rows = [{"id": f"q{n}", "topic": "ab"[n % 2], "output": "yes", "reference": "yes"} for n in range(60)]
    write_rows(Path("base.jsonl"), rows)
    worse = [row | ({"output": "\x1b[31mno"[: 7 - n % 4]} if n % 3 == 0 else {}) for n, row in enumerate(rows)]
    write_rows(Path("new.jsonl"), worse)


def score(name: str) -> None:
    found = evalcell(
        "run", "-j1", "-q", "same.py", f"{name}.jsonl", "-o", f"{name}/", "--keep", "output", "--keep", "topic"
    )
    assert found.exit_code == 0, found.stderr


@pytest.mark.rotating("long tests", "compare")
@pytest.mark.usefixtures("datasets")
def test_two_runs_or_two_datasets_give_the_same_verdict() -> None:
    score("base")
    score("new")
    runs = evalcell("compare", "base/", "new/", "--json", "--by", "topic")
    both = evalcell("compare", "same.py", "base.jsonl", "new.jsonl", "-j1", "--json", "-q", "--by", "topic")
    assert (runs.exit_code, both.exit_code) == (0, 0), both.stderr
    one, other = json.loads(runs.stdout), json.loads(both.stdout)
    keys = "pairs base_mean new_mean mean_difference ci_low ci_high verdict wins losses ties smallest_detectable by"
    assert {key: one[key] for key in keys.split()} == {key: other[key] for key in keys.split()}
    assert (one["verdict"], one["losses"], one["ties"], one["pairs"]) == ("worse", 20, 40, 60)
    assert (other["base"]["name"], other["worst"][0]["column"]) == ("base.jsonl", "output")

    found = compare_datasets("same.py", "base.jsonl", Path("new.jsonl"), by="topic")
    assert found.model_dump(mode="json") == {key: value for key, value in other.items() if key != "gate"}
    turned = compare_datasets("same.py", "base.jsonl", "new.jsonl", direction="minimize")
    assert (turned.direction, turned.wins, turned.losses) == ("minimize", 20, 0)

    shown = evalcell("compare", "base/", "new/", "--by", "topic").stdout
    assert "verdict" in shown
    assert shown.rstrip().endswith("worse")
    assert "The rows that got worse most" in shown
    assert "\x1b" not in shown
    assert "topic" in shown


@pytest.mark.usefixtures("datasets")
def test_what_does_not_pair_is_told_with_the_names_of_the_datasets() -> None:
    write_rows(Path("other.jsonl"), [{"id": f"z{n}", "output": "yes", "reference": "yes"} for n in range(3)])
    found = evalcell("compare", "same.py", "base.jsonl", "other.jsonl", "-j1", "-q")
    assert (found.exit_code, found.stderr.split(":")[1]) == (3, " no row of base.jsonl is in other.jsonl")
    with pytest.raises(NotComparableError, match=r"^no row of base\.jsonl is in other\.jsonl"):
        compare_datasets("same.py", "base.jsonl", "other.jsonl", direction="minimize")


@pytest.mark.usefixtures("datasets")
def test_the_exit_code_says_the_verdict() -> None:
    score("base")
    score("new")

    def code(*arguments: str) -> int:
        return evalcell("compare", *arguments).exit_code

    assert code("base/", "new/", "--fail-if-worse") == 1
    assert code("--fail-if-worse", "base/", "new/") == 1, "what stands behind it is no number"
    assert code("base/", "new/", "--fail-if-worse", "0.9") == 0
    assert code("new/", "base/", "--fail-if-worse=0.02") == 0
    assert code("base/", "new/", "--fail-if-worse", "0.15") == 3
    assert code("base/", "new/", "--fail-if-worse", "0.15", "--allow-inconclusive") == 0
    assert code("base/", "gone/", "--fail-if-worse") == 3
    assert code("base/", "new/", "--allow-inconclusive") == 2
    assert code("base/") == 2
    assert code("base/", "new/", "--limit", "9") == 2, "nothing is scored"
    assert code("base/", "new/", "-j1") == 2
    assert code("same.py", "base.jsonl", "new.jsonl", "--evaluator", "same.py") == 2
    assert code("base/", "new/", "--tolerance", "0.1", "--fail-if-worse", "0.2") == 2

    Path("new/results.jsonl").write_text("")
    found = evalcell("compare", "base/", "new/", "--fail-if-worse")
    assert (found.exit_code, found.stderr) == (3, "evalcell: new/ has no rows; run it again, and compare then\n")


@pytest.mark.usefixtures("datasets")
def test_without_a_direction_a_gate_is_refused() -> None:
    Path("same.py").write_text("def evaluate(output):\n    return len(output)\n")
    score("base")
    score("new")
    found = evalcell("compare", "base/", "new/", "--fail-if-worse")
    assert found.exit_code == 2
    assert 'output = {kind = "continuous", direction = "maximize"}' in found.stderr
    assert "add --direction maximize or --direction minimize, or say it in the script's header" in found.stderr
    shown = " ".join(evalcell("compare", "base/", "new/").stdout.split())
    assert "which scores are better is not known; add --direction maximize or minimize" in shown
    assert "higher" in shown
    assert "better," not in shown
    shown = " ".join(evalcell("run", "-j1", "same.py", "new.jsonl", "--baseline", "base/").stdout.split())
    assert "say it in the script's header: output = {" in shown
    assert "--direction" not in shown, "run has no such option"
    assert evalcell("compare", "base/", "new/", "--fail-if-worse", "--direction", "minimize").exit_code == 1


@pytest.mark.usefixtures("datasets")
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_results_files_alone_are_judged_by_the_scripts_header(suffix: str) -> None:
    files = [f"{name}.results.{suffix}" for name in ("base", "new")]
    for name, file in zip(("base", "new"), files, strict=True):
        kept = ("--keep", "topic", "--sandbox", "process")
        assert evalcell("run", "-j1", "-q", "same.py", f"{name}.jsonl", "-o", file, *kept).exit_code == 0
    shown = evalcell("compare", *files).stdout
    assert shown.rstrip().endswith("worse")
    assert "so many rows" not in shown, "a difference was seen"
    assert "run both with --keep all." in shown
    assert evalcell("compare", *files, "--fail-if-worse").exit_code == 1
    found = evalcell("compare", *files, "--by", "topc")
    assert found.exit_code == 2
    assert "(did you mean `topic`?); the results carry `topic`; name one of them, or run both with --keep COLUMN" in (
        found.stderr
    )
    for name, file in zip(("base", "new"), files, strict=True):  # as the hint says
        again = ("--keep", "all", "--sandbox", "process", "--overwrite")
        assert evalcell("run", "-j1", "-q", "same.py", f"{name}.jsonl", "-o", file, *again).exit_code == 0
    shown = evalcell("compare", *files).stdout
    assert "output, base" in shown
    assert "run both with" not in shown


def against(*arguments: str) -> tuple[int, str]:
    found = evalcell("run", "-j1", "-q", "same.py", "new.jsonl", *arguments)
    return found.exit_code, found.stderr


@pytest.mark.usefixtures("datasets")
def test_a_run_is_compared_with_its_baseline() -> None:
    score("base")
    gate = ("--baseline", "base/", "--fail-if-worse")
    code, said = against(*gate)
    assert code == 1
    assert said.startswith("gate 'fail-if-worse' failed: worse: the mean differs by -0.")
    assert against(*gate, "0.9")[0] == 0
    assert against(*gate, "0.15")[0] == 3
    assert against(*gate, "0.15", "--allow-inconclusive")[0] == 0
    assert against("--baseline", "base/")[0] == 0, "without a gate it is only shown"

    found = json.loads(evalcell("run", "-j1", "same.py", "base.jsonl", "--json", *gate).stdout)
    assert (found["comparison"]["verdict"], found["comparison"]["pairs"]) == ("no worse", 60)
    shown = evalcell("run", "-j1", "same.py", "new.jsonl", *gate[:2], "-o", "run/").stdout
    assert "Compared with the baseline" in shown
    assert "--baseline base/" in json.loads(Path("run/manifest.json").read_text())["command"]


@pytest.mark.rotating("long tests", "compare")
@pytest.mark.usefixtures("datasets")
def test_a_baseline_that_is_none_never_passes() -> None:
    score("base")
    gate = ("--baseline", "base.results.jsonl", "--fail-if-worse")
    assert against(*gate)[0] == 3
    Path("base.results.jsonl").write_text("")
    assert against(*gate) == (3, "evalcell: base.results.jsonl has no rows; run it again, and compare then\n")
    Path("base.results.jsonl").write_text('{"id": "other", "score": 1}\n')
    code, said = against(*gate)
    assert (code, "their ids have nothing in common" in said) == (3, True)
    assert against("--baseline", "base/", "--fail-if-worse", "--limit", "30")[0] == 1
    some = against("--baseline", "base/", "--fail-if-worse", "1", "--limit", "9")
    assert (some[0], "51 rows of the base are not in the new run" in some[1]) == (3, True)
    assert against("--fail-if-worse")[0] == 2
    assert against(*gate[:2], "-o", "base.results.jsonl")[0] == 2, "the baseline would be overwritten"
    Path("same.py").write_text("def evaluate(output):\n    return len(output)\n")
    code, said = against("--baseline", "base/", "--fail-if-worse")
    assert (code, 'output = {kind = "continuous", direction = "maximize"}' in said) == (2, True)
    Path("base/results.jsonl").write_text(Path("base/results.jsonl").read_text().replace('"same"', '"other"'))
    Path("same.py").write_text(SCRIPT)
    code, said = against("--baseline", "base/", "--fail-if-worse", "1")
    assert (code, "of another evaluator (other, not same)" in said) == (3, True)
