"""`evalcell completion`: what a shell reads, and what it is answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import templates
from tests.cli.commands import evalcell

ROOT = Path(__file__).parents[2]
SHELLS = ["bash", "zsh", "fish"]
COMMAND = f'#!/bin/sh\nexec "{sys.executable}" -c "from runner.__main__ import main; main()" "$@"\n'


@pytest.fixture
def path(here: Path) -> str:
    """A PATH with evalcell in front."""
    folder = here / "bin"
    folder.mkdir()
    (folder / "evalcell").write_text(COMMAND)
    (folder / "evalcell").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def in_bash(line: str, path: str) -> list[str]:
    """What bash offers at the end of the line."""
    words = [*line.split(), "''"] if line.endswith(" ") else line.split()
    script = (
        f'eval "$(evalcell completion bash)"\nCOMP_WORDS=({" ".join(words)})\n'
        f"COMP_CWORD={len(words) - 1}\n_evalcell_completion evalcell\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("evalcell sho", ["show"]),
        ("evalcell run json-di", ["json-difference", "json-distance", "json-distance-strict"]),
        ("evalcell run len", ["length.py"]),
        ("evalcell run length.py de", ["demo"]),
        ("evalcell run length.py ", []),
        ("evalcell run length.py demo --sandbox was", ["wasm"]),
        ("evalcell run length.py demo --max-f", ["--max-failed"]),
        ("evalcell new x --from rou", ["rouge-l"]),
    ],
)
def test_bash_offers(path: str, line: str, offered: list[str]) -> None:
    assert in_bash(line, path) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_shell_reads_calls_evalcell(shell: str) -> None:
    result = evalcell("completion", shell)
    assert result.exit_code == 0
    assert "_EVALCELL_COMPLETE" in result.stdout
    if found := shutil.which(shell):
        subprocess.run([found, "-n"], input=result.stdout, text=True, check=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_is_answered(path: str, shell: str) -> None:
    asked = {"_EVALCELL_COMPLETE": f"{shell}_complete", "COMP_WORDS": "evalcell show ", "COMP_CWORD": "2"}
    if shell == "fish":
        asked |= {"COMP_CWORD": ""}
    env = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)} | asked
    answer = subprocess.run(["evalcell"], env=env, capture_output=True, text=True, check=True).stdout
    assert all(name in answer for name in templates.names())


def test_another_shell_is_told(here: Path) -> None:
    result = evalcell("completion", "tcsh")
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr


def test_alone_it_says_what_to_do_next(here: Path) -> None:
    result = evalcell()
    assert result.exit_code == 2
    assert len(result.stdout.splitlines()) <= 10
    for line in result.stdout.splitlines():
        command = line.strip().partition("   ")[0].split()
        if line.startswith("  ") and "data.csv" not in command:
            serves = ["--help"] if "serve" in command else []  # it would go on until somebody stops it
            assert evalcell(*command[1:], *serves).exit_code == 0, command


def test_what_belongs_to_another_command_is_none_of_its_own() -> None:
    assert "\n  cache " in evalcell("--help").stdout
    assert "\n  prune" not in evalcell("--help").stdout
