"""Running the command line in this process, in a folder with a script and a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from runner.cli.main import cli

LENGTH = '"""Counts characters."""\ndef evaluate(output, weight=1):\n    return len(output) * weight\n'
ROWS: list[dict[str, Any]] = [
    {"id": "a", "output": "x"},
    {"id": "b", "output": "xxx"},
    {"id": "c", "input": "none"},
    {"id": "d", "output": 5},
]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def evalcell(*arguments: str, input: str | bytes | None = None, **env: str) -> Result:
    return CliRunner(env=env).invoke(cli, arguments, input=input)


def run(*arguments: str, input: str | bytes | None = None, **env: str) -> Result:
    """In this process alone, which starts sooner than with workers."""
    return evalcell("run", "-j", "1", *arguments, input=input, **env)


def header(script: str, *lines: str) -> str:
    return "\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///", script])
