"""The library speaks of fields, the command line of options: each door in its own words."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from runner.cli.main import cli
from runner.cli.messages import FIELD, OPTIONS, in_options

ROOT = Path(__file__).parents[2]
STARTED = (ROOT / "runner" / "server" / "http", ROOT / "runner" / "server" / "service")


@functools.cache
def library() -> tuple[tuple[Path, str], ...]:
    """Every text in the code of the library, its docstrings left out."""
    return tuple(_texts())


def _texts() -> Iterator[tuple[Path, str]]:
    for path in [*(ROOT / "runner").rglob("*.py"), *(ROOT / "sandboxes").rglob("*.py")]:
        parts = path.relative_to(ROOT).parts
        # The manifest repeats the command; `lines` is what a command says to its caller, row by row.
        if "build" in parts or "cli" in parts or parts[-1] in ("manifest.py", "lines.py"):
            continue
        tree = ast.parse(path.read_bytes())
        left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                left_out |= {id(part) for part in node.values}
                yield path, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
                yield path, node.value


def options(command: click.Command) -> set[str]:
    found = {name for p in command.params if isinstance(p, click.Option) for name in p.opts if name.startswith("--")}
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        found |= options(below)
    return found


def test_no_message_of_the_library_names_an_option() -> None:
    every = options(cli) - {"--help", "--version"}
    # What a server allows is set where it is started, which only a command can do.
    started = options(cli.commands["serve"])
    anywhere, there = (
        re.compile(rf"(?<![\w-])({'|'.join(sorted(names))})(?![\w-])") for names in (every, every - started)
    )
    wrong = []
    for path, text in library():
        named = there if any(path.is_relative_to(folder) for folder in STARTED) else anywhere
        # A line with a space is a message; `evalcell …` is a command that any door may name.
        if " " in text.strip() and "\n" not in text and "evalcell " not in text and named.search(text):
            wrong.append(f"{path.relative_to(ROOT)}: {text}")
    assert wrong == []


def test_each_field_that_a_message_names_has_an_option() -> None:
    named = {f"{found[1]}({found[2]})" for _, text in library() for found in FIELD.finditer(text)}
    assert named <= set(OPTIONS)
    assert set(OPTIONS.values()) <= options(cli)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("took too long; allow more seconds with SandboxConfig(install_timeout=…)", "--install-timeout"),
        ("SandboxConfig(allow_weak_isolation=True) runs scripts that you trust", "--allow-weak-isolation"),
        ("such as InputMapping(paths={'gold': 'COLUMN'})", "--map gold=COLUMN"),
        ("give it a value: InputMapping(literals={'least': …})", "--set least=…"),
        ('add `dependencies = ["six"]` to the', 'add --with six, or `dependencies = ["six"]` to the'),
        ('add `dependencies = ["six>=1", "b"]`', 'add --with \'six>=1\' --with b, or `dependencies = ["six>=1", "b"]`'),
        ("the env-file keys.env cannot be read", "--env-file keys.env cannot be read"),
        ("the file MODEL=m.json is not a regular file", "--file MODEL=m.json is not"),
        ("choose the wasm sandbox, or", "choose --sandbox wasm, or"),
        ("add the column, map another to `gold` (it has `x`)", "map another with --map gold=COLUMN (it has"),
    ],
)
def test_on_the_command_line_it_is_an_option(said: str, shown: str) -> None:
    assert shown in in_options(said)
    assert not FIELD.search(in_options(said))
