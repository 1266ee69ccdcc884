"""`evalcell new`: what it writes passes its own cases."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import templates
from tests.cli.commands import evalcell
from tests.skips import need

LANGUAGES = {"python": ("py", "tone.py"), "typescript": ("ts", "tone.ts")}


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """Each language that can be run here."""
    name: str = request.param
    if name == "typescript":
        need("deno")
    return name


@pytest.mark.rotating("long tests", "cli", "templates")
def test_the_starter_passes_its_cases(here: Path, language: str) -> None:
    lang, file = LANGUAGES[language]
    result = evalcell("new", "tone", "--lang", lang)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"wrote {file} and tone.cases.jsonl; next:",
        f"  evalcell test {file}",
        f"  evalcell run {file} data.jsonl",
    ]
    checked = evalcell("check", file)
    assert checked.exit_code == 0, checked.stderr
    assert (
        "case_sensitive <- case_sensitive (by name, else its default true): true or false, default true; Whether upper"
        in " ".join(checked.stdout.split())
    )
    tried = evalcell("test", file, "--json")
    assert tried.exit_code == 0, tried.stdout
    said = json.loads(tried.stdout)
    assert (said["passed"], said["failed"]) == (6, 0)
    assert evalcell("test", file, "--set", "case_sensitive=false", "-q").exit_code == 1


def test_a_template_is_copied_whole_with_its_cases(here: Path) -> None:
    assert evalcell("new", "mine", "--from", "json_distance").exit_code == 0
    assert Path("mine.py").read_text("utf-8") == templates.source("json-distance")
    assert Path("mine.cases.jsonl").read_bytes() == templates.cases("json-distance").read_bytes()
    assert evalcell("test", "mine.py", "-q").exit_code == 0


def test_a_template_in_the_language_asked_for(here: Path) -> None:
    assert evalcell("new", "mine.ts", "--from", "json-distance").exit_code == 0
    assert Path("mine.ts").read_text("utf-8") == templates.source("json-distance", "typescript")


def test_what_a_template_needs_is_in_the_next_step(here: Path) -> None:
    result = evalcell("new", "rare-words", "--from", "tfidf-cosine")
    (file,) = templates.demo_files("tfidf-cosine").values()
    assert f"  evalcell test rare-words.py --file TFIDF={file}" in result.stdout.splitlines()


def test_a_folder_may_be_named(here: Path) -> None:
    Path("of mine").mkdir()
    result = evalcell("new", "of mine/tone.py")
    first, second, *_ = result.stdout.splitlines()
    assert first == "wrote of mine/tone.py and of mine/tone.cases.jsonl; next:"
    assert second == "  evalcell test 'of mine/tone.py'"
    assert sorted(os.listdir("of mine")) == ["tone.cases.jsonl", "tone.py"]


@pytest.mark.parametrize("there", ["tone.py", "tone.cases.jsonl"])
def test_nothing_is_overwritten(here: Path, there: str) -> None:
    Path(there).write_text("mine")
    before = sorted(os.listdir())
    result = evalcell("new", "tone")
    assert result.exit_code == 2
    assert result.stderr == f"evalcell: {there} exists already; choose another name, or move it away\n"
    assert Path(there).read_text() == "mine"
    assert sorted(os.listdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_to_nowhere_is_not_followed(here: Path) -> None:
    Path("tone.py").symlink_to("elsewhere.py")
    assert evalcell("new", "tone").exit_code == 2
    assert not Path("elsewhere.py").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a b"], "'a b' cannot be a script's name; use letters, digits, - and _"),
        ([""], "'' cannot be a script's name"),
        ([".."], "'..' cannot be a script's name"),
        (["-x"], "No such option"),
        (["--", "-x"], "'-x' cannot be a script's name"),
        (["x.js"], "'x.js' cannot be a script's name"),
        (["x\ny"], "'x\\\\ny' cannot be a script's name"),
        (["x" * 200], "cannot be a script's name"),
        (["no/tone"], "there is no folder no; make it first: mkdir -p no"),
        (["tone.py", "--lang", "ts"], "tone.py is the name of a python script; leave out --lang, or the suffix"),
        (["tone", "--from", "jsondistance"], "there is no template named 'jsondistance'; did you mean json-distance?"),
        (["tone", "--from", "classification", "--lang", "ts"], "is not written in typescript, but in python"),
        (["tone", "--lang", "js"], "'js' is not one of 'py', 'ts'"),
    ],
)
def test_wrong_usage_writes_nothing(here: Path, arguments: list[str], words: str) -> None:
    before = sorted(os.listdir())
    result = evalcell("new", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert sorted(os.listdir()) == before


def test_a_folder_that_cannot_be_written_is_named(here: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    Path("closed").mkdir(mode=0o500)
    result = evalcell("new", "closed/tone")
    assert result.exit_code == 2
    assert "closed/tone.py cannot be written: Permission denied" in result.stderr
