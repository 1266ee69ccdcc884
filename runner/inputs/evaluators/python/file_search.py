"""Where a script looks for files without failing when there are none: it sees none of the caller's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from runner.core.types import Evaluator
from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.python.signature import FunctionNode, reach
from sandboxes.words.wording import Setting

if TYPE_CHECKING:
    from runner.inputs.evaluators.foreign.module import ScriptModule

_FUNCTIONS = {f"os.path.{name}" for name in ("exists", "lexists", "isfile", "isdir", "getsize", "getmtime")}
_FUNCTIONS |= {"os.listdir", "os.walk", "os.scandir", "os.access", "glob.glob", "glob.iglob"}
_METHODS = {"exists", "is_file", "is_dir", "iterdir", "glob", "rglob", "walk"}
"""Of pathlib's paths."""
_READING = {"open", "io.open", "codecs.open"}
_READ = {"read_text", "read_bytes", "open"}
_OWN = re.compile(r"\btempfile\b|[\"']/tmp\b")
"""A script that has files of its own."""
_MAYBE = re.compile(
    r"\b(?:l?exists|isfile|isdir|getsize|getmtime|listdir|walk|scandir|access|i?glob|rglob|is_file|is_dir|iterdir|open"
    r"|read_text|read_bytes)\b"
)


def file_notes(evaluator: Evaluator) -> list[str]:
    """Note that a Python script looks for files, with the first line where it does."""
    return [
        f"line {line} looks for files, by `{words}`, and a script sees none of yours: it goes on without them; give "
        f"each that it reads, {Setting('sandbox.files')}, and have it take the path from os.environ, or put what they "
        "hold into a column"
        for line, words in _searches(evaluator)
    ][:1]


def _searches(evaluator: Evaluator) -> list[tuple[int, str]]:
    if (
        evaluator.language != "python"
        or evaluator.is_inline
        or _OWN.search(evaluator.source)
        or not _MAYBE.search(evaluator.source)
    ):
        return []
    from runner.inputs.evaluators.foreign.module import dotted_name, read_python  # here: few scripts look for files

    module = read_python(evaluator.source, evaluator.name)
    paths = any(what.partition(".")[0] == "pathlib" for what in module.imports.values())
    found = []
    for node in _run(module, evaluator.entry or NAME):
        caught = _caught(node) if isinstance(node, ast.Try) else ()
        for inner in (node, *caught):
            if isinstance(inner, ast.Call):
                name = module.whole_name(dotted_name(inner.func))
                if words := _search(inner, name, paths, inner is not node):
                    found.append((inner.lineno, words))
    return sorted(found)


def _search(call: ast.Call, name: str, paths: bool, caught: bool) -> str | None:
    """The call as a function that looks for files; where its error is caught, one that opens them, too."""
    if name in _FUNCTIONS or (caught and name in _READING):
        return name
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return f".{method}()" if paths and (method in _METHODS or (caught and method in _READ)) else None


def _caught(node: ast.Try) -> Iterator[ast.AST]:
    """What is in a `try` whose handlers let the script go on."""
    handlers = [inner for handler in node.handlers for inner in ast.walk(handler)]
    if node.handlers and not any(isinstance(one, ast.Raise) for one in handlers):
        for statement in node.body:
            yield from ast.walk(statement)


def _run(module: ScriptModule, called: str) -> Iterator[ast.AST]:
    """What is run for a row: the script's own statements, and what they and the called function reach."""
    own = [one for one in module.body if not isinstance(one, FunctionNode | ast.ClassDef) and not _is_main(one)]
    used = (inner.id for one in own for inner in ast.walk(one) if isinstance(inner, ast.Name))
    for node in (*own, *reach(module.body, called, *used)):
        yield from ast.walk(node)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.dump(node.test)
