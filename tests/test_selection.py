"""What a commit's tests leave out is run with another commit, or where it matters, and is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.selection import FILES, FOLDERS, PARTS, Rotation, affected, group, rotation

ROOT = Path(__file__).parents[1]

SAMPLE = """
import os, pathlib, pytest

@pytest.fixture(autouse=True)
def worker():
    with open("workers", "a") as file:
        print(os.environ.get("PYTEST_XDIST_WORKER"), file=file)

@pytest.mark.rotating("hostile", "process")
@pytest.mark.parametrize("n", range(40))
def test_hostile(n): pass

@pytest.mark.thorough("tried by others")
@pytest.mark.parametrize("n", range(3))
def test_thorough(n): pass

def test_plain(): pass
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits; the second one changes no sandbox."""
    monkeypatch.delenv("EVALCELL_TEST_SINCE", raising=False)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.com")
        monkeypatch.setenv(f"GIT_{name}_DATE", "2026-01-01T00:00:00Z")  # so that each run takes the same part
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "sandboxes/process/python_box.py")
    commit(tmp_path, "CONTRIBUTING.md")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def write(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as file:
        file.write("changed\n")


def commit(folder: Path, name: str) -> str:
    write(folder, name)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", name)
    return git(folder, "rev-parse", "HEAD")


def test_each_rotating_test_is_run_in_one_part() -> None:
    parts = [Rotation(f"{n:08x}") for n in range(PARTS)]
    run = [[part.runs(f"tests/test_x.py::test[{n}]", ["wasm"]) for part in parts] for n in range(400)]
    assert {sum(each) for each in run} == {1}
    assert all(5 < sum(of) < 35 for of in zip(*run, strict=True))


def test_all_of_an_area_that_changed_are_run() -> None:
    changed = affected(["CONTRIBUTING.md", "sandboxes/boxes/box.py"])
    assert changed == dict.fromkeys(["process", "deno", "sandboxes"], "sandboxes/boxes/box.py")
    assert str(Rotation("3" * 40, "4" * 40, changed)) == (
        f"part {0x33333333 % PARTS} of {PARTS}, by commit 33333333; "
        "all of process, deno, sandboxes (changed since 44444444: sandboxes/boxes/box.py)"
    )
    assert all(Rotation("0", "1", changed).runs(str(n), ["deno"]) for n in range(20))
    assert not all(Rotation("0", "1", changed).runs(str(n), ["wasm"]) for n in range(20))


def test_all_of_a_file_that_changed_are_run() -> None:
    rotation = Rotation("0", "1", files=frozenset(["tests/test_x.py"]))
    assert all(rotation.runs(f"tests/test_x.py::test[{n}]", ["wasm"]) for n in range(20))
    assert not all(rotation.runs(f"tests/test_y.py::test[{n}]", ["wasm"]) for n in range(20))


def test_what_names_another_template_than_the_changed_ones_is_left_to_its_turn() -> None:
    def runs(*files: str) -> list[bool]:
        rotation = Rotation("0", "1", affected(files), frozenset(files), frozenset(["bleu", "set_f1"]))
        names = [f"tests/test_x.py::test[{name}-{n}]" for name in ("set-f1-wasm", "bleu", "wasm") for n in range(20)]
        run = [rotation.runs(name, ["templates"]) for name in names]
        return [all(run[start : start + 20]) for start in (0, 20, 40)]

    assert runs("templates/set_f1/evaluator.py") == [True, False, True]
    assert runs("templates/set_f1/cases.jsonl", "templates/bleu/cases.jsonl", "docs/rules.md") == [True, True, True]
    assert runs("templates/set_f1/evaluator.py", "templates/parts/text.py") == [True, True, True]
    assert runs("templates/assembly.py") == [True, True, True]


def test_the_tables_name_what_is_there() -> None:
    assert [name for names in (*FOLDERS.values(), FILES) for name in names if not (ROOT / name).exists()] == []
    assert {area for areas in FILES.values() for area in areas} <= FOLDERS.keys()
    walled = {path.parent.name for path in (ROOT / "sandboxes").glob("*/*.py")}
    named = {name.split("/")[1] for names in FOLDERS.values() for name in names if name.startswith("sandboxes/")}
    assert named - {""} == walled


def test_one_worker_has_what_shares_an_open_sandbox() -> None:
    names = ("a[x-process-A-batch-y]", "b[process-A-batch]", "a[modal]", "a[modal-typescript]", "a", "b[processes]")
    file = "tests/test_x.py"
    assert [group(f"{file}::test_{name}").removeprefix(file) for name in names] == [
        " process-A-batch", " process-A-batch", " modal", " modal-typescript", "", ""
    ]  # fmt: skip


def test_what_changed_is_what_differs_from_the_first_parent(clone: Path) -> None:
    assert rotation(clone).changed == {}
    assert commit(clone, "sandboxes/wasm/engine.py") == rotation(clone).commit
    assert [*rotation(clone).changed] == ["wasm", "sandboxes"]


def test_what_is_not_committed_has_changed(clone: Path) -> None:
    write(clone, "sandboxes/process/python_box.py")
    assert [*rotation(clone).changed] == ["process", "sandboxes"]
    git(clone, "checkout", ".")
    write(clone, "sandboxes/deno/new.py")
    assert [*rotation(clone).changed] == ["deno", "sandboxes"]


def test_a_base_may_be_named(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(clone, "sandboxes/wasm/engine.py")
    commit(clone, "sandboxes/deno/deno_box.py")
    assert [*rotation(clone).changed] == ["deno", "sandboxes"]
    monkeypatch.setenv("EVALCELL_TEST_SINCE", git(clone, "rev-parse", "HEAD~2"))
    assert [*rotation(clone).changed] == ["wasm", "deno", "sandboxes"]
    monkeypatch.setenv("EVALCELL_TEST_SINCE", "nowhere")
    with pytest.raises(pytest.UsageError, match="no commit 'nowhere' here"):
        rotation(clone)


def test_where_the_parent_is_not_there_all_is_run(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    shallow = tmp_path_factory.mktemp("shallow") / "clone"
    git(clone, "clone", "--quiet", "--depth=1", clone.as_uri(), str(shallow))
    assert [*rotation(shallow).changed] == [*FOLDERS]
    assert "what has changed is not known" in str(rotation(shallow))


def test_outside_of_a_clone_the_part_is_always_the_same(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for folder in (tmp_path_factory.mktemp("unpacked"), clone / "sandboxes"):
        assert rotation(folder) == Rotation()
    assert str(Rotation()) == f"part 0 of {PARTS}, as no commit is known here"


@pytest.mark.parametrize("parallel", [(), ("-n", "2", "--dist", "loadgroup")], ids=["alone", "two workers"])
def test_what_is_left_out_is_told_at_the_end(clone: Path, parallel: tuple[str, ...]) -> None:
    (clone / "pytest.ini").write_text("[pytest]\nmarkers =\n    rotating\n    thorough\n")
    (clone / "test_sample.py").write_text(SAMPLE)
    commit(clone, "NOTES.md")
    commit(clone, "CONTRIBUTING.md")
    told = said(clone, *parallel, "-v", "test_sample.py")
    (hostile,) = [line for line in told if line.startswith("hostile: ")]
    run = int(hostile.split()[1])
    chosen = rotation(clone)
    assert hostile == f"hostile: {run} of 40 run"
    turns = f"{run} of 40 tests that take turns run: part {chosen.part} of {PARTS}, by commit {chosen.commit[:8]}"
    brief = [turns, "3 tests for which others stand are left out"]
    assert [line for line in told if line in brief] == brief
    assert 0 < run < 20
    assert "left out: 3, tried by others" in told
    assert len(set((clone / "workers").read_text().splitlines())) == 1, "what a file's tests share is opened once"
    assert [line for line in said(clone, *parallel, "test_sample.py") if "left out: 3" in line or hostile in line] == []
    assert f"{run + 1} passed" in told[-1]


def test_the_tests_of_a_file_take_their_turn_together(clone: Path) -> None:
    (clone / "pytest.ini").write_text("[pytest]\nmarkers =\n    rotating\n    thorough\n")
    (clone / "tests/server/http").mkdir(parents=True)
    for n in range(100):
        (clone / f"tests/server/http/test_{n}.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    commit(clone, "NOTES.md")
    commit(clone, "CONTRIBUTING.md")
    told = said(clone, "--import-mode=importlib", "-v", "tests/server/http")
    whole = Counter(line.partition("::")[0] for line in told if "PASSED" in line and "test_sample" not in line)
    assert 0 < len(whole) < 50
    assert {*whole.values()} == {2}
    assert f"files of tests/server/http/: {2 * len(whole)} of 200 run" in told


def test_without_the_option_nothing_is_left_out(clone: Path) -> None:
    (clone / "pytest.ini").write_text("[pytest]\nmarkers =\n    rotating\n    thorough\n")
    (clone / "test_sample.py").write_text(SAMPLE)
    told = said(clone, "test_sample.py", option=())
    assert "44 passed" in told[-1]
    assert not any("left out" in line for line in told)


def said(folder: Path, *words: str, option: tuple[str, ...] = ("--each-commit",)) -> list[str]:
    """The lines of a run that went well."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "xdist",
        "-p",
        "tests.selection",
        *option,
        *words,
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()
