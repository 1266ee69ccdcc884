"""The program that a sandbox loads for a Python script of a dialect: a part of ours, with the script in it as data."""

from __future__ import annotations

import ast
from functools import cache
from importlib.resources import files

_FOLDER = files("sandboxes.guest") / "foreign"
_MODULE = "evalcell_part"
HIDDEN = "<evalcell>"
"""The file of our part's frames, which tracebacks leave out."""


def python_program(part: str, entry: str, source: str, *beside: str, **options: object) -> str:
    """
    A program that defines the function `entry`, by what `wrap` of a guest part makes of the script.

    `options` are plain values; `wrap` gets them by name. The script's text is data in it, and is compiled apart.
    `beside` are other parts that the part imports.
    """
    given = {"source": source, "entry": entry, **options}
    return (
        "import sys, types\n"
        f"_part = sys.modules[{_MODULE!r}] = types.ModuleType({_MODULE!r})\n"
        f"exec(compile({python_part(*beside, part)!r}, {HIDDEN!r}, 'exec', dont_inherit=True), _part.__dict__)\n"
        f"globals()[{entry!r}] = _part.wrap(**{given!r})\n"
    )


@cache
def python_part(*names: str) -> str:
    """The text of guest parts, after that of `frame.py`, which they import."""
    texts = [_without_imports((_FOLDER / f"{part}.py").read_text("utf-8")) for part in ("frame", *names)]
    return "\n".join(["from __future__ import annotations", *texts, ""])


def _without_imports(text: str) -> str:
    """The text without its imports of `__future__` and of parts beside it."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "__future__"):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines)
