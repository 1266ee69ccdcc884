"""A results folder of somebody else may have links: nothing is written, removed or read where they lead."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from runner.results.output.links import open_own
from tests.cli.commands import evalcell, run

SAME = "def evaluate(output):\n    return 1.0\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("same.py").write_text(SAME)
    for number in (1, 2):
        Path(f"rows-{number}.jsonl").write_text('{"output": "a"}\n' * 3)
    Path("precious").mkdir()
    for name in ("results.jsonl", "manifest.json", "plan.json", "figures.json", "keep.txt"):
        Path("precious", name).write_text("{}\n")
    return tmp_path


def one(*more: str) -> Result:
    return run("same.py", "rows-1.jsonl", "-q", "-o", "run/", *more)


def in_parts(*more: str) -> Result:
    return evalcell("run", "same.py", "rows-*.jsonl", "-q", "-j", "1", "-o", "run/", *more)


def symlink(place: str, to: str) -> None:
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place)
    Path(place).unlink(missing_ok=True)
    Path(place).symlink_to(Path(to).absolute())


def hard_link(place: str, to: str) -> None:
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).unlink(missing_ok=True)
    os.link(to, place)


def pipe(place: str, to: str) -> None:
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).unlink(missing_ok=True)
    os.mkfifo(place)


Make = Callable[[str, str], None]
FILES = ["run/results.jsonl", "run/manifest.json", "run/requirements.lock"]
PARTS: list[tuple[Make, str, str]] = [
    (symlink, "run/parts", "precious"),
    (symlink, "run/parts/plan.json", "precious/plan.json"),
    (hard_link, "run/parts/plan.json", "precious/plan.json"),
    (pipe, "run/parts/plan.json", ""),
    (symlink, "run/parts/ids", "precious"),
    (symlink, "run/parts/00001", "precious"),
    (symlink, "run/parts/00001/results.jsonl", "precious/results.jsonl"),
    (hard_link, "run/parts/00001/results.jsonl", "precious/results.jsonl"),
    (hard_link, "run/parts/00001/manifest.json", "precious/manifest.json"),
    (symlink, "run/parts/00001/figures.json", "precious/figures.json"),
    (pipe, "run/parts/00001/figures.json", ""),
]


def precious() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path("precious").iterdir()}


@pytest.mark.parametrize("more", [[], ["--resume"]], ids=["anew", "resume"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("make", "said"), [(symlink, "is a link"), (hard_link, "has another name too"), (pipe, "not a")]
)
def test_a_file_of_the_folder_that_is_a_link(make: Make, said: str, name: str, more: list[str]) -> None:
    for begun in (False, True):
        if begun:
            shutil.rmtree("run")
            assert one().exit_code == 0
        make(name, "precious/manifest.json")
        before = precious()
        for score in (one, in_parts):
            done = score(*more)
            assert done.exit_code == 2, done.output
            assert f"-o run: {name[4:]} in it {said if make is not pipe else 'is not a regular file'}" in done.stderr
        assert precious() == before


@pytest.mark.parametrize(("make", "name", "to"), PARTS, ids=[f"{make.__name__}-{name}" for make, name, _ in PARTS])
def test_parts_that_lead_elsewhere(make: Make, name: str, to: str) -> None:
    assert in_parts().exit_code == 0
    make(name, to)
    before = precious()
    done = in_parts("--resume")
    assert done.exit_code == 2, done.output
    assert f"{os.path.basename(name)} in it " in done.stderr
    assert precious() == before
    if name == "run/parts":
        assert "-o run: parts in it is a link" in one().stderr
        assert precious() == before


def test_the_folder_of_one_of_several_evaluators(here: Path) -> None:
    symlink("run/exact-match", "precious")
    words = ["-e", "exact-match", "-e", "same.py", "--map", "actual=output", "--map", "expected=output"]
    done = run(*words, "rows-1.jsonl", "-o", "run/")
    assert (done.exit_code, "-o run: exact-match in it is a link" in done.stderr) == (2, True), done.output
    assert sorted(precious()) == ["figures.json", "keep.txt", "manifest.json", "plan.json", "results.jsonl"]


def test_what_comes_in_between_is_not_followed(here: Path) -> None:
    """As another process may put it there after all was checked."""
    Path("own").write_text("own")
    os.close(open_own("own", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    assert Path("own").read_text() == ""
    for make in (symlink, hard_link, pipe):
        make("link", "precious/keep.txt")
        with pytest.raises(OSError, match=r"symbolic link|hard link|not a regular|No such device"):
            open_own("link", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        Path("link").unlink()
    assert Path("precious/keep.txt").read_text() == "{}\n"
    assert stat.S_IMODE(os.stat("own").st_mode) & 0o111 == 0
