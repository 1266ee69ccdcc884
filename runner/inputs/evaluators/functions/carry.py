"""Collect the source of a function and of everything that it uses, by its live objects and their source."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from runner.core.errors import EvaluatorError
from runner.core.text import printable
from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.functions.modules import package_of
from runner.inputs.evaluators.functions.names import Names, names_of
from runner.inputs.evaluators.functions.places import (
    SourcePlace,
    binding,
    cells,
    class_definition,
    definition,
    place_of,
    span,
)
from runner.inputs.evaluators.functions.values import LargeLiteralError, NoLiteralError, literal, made_again

MAX_CONSTANT = 128 << 10
"""Characters of one constant as source."""
_WRITE = "write it into a file or a cell of its own"


@dataclass(frozen=True)
class SourcePiece:
    """A definition or statement that the script contains."""

    file: str
    line: int
    text: str


class Carrier:
    """
    The parts of the script of one function; `packages` are those that it imports.

    With `checked` False, modules that are not of the standard library are left to the caller's own packages.
    """

    def __init__(self, function: FunctionType, *, checked: bool) -> None:
        self.pieces: list[SourcePiece] = []
        self.imports: dict[str, None] = {}
        self.constants: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.packages: dict[str, None] = {}
        self._globals = function.__globals__
        self._checked = checked
        self._bound: dict[str, object] = {}
        self._done: set[object] = set()
        self._places: list[SourcePlace] | None = None
        self.home = self._place(function)
        self.name = self.function(function)
        if self.name != NAME and NAME in self._bound:
            raise EvaluatorError(f"`{self.name}` uses something else that is named `{NAME}`; give that another name")

    def function(self, function: FunctionType, name: str | None = None, *, bare: bool = False) -> str:
        """
        Add a function, and what it uses; return the name of its definition. A lambda is given the name.

        `bare`: the function is used without its decorators.
        """
        code = function.__code__
        place = self._place(function)
        node = definition(place, function)
        if isinstance(node, ast.Lambda):
            own = name or NAME
            user = "the lambda" if name is None else f"`{name}`"
        else:
            own, user = node.name, f"`{printable(node.name, 60)}`"
            if bare and node.decorator_list:
                raise EvaluatorError(
                    f"{user} was decorated by a function that does not tell what it decorates; "
                    "put @functools.wraps(function) above the inner function of the decorator"
                )
        if code in self._done:
            return own
        self._done.add(code)
        self._bind_self(own, function, user)
        try:
            names = names_of(node)
        except SyntaxError:
            raise EvaluatorError(
                f"{user} changes a variable of the function around it (nonlocal), which it would not have in a script; "
                "keep that variable inside of it"
            ) from None
        self._needs(names, self._globals, user, _closure(function))
        text = f"{own} = ({_segment(place, node)})\n" if isinstance(node, ast.Lambda) else place.text(node)
        self.pieces.append(SourcePiece(place.file, span(node)[0], text))
        return own

    def _place(self, function: FunctionType) -> SourcePlace:
        place = place_of(function.__code__, function.__globals__)
        if place is None:
            name = printable(function.__name__, 60)
            raise EvaluatorError(
                f"the source of the function `{name}` is not known, as of one typed at a prompt or below a magic "
                f"such as %%time; {_WRITE}"
            )
        return place

    @property
    def _sources(self) -> list[SourcePlace]:
        if self._places is None:
            self._places = [self.home, *cells(self._globals)]
        return self._places

    def _bind_self(self, name: str, function: object, user: str) -> None:
        known = self._bound.setdefault(name, function)
        if _inner(known) is not _inner(function):
            raise EvaluatorError(f"{user} and another of the same name are both needed; give one another name")

    def _needs(self, names: Names, scope: Mapping[str, Any], user: str, closure: Mapping[str, Any]) -> None:
        for module in names.imported:
            self._package(module, user)
        for name in names.used:
            if name == "__file__":
                raise EvaluatorError(
                    f"{user} uses `__file__`, and a sandbox does not have that file; give it the files that it needs: "
                    'sandbox=SandboxConfig(files={"DATA": "data.json"})'
                )
            if name.startswith("__") and name.endswith("__"):
                continue
            if name in closure:
                self._bind(name, closure[name], names.dotted, user, closed=True)
            elif name in scope:
                self._bind(name, scope[name], names.dotted, user)
            elif not hasattr(builtins, name):
                found = binding(self._sources, name)
                if found is not None and isinstance(found[1], ast.ImportFrom):
                    self._import_from(name, found[1], user)

    def _bind(self, name: str, value: Any, dotted: tuple[str, ...], user: str, *, closed: bool = False) -> None:
        if isinstance(value, ModuleType):
            self._module(name, value, dotted, user)
        if name in self._bound:
            known = self._bound[name]
            if _inner(known) is not _inner(value) and not self._same_data(name, value):
                raise EvaluatorError(f"{user} uses another `{name}` than a function beside it; give one another name")
            return
        self._bound[name] = value
        if isinstance(value, ModuleType):
            return
        try:
            self.constants[name] = self._constant(name, value)
            return
        except NoLiteralError:
            pass
        inner = _inner(value)
        if isinstance(inner, FunctionType) and inner.__globals__ is self._globals:
            del self._bound[name]
            own = self.function(inner, name, bare=closed and inner is value)
            if own != name:
                self.aliases[name] = own
            self._bound[name] = value
        elif isinstance(value, type) and value.__module__ == self._globals.get("__name__"):
            self._class(name, value, user)
        else:
            self._other(name, value, user)

    def _constant(self, name: str, value: object) -> str:
        try:
            return literal(value, MAX_CONSTANT)
        except LargeLiteralError:
            raise EvaluatorError(
                f"`{name}` is more than {MAX_CONSTANT >> 10} KB of data, too much for a script; save it to a file, and "
                f'read that in the script: sandbox=SandboxConfig(files={{"{name.upper()}": "data.json"}})'
            ) from None

    def _same_data(self, name: str, value: object) -> bool:
        try:
            return self.constants.get(name) == self._constant(name, value)
        except NoLiteralError:
            return False

    def _module(self, name: str, module: ModuleType, dotted: tuple[str, ...], user: str) -> None:
        real = module.__name__
        self._package(real, user)
        self.imports["import " + (real if real == name else f"{real} as {name}")] = None
        for chain in dotted:
            first, *rest = chain.split(".")
            # `import xml` alone does not give `xml.etree`.
            parts = [real, *rest] if first == name else []
            while len(parts) > 1 and ".".join(parts) not in sys.modules:
                parts.pop()
            if len(parts) > 1:
                self.imports[f"import {'.'.join(parts)}"] = None

    def _class(self, name: str, value: type, user: str) -> None:
        found = class_definition(self._sources, value.__name__)
        if found is None or "<locals>" in value.__qualname__:
            self._other(name, value, user)
            return
        if value in self._done:
            return
        self._done.add(value)
        place, node = found
        self._needs(names_of(node), self._globals, f"`{node.name}`", {})
        self.pieces.append(SourcePiece(place.file, span(node)[0], place.text(node)))
        if node.name != name:
            self.aliases[name] = node.name

    def _other(self, name: str, value: Any, user: str) -> None:
        found = binding(self._sources, name)
        if found is not None:
            place, node = found
            if isinstance(node, ast.ImportFrom):
                self._import_from(name, node, user)
                return
            if made_again(value):
                self._needs(names_of(node), self._globals, f"`{name}`", {})
                self.pieces.append(SourcePiece(place.file, span(node)[0], place.text(node)))
                return
        module, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
        if (
            isinstance(module, str)
            and own
            and getattr(sys.modules.get(module), own, None) is value
            and module != "__main__"
        ):
            self._package(module, user)
            self.imports[f"from {module} import {own}{'' if own == name else f' as {name}'}"] = None
            return
        kind = printable(type(value).__name__, 60)
        raise EvaluatorError(
            f"{user} uses `{name}`, a live object ({kind}) that cannot be carried into a sandbox; make it inside of "
            "the function, or make it plain data, such as a dict, a list or a string"
        )

    def _import_from(self, name: str, node: ast.ImportFrom, user: str) -> None:
        module = "." * node.level + (node.module or "")
        self._package(module, user)
        own = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
        self.imports[f"from {module} import {own}{'' if own == name else f' as {name}'}"] = None

    def _package(self, module: str, user: str) -> None:
        if module == "__future__" or not self._checked:
            return
        package = package_of(module, user)
        if package is not None:
            self.packages[package] = None


def _inner(value: Any) -> Any:
    """The function below decorators that tell what they decorate."""
    try:
        return inspect.unwrap(value) if hasattr(value, "__wrapped__") else value
    except Exception:
        return value


def _closure(function: FunctionType) -> dict[str, Any]:
    """The values of the variables of functions around it."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # not set yet
    return found


def _segment(place: SourcePlace, node: ast.Lambda) -> str:
    return ast.get_source_segment("".join(place.lines), node) or ast.unparse(node)
