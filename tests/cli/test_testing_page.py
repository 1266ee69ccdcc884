"""What docs/testing-evaluators.md shows is what comes of it: its files, commands and Python are run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from runner.runs.examples.load import ExampleColumns, ExpectedResult
from tests.cli.commands import evalcell
from tests.skips import need

PAGE = (Path(__file__).parents[2] / "docs" / "testing-evaluators.md").read_text("utf-8")
FILES = re.findall(r"^`([\w.]+)`\n\n```\w+\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^```\n\$ (evalcell .*?)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
SCRIPTS = re.findall(r"^```python\n(from evalcell .*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the page shows, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    assert len(FILES) == 4
    for name, text in FILES:
        Path(name).write_text(text, "utf-8")


def plain(text: str) -> str:
    """Without what differs from machine to machine, and with it where lines are broken."""
    text = re.sub(r"version [0-9a-f]{12}", "version V", text)
    return " ".join(re.sub(r"(python|wasmtime)-[\d.]+", r"\1-N", text).split())


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_prints_what_the_page_shows(command: str, shown: str) -> None:
    words = shlex.split(command)[1:]
    for backend in re.findall(r"--sandbox (\w+)", command):
        need(backend)
    assert plain(evalcell(*words).stdout) == plain(shown)


@pytest.mark.usefixtures("_files")
def test_the_python_prints_what_the_commands_do(capsys: pytest.CaptureFixture[str]) -> None:
    for script in SCRIPTS:
        exec(compile(script, "testing-evaluators.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "closeness.cases.jsonl:6 outcome scored failed",
        "4 2 2 {'label': 1, 'outcome': 1}",
    ]


def test_every_column_and_key_is_explained() -> None:
    told = set(
        re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")))
    )
    assert told == {*ExampleColumns.model_fields, *ExpectedResult.model_fields}
