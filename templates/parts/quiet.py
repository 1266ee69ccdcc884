"""Whether code surely leaves nothing in the interpreter that other code would meet there: read, not run."""

from __future__ import annotations

import ast
import importlib
import sys
from types import ModuleType
from typing import Any

PURE = {
    *("bisect", "cmath", "collections", "copy", "datetime", "functools", "hashlib", "heapq", "itertools", "json"),
    *("math", "operator", "pytest", "random", "re", "statistics", "string", "typing"),
}
"""Modules whose functions change nothing but their arguments, or what is seeded for each row."""
_PRIVATE = ("_", "f_", "tb_", "gi_", "cr_", "ag_")
"""How the attributes begin that lead to frames, modules and classes."""
_STRONG = {
    *("__builtins__", "__import__", "__loader__", "__spec__", "breakpoint", "compile", "copyright", "credits"),
    *(
        "delattr",
        "eval",
        "exec",
        "exit",
        "getattr",
        "globals",
        "help",
        "input",
        "license",
        "locals",
        "memoryview",
        "open",
        "quit",
    ),
    *("setattr", "type", "vars"),
}
"""Built-in names that reach further than what they are given."""
_CHANGES = {
    *("addClassCleanup", "addModuleCleanup", "attrgetter", "evaluate_forward_ref", "ForwardRef", "Formatter"),
    *("get_type_hints", "methodcaller", "register", "setstate", "total_ordering", "update_wrapper", "wraps"),
}
"""What changes something that others share, or finds what a text names."""


def leaves_nothing(text: str, program: str) -> bool:
    """
    Whether the text is so plain that nothing of it can stay behind; `program` is a module that stands for nothing else.

    It is where the text defines and calls functions, and changes what it made itself. An attribute that it sets might
    be one of a class or a module that all share.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # it cannot be run either
    try:
        return _Reader(program).reads(tree)
    except RecursionError:
        return False


class _Reader:
    def __init__(self, program: str) -> None:
        self._program = program
        self._modules: dict[str, str] = {}
        """The modules that are imported, by the names that they have there."""

    def reads(self, tree: ast.AST) -> bool:
        """Whether each part of it is plain."""
        nodes = list(ast.walk(tree))
        if not all(self._imports(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)):
            return False
        inside = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        bases = {id(part) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases
                 for part in ast.walk(base)}  # fmt: skip
        own = _own_attributes(nodes)
        given = _parameters(nodes)
        return all(self._plain(node, inside, bases, own, given) for node in nodes)

    def _imports(self, node: ast.Import | ast.ImportFrom) -> bool:
        if isinstance(node, ast.Import):
            for one in node.names:
                self._modules[one.asname or one.name] = one.name
            return all(one.name in {*PURE, "unittest", self._program} for one in node.names)
        if node.module == self._program and not node.level:
            return True
        if node.module == "unittest":
            return all((one.name, one.asname) == ("TestCase", None) for one in node.names)
        return node.module in PURE and not node.level and all(_harmless(node.module, one.name) for one in node.names)

    def _plain(self, node: ast.AST, inside: set[int], bases: set[int], own: set[int], given: set[int]) -> bool:
        if isinstance(node, ast.Attribute):
            return self._attribute(node, id(node) in bases, id(node) in own)
        if isinstance(node, ast.Name):
            if node.id in self._modules or (node.id in sys.stdlib_module_names and id(node) not in given):
                # A module's own names only, for where the module itself goes nobody can see.
                return isinstance(node.ctx, ast.Load) and id(node) in inside
            return node.id not in _STRONG and (node.id != "TestCase" or id(node) in bases)
        if isinstance(node, ast.ClassDef):
            return not node.keywords  # a metaclass
        return not isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.AsyncFunctionDef)

    def _attribute(self, node: ast.Attribute, is_base: bool, is_own: bool) -> bool:
        if not isinstance(node.ctx, ast.Load):
            return is_own and not node.attr.startswith("__")
        if node.attr.startswith(_PRIVATE) and not (is_own and not node.attr.startswith("__")):
            return False
        if node.attr in _CHANGES:
            return False
        if isinstance(node.value, ast.Name):
            name = node.value.id
            module = self._modules.get(name, name if name in sys.stdlib_module_names else "")
            if module == "unittest":
                return is_base and node.attr == "TestCase"
            return not module or module == self._program or (module in PURE and _harmless(module, node.attr))
        return True


def _parameters(nodes: list[ast.AST]) -> set[int]:
    """The names that are a function's parameters: one may be called `string`, and is no module then."""
    found: set[int] = set()
    common = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            names = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)} - common
            for part in node.body if isinstance(node.body, list) else [node.body]:
                found |= {id(one) for one in ast.walk(part) if isinstance(one, ast.Name) and one.id in names}
    return found


def _own_attributes(nodes: list[ast.AST]) -> set[int]:
    """The attributes that methods set on `self`, where that can be nothing but an object of the code's own class."""
    made = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    loose = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in made}
    # What a handler, a pattern, an import or a definition binds; these are no names of the tree.
    rebound = {getattr(node, part, None) for node in nodes for part in ("name", "asname", "rest")}
    found: set[int] = set()
    for kind in nodes:
        # Elsewhere than in `Kind(…)` its methods could be called for another object.
        if not isinstance(kind, ast.ClassDef) or kind.name in loose or kind.decorator_list:
            continue
        for method in kind.body:
            if isinstance(method, ast.FunctionDef) and not method.decorator_list and method.args.args:
                found |= _of_self(method, method.args.args[0].arg, rebound)
    return found


def _of_self(method: ast.FunctionDef, name: str, rebound: set[Any]) -> set[int]:
    parts = [one for statement in method.body for one in ast.walk(statement)]
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Global, ast.Nonlocal)
    if name in rebound or any(isinstance(one, inner) for one in parts):
        return set()
    if any(isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load) for one in parts):
        return set()
    return {
        id(one)
        for one in parts
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == name
    }


def _harmless(module: str, name: str) -> bool:
    """Whether this is a function, a class or a constant of the module, and nothing that can be filled."""
    if name.startswith("_") or name == "*" or name in _CHANGES:
        return False
    if module == "pytest":  # ours, made anew for each row
        return True
    found = getattr(importlib.import_module(module), name, None)
    return not isinstance(found, ModuleType | dict | list | set)
