"""The modules in a script's folder that it imports, and those that they import."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from runner.inputs.evaluators.evaluator_files import ScriptFolder
from runner.inputs.evaluators.python.beside import NEVER, is_evaluator
from runner.inputs.evaluators.python.signature import expression, parse

_ANY = re.compile(r"\b(?:import|__import__|import_module)\b")
_CALLS = ("import_module", "__import__")
_COMPILED = (*importlib.machinery.EXTENSION_SUFFIXES, ".so", ".pyd", ".pyc")
_ENTRIES = 1000
"""Of a folder, to see whether a compiled module is in it."""


class ImportedModule(NamedTuple):
    """One import, as it is written."""

    level: int
    """The dots before the name."""
    module: str
    names: tuple[str, ...] = ()
    """What is imported from it."""


class PythonImports:
    """
    Takes what a script imports from its folder.

    Args:
        folder: Where it is taken from.
        stem: The name of the script's file, without its suffix.
        declared: The packages that it asks for, in their normal form: what they bring is not looked for here.
    """

    def __init__(self, folder: ScriptFolder, stem: str, declared: Collection[str]) -> None:
        self._folder, self._stem, self._declared = folder, stem, declared
        self.left: dict[str, str] = {}
        """Modules that are there and stay behind, by their names: compiled, or named as one of Python's own."""
        self._waiting: list[tuple[str, str]] = []
        self._names: set[str] | None = None
        self._many = False

    def follow(self, source: str) -> None:
        """Take what the script imports, what that imports, and so on. Raises EvaluatorError."""
        self._follow(source, "", f"{self._stem}.py")
        while self._waiting:
            name, text = self._waiting.pop()
            self._follow(text, name.rpartition("/")[0], name)

    def follow_taken(self) -> None:
        """Take what the modules import that the header names, as `follow` does."""
        self._waiting += [(name, text) for name, text in self._folder.files.items() if name.endswith(".py")]
        while self._waiting:
            name, text = self._waiting.pop()
            self._follow(text, name.rpartition("/")[0], name)

    def _follow(self, source: str, package: str, where: str) -> None:
        if not _ANY.search(source) or not self._may_name(source):
            return
        for found in imports(parse(source, where)):
            base = package.split("/") if package else []
            if found.level > len(base) + 1:
                self._folder.outside["." * found.level + found.module] = "../" * (found.level - len(base) - 1)
                continue
            own = base[: len(base) + 1 - found.level] if found.level else []
            parts = [*own, *filter(None, found.module.split("."))]
            if not found.level and self._is_other(parts[0], inside=where != f"{self._stem}.py" or bool(package)):
                continue
            if self._module(parts, relative=bool(found.level)):
                for name in found.names:
                    if name != "*":
                        self._module([*parts, name], relative=True)

    def _may_name(self, source: str) -> bool:
        """Whether something in the folder has a name that stands in the text: most scripts have nothing beside them."""
        if self._names is None:
            try:
                with os.scandir(self._folder.root) as entries:
                    every = [entry.name.partition(".")[0] for entry in islice(entries, _ENTRIES)]
            except OSError:
                every = []
            self._names = {*every} - {""}
            self._many = len(every) == _ENTRIES
        return self._many or "from ." in source or any(name in source for name in self._names)

    def _is_other(self, top: str, inside: bool) -> bool:
        """Whether a name certainly is no file of the script's."""
        file = self._folder.root / f"{top}.py"
        if top in sys.stdlib_module_names:
            if top != self._stem and os.path.isfile(file) and not is_evaluator(file):
                self.left[top] = f"{top}.py"
            return True
        if top == self._stem and (not inside or top == "evaluator"):
            return True
        if not (self._folder.has_folder(top) or os.path.lexists(file)):
            self._look_compiled(top)
            return True
        from sandboxes.packages import which_package  # here: few scripts have a file beside them

        package = which_package(top)
        if {name.lower().replace("_", "-") for name in (top, package)} & {*self._declared}:
            return True
        return bool(package) and is_evaluator(file)

    def _module(self, parts: Sequence[str], relative: bool) -> bool:
        """Take a module with the packages that it is in; return whether it is a package, or the folder itself."""
        for count in range(1, len(parts) + 1):
            place = "/".join(parts[:count])
            if self._take(f"{place}/__init__.py"):
                continue
            if self._take(f"{place}.py"):
                return False
            if not self._folder.has_folder(place):
                if count == 1 or relative:
                    self._look_compiled(place)
                return False
        return True

    def _take(self, name: str) -> bool:
        known = name in self._folder.files
        text = self._folder.take(name)
        if text is not None and not known:
            self._waiting.append((name, text))
        return text is not None

    def _look_compiled(self, place: str) -> None:
        """Note a compiled module, so that it can be told that it stays behind."""
        folder, _, name = place.rpartition("/")
        try:
            with os.scandir(self._folder.root / folder) as entries:
                for entry in islice(entries, _ENTRIES):
                    if entry.name.partition(".")[0] == name and entry.name.endswith(_COMPILED):
                        self.left[place.partition("/")[0]] = f"{folder}/{entry.name}" if folder else entry.name
                        return
        except OSError:
            return


def imports(tree: ast.Module) -> Iterator[ImportedModule]:
    """Yield the imports of a module, but those for types alone."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (ImportedModule(0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ImportedModule(node.level, node.module or "", tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Call) and _called(node.func) in _CALLS and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.strip("."):
                module = name.value.lstrip(".")
                yield ImportedModule(len(name.value) - len(module), module)
        inside = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.If) and NEVER.search(expression(node.test)):
            inside = list(node.orelse)
        waiting.extend(reversed(inside))


def _called(function: ast.expr) -> str:
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
