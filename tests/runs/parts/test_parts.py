"""A dataset in parts gives the rows and the summary of one run over all of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate, evaluate_all
from runner.core.errors import DatasetError, InputError
from runner.engine.request import RunRequest, prepare
from runner.inputs.datasets.location import find_files
from runner.runs.parts.folder import PartsFolder
from runner.runs.parts.types import WorkerGreeting
from sandboxes import SandboxConfig
from tests.cli.commands import evalcell
from tests.runs.parts.conftest import results, rows, summary, write

OPTIONS = ("--seed", "3", "--worst", "9", "--keep", "reference")


def score(dataset: str, folder: str, *more: str) -> Any:
    return evalcell("run", "noisy.py", dataset, "-j", "1", *OPTIONS, *more, "-o", f"{folder}/")


def same(joined: str, pattern: str, *more: str) -> list[dict[str, Any]]:
    """The rows of a run in parts, which must be those of one run over all."""
    one, parts = score(joined, "one", *more), score(pattern, "parts", *more)
    assert one.exit_code == parts.exit_code, (parts.output, parts.exception)
    found = results("parts")
    assert found == results("one")
    assert summary("parts") == summary("one")
    shown = [
        re.sub(r"(rows-\w|all)\.jsonl:(.*?) *\n", r"\2", run.stdout.partition("evaluator ")[0]) for run in (one, parts)
    ]
    assert shown[0] == shown[1]
    return found


def test_files_of_json_lines_are_one_dataset(here: Path) -> None:
    first, second = [*rows(0, 40), "", '{"id": "a", "output": ', {"output": "no id"}], rows(30, 40, more=[1])
    write("rows-a.jsonl", first)
    write("rows-b.jsonl", second)
    write("all.jsonl", [*first, *second])
    found = same("all.jsonl", "rows-*.jsonl")
    assert len(list(Path("parts/parts").glob("0*"))) > 4  # a file is several parts
    assert sum("#" in row["id"] for row in found) == 10  # and ids that an earlier part has are told apart
    texts = [path.read_text() for path in Path("parts/parts").glob("*/results.jsonl")]
    assert any("rows-a.jsonl:42: not JSON" in text for text in texts)  # the place in its own file
    same("all.jsonl", "rows-*.jsonl", "--limit", "44", "--repeat", "2")


@pytest.mark.rotating("ids of parts", "parts")
@pytest.mark.parametrize("id", ["r1#3", "7"])
def test_ids_that_look_as_if_they_had_been_renamed(here: Path, id: str) -> None:
    named = ["r1", id, None, "r1", id, id, None]
    made: list[Any] = [{"output": f"w{n}", "reference": "", "id": name} for n, name in enumerate(named)]
    first, second = made[:3], made[3:]
    write("rows-a.jsonl", first)
    write("rows-b.jsonl", [*second, *first])
    write("all.jsonl", [*first, *second, *first])
    same("all.jsonl", "rows-*.jsonl")


@pytest.mark.rotating("kinds of parts", "parts")
def test_row_groups_and_other_files(here: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first, second = rows(0, 50), rows(45, 25)
    pq.write_table(pa.Table.from_pylist(first), "rows-a.parquet", row_group_size=8)
    Path("rows-b.csv").write_text("id,output,reference\n" + "".join(f'{r["id"]},"{r["output"]}",\n' for r in second))
    write("all.jsonl", [*first, *({**row, "reference": ""} for row in second)])
    same("all.jsonl", "rows-*")
    assert len(list(Path("parts/parts").glob("0*"))) > 3


@pytest.mark.rotating("kinds of parts", "parts")
def test_gates_and_a_baseline_judge_all_parts(here: Path) -> None:
    write("rows-a.jsonl", rows(0, 40))
    write("rows-b.jsonl", rows(40, 40))
    write("all.jsonl", rows(0, 80))
    gates = ("--require", "mean>=3", "--fail-if", "failed>5", "--max-failed", "50%", "--baseline", "before")
    assert score("all.jsonl", "before").exit_code == 0
    same("all.jsonl", "rows-*.jsonl", *gates, "--fail-if-worse", "0.01")
    compared = evalcell("compare", "one", "parts", "--json")
    assert (
        json.loads(compared.stdout)["pairs"] == json.loads(evalcell("compare", "one", "one", "--json").stdout)["pairs"]
    )
    for folder in ("one", "parts"):
        assert evalcell("report", folder, "-o", f"{folder}.md").exit_code == 0
    texts = [Path(f"{folder}.md").read_text() for folder in ("one", "parts")]
    assert len(texts[0]) > 500
    assert texts[0].count("boom") == texts[1].count("boom") > 0


def test_from_python_it_is_the_same_run(here: Path) -> None:
    write("rows-a.jsonl", rows(0, 20))
    write("rows-b.jsonl", rows(20, 20))
    write("all.jsonl", rows(0, 40))
    whole = evaluate("noisy.py", "all.jsonl", seed=3, sandbox=SandboxConfig(jobs=1))
    parts = evaluate("noisy.py", "rows-*.jsonl", seed=3, sandbox=SandboxConfig(jobs=1), output="out/", report="out.md")
    timeless = {"seconds": 0, "rows_per_second": 0}
    assert parts.summary.model_copy(update=timeless) == whole.summary.model_copy(update=timeless)
    assert parts.shown == whole.shown
    assert parts.results == []
    assert "boom" in Path("out.md").read_text()
    with pytest.raises(InputError, match="several files"):
        evaluate("noisy.py", "rows-*.jsonl")
    with pytest.raises(DatasetError, match="one evaluator scores them"):
        evaluate_all({"a": "noisy.py"}, "rows-*.jsonl")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rows-*.jsonl",), "add the output run/"),
        (("rows-*.jsonl", "-o", "x.csv"), "add the output run/"),
        (("none-*.jsonl",), "no file matches none-*.jsonl"),
        (("none-*.jsonl", "-o", "x/"), "no file matches none-*.jsonl"),
        (("rows-*.jsonl", "-o", "x/", "--save"), "leave save out"),
        (("rows-*.jsonl", "-o", "x/", "--map", "output=nothing"), "no column `nothing`"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_written(here: Path, words: tuple[str, ...], said: str) -> None:
    write("rows-a.jsonl", rows(0, 4))
    found = evalcell("run", "noisy.py", *words)
    assert found.exit_code == 2
    assert said in found.stderr
    assert not Path("x/parts").exists()


def test_what_no_run_wrote_is_never_removed(here: Path) -> None:
    write("rows-a.jsonl", rows(0, 3))
    Path("out/parts/00001").mkdir(parents=True)
    mine = Path("out/parts/thesis.txt")
    mine.write_text("mine")
    refused = score("rows-*.jsonl", "out")
    assert refused.exit_code == 2
    assert "no run wrote the folder parts" in refused.stderr
    assert mine.read_text() == "mine"
    write("rows-b.jsonl", rows(3, 3))
    assert score("rows-*.jsonl", "own").exit_code == 0
    mine = mine.rename("own/parts/thesis.txt")
    assert score("rows-a*.jsonl", "own", "--overwrite").exit_code == 0
    assert sorted(path.name for path in Path("own/parts").iterdir()) == ["00001", "plan.json", "thesis.txt"]


def test_a_run_that_goes_on_names_the_files_that_changed(here: Path) -> None:
    for name in "abc":
        write(f"rows-{name}.jsonl", rows(0, 3))
    begun = score("rows-*.jsonl", "own")
    assert "9 rows in 3 parts" in begun.stderr
    assert "3 rows in 1 part\n" in score("rows-a*.jsonl", "other").stderr
    write("rows-b.jsonl", rows(0, 4))
    Path("rows-c.jsonl").rename("rows-d.jsonl")
    refused = score("rows-*.jsonl", "own", "--resume")
    assert refused.exit_code == 2
    named = "`rows-b.jsonl`, `rows-c.jsonl`, `rows-d.jsonl`"
    assert f"the dataset has another content ({named}); undo that" in refused.stderr
    assert refused.stderr.count("another content") == 1


def test_a_lock_that_was_given_is_in_the_folder_that_names_it(here: Path) -> None:
    write("rows-a.jsonl", rows(0, 3))
    lock = f"six==1.17.0 --hash=sha256:{'0' * 64}\n"
    prepared = prepare(RunRequest(evaluator="noisy.py", dataset="rows-*.jsonl", sandbox=SandboxConfig(lock=lock)))
    folder = PartsFolder("own/", prepared, find_files("rows-*.jsonl"), inputs=(), lock="given.txt")
    folder.take(resume=False)
    folder.begin()
    folder.go_on(WorkerGreeting(identity="wasm", lock=lock, manifest={}), 1)
    folder.release()
    assert Path(json.loads(Path("own/manifest.json").read_text())["lock"]).read_text() == lock


def test_a_run_of_one_file_leaves_no_parts_of_an_earlier_one(here: Path) -> None:
    write("rows-a.jsonl", rows(0, 3))
    assert score("rows-a*.jsonl", "own").exit_code == 0
    assert Path("own/parts/00001").is_dir()
    assert score("rows-a.jsonl", "own", "--overwrite").exit_code == 0
    assert not Path("own/parts").exists()
    assert len(results("own")) == 3


@pytest.mark.rotating("dialects of parts", "parts")
def test_a_script_is_read_as_what_the_command_says(here: Path) -> None:
    Path("noisy.py").write_text("def get_assert(output, context):\n    raise ValueError(output)\n")
    write("rows-a.jsonl", [{"output": "w", "id": "1"}])
    write("rows-b.jsonl", [{"output": "wide", "id": "2"}])
    options = ("--dialect-failures", "as-zero", "-j", "1", "-o", "parts/")
    done = evalcell("run", "noisy.py", "rows-*.jsonl", *options)
    assert done.exit_code == 0, done.output
    assert [(row["outcome"], row["score"]) for row in results("parts")] == [("scored", 0.0)] * 2
