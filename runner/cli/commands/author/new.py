"""`evalcell new`: write a new script and worked examples for it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rich.text import Text

import templates
from runner.cli.exit_codes import DONE
from runner.cli.views import render
from runner.core.errors import InputError, OutputError
from runner.core.text import printable, whole
from runner.inputs.evaluators.load import LANGUAGES
from runner.inputs.evaluators.resolve import find_language
from sandboxes.base import Language

_SUFFIXES = {language: suffix for suffix, language in LANGUAGES.items()}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")


def new(name: str, language: Language | None, template: str | None) -> int:
    """
    Write the script and its cases unless one of them exists; return the exit code.

    Raises:
        InputError: For a name or template that cannot be used, and for what exists already.
    """
    path, language = _named(name, language)
    if template is None:
        language = language or "python"
        source, cases = templates.starter(language)
    else:
        language = find_language(template, language)
        source, cases = templates.source(template, language), templates.cases(template).read_text("utf-8")
    script = path.with_name(path.name + _SUFFIXES[language])
    cases_file = script.with_name(f"{path.name}.cases.jsonl")
    write_new({script: source, cases_file: cases})
    files = templates.demo_files(template) if template is not None else {}
    words = [
        shlex.quote(os.fspath(script)),
        *(f"--file {name}={shlex.quote(str(file))}" for name, file in files.items()),
    ]
    out = render.out()
    out.print(Text(f"wrote {printable(str(script))} and {printable(str(cases_file))}; next:"))
    for command in ("evalcell test {}", "evalcell run {} data.jsonl"):
        out.print(Text("  " + command.format(" ".join(words[:1] if "run" in command else words))), soft_wrap=True)
    return DONE


def _named(name: str, language: Language | None) -> tuple[Path, Language | None]:
    """The script's path without a suffix, and the language that the suffix or the option names."""
    path, shown = Path(name), printable(whole(name), 80)
    named = LANGUAGES.get(path.suffix.lower())
    if named and language not in (None, named):
        raise InputError(f"{shown} is the name of a {named} script; leave out --lang, or the suffix")
    stem = path.stem if named else path.name
    if not _NAME.fullmatch(stem):
        raise InputError(f"{shown!r} cannot be a script's name; use letters, digits, - and _, such as tone-of-voice")
    if not path.parent.is_dir():
        folder = printable(whole(str(path.parent)))
        raise InputError(f"there is no folder {folder}; make it first: mkdir -p {shlex.quote(folder)}")
    return path.with_name(stem), named or language


def write_new(files: Mapping[Path, str], what: str = "name", *, folders: bool = False) -> None:
    """Write new files: all or none. `folders` makes theirs. Raises OutputError, which says to choose another `what`."""
    for path in files:
        if os.path.lexists(path):
            raise OutputError(f"{printable(whole(str(path)))} exists already; choose another {what}, or move it away")
    made: list[Path] = []
    try:
        for path, text in files.items():
            for folder in reversed([path.parent, *path.parent.parents] if folders else []):
                if not folder.is_dir():
                    folder.mkdir()
                    made.append(folder)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        where = printable(whole(os.fsdecode(error.filename or "")))
        raise OutputError(f"{where} cannot be written: {error.strerror}; choose another {what}") from None
