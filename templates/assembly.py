"""One complete script out of an evaluator and the parts that it shares with others."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from sandboxes.base import Language

PARTS = Path(__file__).parent / "parts"

_MODULE = "templates.parts."
_FOLDER = '"../parts/'
_BESIDE = ' from "./'  # a part of a part, which the evaluator imports, too


def assemble(text: str, language: Language) -> str:
    """Return the script with each part's body in place of the line that imports it; without parts, as it is."""
    return _python(text) if language == "python" else _typescript(text)


def _part(name: str, suffix: str) -> str:
    return (PARTS / f"{name}{suffix}").read_text("utf-8")


def _python(text: str) -> str:
    if _MODULE not in text:
        return text
    tree = ast.parse(text)
    wanted = [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_MODULE)
    ]
    bodies: dict[int, list[str]] = {}
    found = _Imports(node for node in tree.body if node not in wanted)
    taken = found.lines
    taken_in: set[str] = set()
    for node in wanted:
        blocks = _bodies((node.module or "").removeprefix(_MODULE), found, taken_in)
        bodies[node.lineno] = "\n\n\n".join(blocks).split("\n")
    lines = text.split("\n")
    first = min([*taken, *bodies])
    above, below = lines[: first - 1], lines[first - 1 :]
    rest = _left(below, {line - first + 1 for line in (*taken, *bodies)})
    parts = ["\n".join(body) for body in bodies.values()]
    blocks = ["\n".join(_left(above, set())), *(part for part in parts if part), "\n".join(rest)]
    imports = found.written()
    head = f"{blocks[0]}\n\n{imports}" if imports else blocks[0]
    # As ruff has it: one blank line between imports and what is no function or class.
    defines = not imports or blocks[1].startswith(("def ", "class ", "async ", "@", "#"))
    return head + ("\n\n\n" if defines else "\n\n") + "\n\n\n".join(blocks[1:]) + "\n"


def _bodies(name: str, found: _Imports, taken_in: set[str]) -> list[str]:
    """A part without its docstring and imports, and before it the parts that it needs and that are not there yet."""
    if name in taken_in:
        return []
    taken_in.add(name)
    part = _part(name, ".py")
    module = ast.parse(part)
    needed = [node.module or "" for node in module.body if isinstance(node, ast.ImportFrom)]
    inner = [one.removeprefix(_MODULE) for one in needed if one.startswith(_MODULE)]
    before = [body for one in inner for body in _bodies(one, found, taken_in)]
    own = _Imports(module.body)
    found.add(own)
    docstring = range(1, (module.body[0].end_lineno or 0) + 1) if ast.get_docstring(module) is not None else ()
    return [*before, "\n".join(_left(part.split("\n"), {*own.lines, *docstring}))]


def _left(lines: list[str], taken: set[int]) -> list[str]:
    """The lines but those of these numbers, from 1, and the blank ones at both ends."""
    kept = [line for number, line in enumerate(lines, 1) if number not in taken]
    return "\n".join(kept).strip("\n").split("\n")


class _Imports:
    """The imports at the top level of modules, merged."""

    def __init__(self, body: Iterable[ast.stmt]) -> None:
        nodes = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        self.lines = {line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        self._whole = {_named(alias) for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        self._names: dict[str, set[str]] = {}
        for node in nodes:
            # A part that needs another one finds it in the same script.
            if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(_MODULE):
                self._names.setdefault(node.module or "", set()).update(_named(alias) for alias in node.names)

    def add(self, other: _Imports) -> None:
        self._whole |= other._whole
        for module, names in other._names.items():
            self._names.setdefault(module, set()).update(names)

    def written(self) -> str:
        """As ruff sorts them: `__future__`, the standard library, then what is installed."""
        lines = [(name.split(" ")[0], f"import {name}") for name in sorted(self._whole, key=str.lower)]
        for module, names in sorted(self._names.items()):
            # ruff puts CONSTANTS before Classes before functions
            ordered = sorted(names, key=lambda name: (not name.isupper(), not name[:1].isupper(), name.lower()))
            lines.append((module, f"from {module} import {', '.join(ordered)}"))
        sections: list[Callable[[str], bool]] = [
            lambda top: top == "__future__",
            lambda top: top != "__future__" and top in sys.stdlib_module_names,
            lambda top: top not in sys.stdlib_module_names,
        ]
        blocks = ["\n".join(line for module, line in lines if holds(module.split(".")[0])) for holds in sections]
        return "\n\n".join(block for block in blocks if block)


def _named(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _typescript(text: str) -> str:
    lines: list[str] = []
    after_part = False
    for line in text.split("\n"):
        is_part = line.startswith("import ") and _FOLDER in line
        if (is_part and lines and lines[-1]) or (after_part and line):
            lines.append("")
        if is_part:
            part = _part(line.partition(_FOLDER)[2].partition(".ts")[0], ".ts")
            own = [line for line in part.split("\n") if not (line.startswith("import ") and _BESIDE in line)]
            lines += [one.removeprefix("export ") for one in "\n".join(own).strip("\n").split("\n")]
        else:
            lines.append(line)
        after_part = is_part
    return "\n".join(lines)
