"""Ids, labels, explanations, errors and file names that a CI would obey as commands, were they printed as they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runner.core.text import json_text
from runner.results.reports import workflow_commands
from runner.results.reports.workflow_commands import CommandGuard, guard_text, in_job
from tests.cli.commands import header, write_rows
from tests.cli.test_github_action import Hub, Job

COMMANDS = (
    "::add-mask::0",
    "::warning file=a.py,line=1::mine",
    "##[add-mask]0",
    "##vso[task.setvariable variable=x]y",
    "##VSO[task.complete result=Succeeded;]",
    "##teamcity[buildStatus status='SUCCESS']",
)
SCRIPT = header(
    "def evaluate(output):\n"
    "    print(output)\n"
    "    if output.startswith('!'):\n        raise ValueError(output[1:] + '\\n' + output[1:])\n"
    "    return {'label': output, 'score': 0.5, 'explanation': output}\n",
    "[tool.evalcell]",
    'output = {kind = "continuous", direction = "maximize"}',
)

pytestmark = pytest.mark.rotating("commands of a CI in text of others", "cli", "reports")


def obeyed(text: str) -> list[str]:
    """What the runners of GitHub, Azure, TeamCity and GitLab would obey: as their sources look for it."""
    found = [line for line in re.split(r"[\r\n]", text) if line.lstrip().lstrip("\ufeff").startswith("::")]
    return (
        found + re.findall(r"(?i)##(?:vso|teamcity)?\[.*", text) + re.findall(r"section_\w+:\d+:\S*?\r\x1b\[0K", text)
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "same.py").write_text(SCRIPT)
    write_rows(
        place / "rows.jsonl",
        [{"id": f"{blank}{c}", "output": f"{mark}{blank}{c}"} for c, mark, blank in product(COMMANDS, "!", ("", " "))]
        + [{"id": f"{n} {c}", "output": c, c: c} for n, c in enumerate(COMMANDS)],
    )
    cases = [{"id": c, "input": {"output": c}, "expected": {"label": "another"}} for c in COMMANDS]
    write_rows(place / "same.cases.jsonl", cases)
    return place


def called(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-P", "-c", "from runner.__main__ import main; main()", *words]
    variables = {name: value for name, value in os.environ.items() if name not in workflow_commands._SIGNS}
    return subprocess.run(program, capture_output=True, text=True, env=variables | {"CI": "true"} | env)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "same.py", "rows.jsonl"],
        ["run", "same.py", "rows.jsonl", "--json"],
        ["run", "same.py", "rows.jsonl", "--rows", "20"],
        ["test", "same.py"],
        ["check", "same.py", "rows.jsonl"],
        *(["run", "same.py", command] for command in COMMANDS[::3]),
        *(["run", "same.py", "rows.jsonl", "--map", f"output={command}"] for command in COMMANDS[::3]),
        *(["show", command] for command in COMMANDS[::3]),
        *([command] for command in COMMANDS[::4]),
    ],
    ids=lambda words: re.sub(r"\W+", "-", "-".join(words)),
)
def test_no_command_is_printed(here: Path, words: list[str]) -> None:
    done = called(*words)
    assert obeyed(done.stdout) + obeyed(done.stderr) == []
    assert done.stdout + done.stderr
    if "--json" in words:
        json.loads(done.stdout)


def test_in_a_script_that_prints_them_as_it_is(here: Path) -> None:
    """`show` prints a script, and `--debug` a traceback: both have lines of others."""
    (here / "same.py").write_text("def evaluate(output):\n    '''\n" + "\n".join(COMMANDS) + "\n'''\n    return 1\n")
    for words in (["show", "./same.py"], ["export", "promptfoo", "same.py"], ["--debug", "run", "same.py", "none"]):
        done = called(*words)
        assert obeyed(done.stdout) + obeyed(done.stderr) == [], words


def test_elsewhere_and_in_a_file_text_stays_as_it_is(here: Path) -> None:
    done = called("run", "same.py", "rows.jsonl", CI="false")
    assert obeyed(done.stdout)
    with open("out.txt", "wb") as file:
        code = "import sys; from runner.cli import streams; streams.repair(); print('::x'); sys.stdout.flush()"
        subprocess.run([sys.executable, "-c", code], stdout=file, env=os.environ | {"CI": "1"}, check=True)
    assert Path("out.txt").read_text() == "::x\n"


def test_what_talks_to_another_program_is_exact() -> None:
    code = "from runner.cli import streams; streams.repair(); streams.talk(); print('::##vso[x]')"
    done = subprocess.run([sys.executable, "-c", code], stdout=-1, env=os.environ | {"CI": "1"}, check=True, text=True)
    assert done.stdout == "::##vso[x]\n"


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 1000])
def test_however_it_is_written(pieces: int) -> None:
    text = "\n".join([*COMMANDS, *(f"\u00a0\u3000 \t{c}" for c in COMMANDS), "section_start:1:x\r\x1b[0Kname", "a ::b"])
    data = f"{text}\r\n::x".encode()
    guard = CommandGuard()
    out = b"".join(guard.guarded(data[at : at + pieces]) for at in range(0, len(data), pieces)).decode()
    assert obeyed(data.decode())
    assert obeyed(out) == []
    assert "a ::b" in out


@example(["so\r\u00a0", "\x1b["])
@given(st.lists(st.text(alphabet=" :#[\n\rvso\u00a0\x1b", max_size=6)))
def test_in_pieces_it_is_what_it_is_as_a_whole(pieces: list[str]) -> None:
    guard = CommandGuard()
    out = b"".join(guard.guarded(piece.encode()) for piece in pieces)
    assert out == CommandGuard().guarded("".join(pieces).encode())
    assert obeyed(out.decode()) == []
    assert out.replace(b" ", b"") == "".join(pieces).replace(" ", "").encode()


@pytest.mark.parametrize(
    ("name", "value", "job"), [("CI", "1", True), ("TF_BUILD", "True", True), ("CI", "false", False), ("CI", "", False)]
)
def test_a_job_is_known_by_its_variables(monkeypatch: pytest.MonkeyPatch, name: str, value: str, job: bool) -> None:
    for sign in workflow_commands._SIGNS:
        monkeypatch.delenv(sign, raising=False)
    monkeypatch.setenv(name, value)
    assert in_job() is job
    assert (guard_text("::x") == "::x") is not job


def test_json_has_the_same_values() -> None:
    values = [*COMMANDS, "###[", "#\\##", {"##[x]": "##"}]
    assert json.loads(json_text(values)) == values
    assert "##" not in json_text(values, indent=2)


def test_the_plugin_of_pytest(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-vv", "same.cases.jsonl"],
        capture_output=True,
        text=True,
        env=os.environ | {"CI": "true"},
    )
    assert f"{len(COMMANDS)} failed" in done.stdout
    assert obeyed(done.stdout) == []


def test_the_action_stops_commands_around_the_run(here: Path, tmp_path: Path) -> None:
    job = Job(tmp_path, Hub(), evaluator="same.py", dataset="rows.jsonl")
    first, *between, last = job.step("run").stdout.strip().splitlines()
    (token,) = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", first).groups()  # type: ignore[union-attr]
    assert last == f"::{token}::"
    assert between
    again = job.step("run").stdout
    assert token not in again
