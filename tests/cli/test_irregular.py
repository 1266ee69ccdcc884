"""A pipe or a device in place of a file that is read whole is told at once: nothing waits, or is read without end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import evaluate, evaluate_project
from runner.core.errors import DatasetError, InputError, NotComparableError
from runner.server.client.rows import refuse_unreadable
from sandboxes import SandboxConfig
from sandboxes.errors import UnsupportedConfigError
from sandboxes.host.regular import open_regular, read_regular
from tests.cli.commands import evalcell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes and devices")

SAME = "def evaluate(output):\n    return 1.0\n"
RUN = ["run", "same.py", "rows.jsonl", "-q"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALCELL_STATE_DIR", str(tmp_path / "state"))
    Path("same.py").write_text(SAME)
    Path("rows.jsonl").write_text('{"output": "a"}\n')
    return tmp_path


def pipe(path: str) -> None:
    os.mkfifo(path)


def device(path: str) -> None:
    Path(path).symlink_to("/dev/zero")


COMMANDS: list[tuple[list[str], str]] = [
    ([*RUN, "--lock", "x.lock"], "x.lock"),
    ([*RUN, "--env-file", "x.env"], "x.env"),
    ([*RUN, "--env-file", "x.env", "--env", "HOME"], "x.env"),
    ([*RUN, "--file", "A=x.bin"], "x.bin"),
    ([*RUN, "--baseline", "x.jsonl"], "x.jsonl"),
    (["run", "--config", "x.toml"], "x.toml"),
    (["config", "--config", "x.toml"], "x.toml"),
    (["run", "x.py", "rows.jsonl"], "x.py"),
    (["run", "same.py", "x.parquet"], "x.parquet"),
    (["test", "same.py", "x.jsonl"], "x.jsonl"),
    (["test", "x.py"], "x.py"),
    (["check", "x.py"], "x.py"),
    (["add", "x.jsonl"], "x.jsonl"),
    (["add", "x.csv"], "x.csv"),
    (["add", "x.py"], "x.py"),
    (["compare", "x.jsonl", "rows.jsonl"], "x.jsonl"),
    (["compare", "rows.jsonl", "x.csv"], "x.csv"),
    (["report", "x.jsonl", "-o", "r.md"], "x.jsonl"),
    (["report", "rows.jsonl", "--compare", "x.jsonl", "-o", "r.md"], "x.jsonl"),
    (["sandboxes", "--live", "--env-file", "x.env"], "x.env"),
    (["reap", "--env-file", "x.env"], "x.env"),
    (["export", "promptfoo", "x.py"], "x.py"),
    (["parity", "same.py", "rows.jsonl", "--other", "x.py"], "x.py"),
]


@pytest.mark.parametrize("make", [pipe, device])
@pytest.mark.parametrize(("words", "name"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_a_command_says_what_it_is(words: list[str], name: str, make: Callable[[str], None], here: Path) -> None:
    make(name)
    done = evalcell(*words)
    assert done.exit_code in (2, 3), done.output
    assert name in done.stderr, done.stderr
    assert "regular file" in done.stderr or "no file x.toml" in done.stderr, done.stderr


@pytest.mark.parametrize("make", [pipe, device])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('lock = "x"', "regular file"),
        ('env_file = "x"\nenv = ["HOME"]', "regular file"),
        ('file = { A = "x" }', "regular file"),
        ('baseline = "x"', "regular file"),
    ],
)
def test_a_file_of_a_project(line: str, said: str, make: Callable[[str], None], here: Path) -> None:
    make("x")
    Path("evalcell.toml").write_text(f'dataset = "rows.jsonl"\nevaluator = "same.py"\n{line}\n')
    done = evalcell("run")
    assert (done.exit_code in (2, 3), said in done.stderr) == (True, True), done.output
    assert evalcell("config").exit_code in (0, 2, 3)
    with pytest.raises((InputError, NotComparableError, UnsupportedConfigError), match=said):
        evaluate_project()


@pytest.mark.parametrize("make", [pipe, device])
def test_python_says_so_too(make: Callable[[str], None], here: Path) -> None:
    make("x.jsonl")
    more: list[dict[str, Any]] = [
        {"sandbox": SandboxConfig(files={"A": "x.jsonl"})},
        {"sandbox": SandboxConfig(backend="process", env=("HOME",), env_file="x.jsonl")},
        {"baseline": "x.jsonl"},
    ]
    for one in more:
        with pytest.raises((InputError, NotComparableError, UnsupportedConfigError), match="regular file"):
            evaluate("same.py", "rows.jsonl", progress=False, **one)
    with pytest.raises(DatasetError, match="not a regular file: save what it gives as one"):
        refuse_unreadable(Path("x.jsonl"))


def test_a_device_is_no_dataset_and_a_pipe_is_one(here: Path) -> None:
    device("zero.jsonl")
    done = evalcell("run", "same.py", "zero.jsonl")
    assert (done.exit_code, "it is a device, which may have no end" in done.stderr) == (2, True), done.output
    pipe("rows-of.jsonl")
    writer = subprocess.Popen(["cp", "rows.jsonl", "rows-of.jsonl"])
    assert evalcell("run", "same.py", "rows-of.jsonl", "-q").exit_code == 0
    assert writer.wait(60) == 0


@pytest.mark.parametrize("make", [pipe, device])
def test_the_plugin_of_pytest_waits_for_nothing(make: Callable[[str], None], here: Path) -> None:
    make("x.py")
    Path("x.cases.jsonl").write_text('{"output": "a", "expected": {"score": 1}}\n')
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "x.cases.jsonl"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert "there is no evaluator x.py or x.ts beside it" in done.stdout, done.stdout + done.stderr


def test_what_is_opened_is_a_regular_file(here: Path) -> None:
    pipe("pipe")
    device("device")
    for name, error in (("pipe", OSError), ("device", OSError), (".", IsADirectoryError), ("none", FileNotFoundError)):
        with pytest.raises(error):
            open_regular(name)
    Path("link").symlink_to("same.py")
    assert read_regular("link", 3) == b"def"
