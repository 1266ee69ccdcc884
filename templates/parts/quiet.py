"""Whether code surely leaves nothing in the interpreter that other code would meet there: read, not run."""

from __future__ import annotations

import _ast
import sys

# What is read has been run: it may have changed these, and `ast`.
from builtins import all, any, compile, getattr, id, set
from importlib import import_module
from types import ModuleType
from typing import Any

PURE = {
    *("bisect", "cmath", "collections", "copy", "datetime", "functools", "hashlib", "heapq", "itertools", "json"),
    *("math", "operator", "pytest", "random", "re", "statistics", "string", "typing"),
}
"""Modules whose functions change nothing but their arguments, or what is seeded for each row."""
_STANDARD = sys.stdlib_module_names
_PRIVATE = ("_", "f_", "tb_", "gi_", "cr_", "ag_")
"""How the attributes begin that lead to frames, modules and classes."""
_STRONG = {
    *("__builtins__", "__import__", "__loader__", "__spec__", "breakpoint", "compile", "copyright", "credits"),
    *("delattr", "eval", "exec", "exit", "getattr", "globals", "help", "input", "license", "locals"),
    *("memoryview", "open", "quit", "setattr", "type", "vars"),
}
"""Built-in names that reach further than what they are given."""
_CHANGES = {
    *("addClassCleanup", "addModuleCleanup", "attrgetter", "evaluate_forward_ref", "ForwardRef", "Formatter"),
    *("get_type_hints", "logger", "methodcaller", "obj", "register", "setstate", "total_ordering"),
    *("update_wrapper", "wraps"),
}
"""What changes something that others share, or finds what a text names, or a module as the `obj` of an error."""
_ORDINARY = {
    f"__{name}__"
    for name in (
        *("init", "post_init", "repr", "str", "format", "name", "hash", "eq", "ne", "lt", "le", "gt", "ge", "bool"),
        *("len", "iter", "next", "reversed", "contains", "getitem", "setitem", "delitem", "missing", "call"),
        *("enter", "exit", "int", "float", "index", "round", "abs", "neg", "pos", "invert", "add", "radd", "iadd"),
        *("sub", "rsub", "isub", "mul", "rmul", "imul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"),
        *("and", "or", "xor", "lshift", "rshift"),
    )
}
"""What a class may define: by others, such as `__reduce__`, a library is made to change what they name."""


def leaves_nothing(text: str, program: str, prompt: str = "") -> bool:
    """
    Whether the text is so plain that nothing of it can stay behind; `program` is a module that stands for nothing else.

    It is where the text defines and calls functions, and changes what it made itself. An attribute that it sets might
    be one of a class or a module that all share. The text may use what the prompt defines.
    """
    trees = []
    for part in (text, prompt):
        try:
            trees.append(compile(part, "tests.py", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True))
        except (SyntaxError, ValueError):
            pass  # it cannot be run either
        except (RecursionError, MemoryError):
            return False
    return _Reader(program).reads([node for tree in trees for node in _nodes(tree)])


def _nodes(tree: Any) -> list[Any]:
    """All of a tree. `ast.walk` is what the text might have changed."""
    found = [tree]
    for node in found:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, _ast.AST)]
            elif isinstance(value, _ast.AST):
                found.append(value)
    return found


class _Reader:
    def __init__(self, program: str) -> None:
        self._program = program
        self._modules: dict[str, set[str]] = {}
        """The modules that are imported, by the names that they have anywhere."""

    def reads(self, nodes: list[Any]) -> bool:
        """Whether each part of it is plain."""
        if not all(self._imports(node) for node in nodes if isinstance(node, _ast.Import | _ast.ImportFrom)):
            return False
        inside = {id(node.value) for node in nodes if isinstance(node, _ast.Attribute)}
        bases = {id(part) for node in nodes if isinstance(node, _ast.ClassDef) for base in node.bases
                 for part in _nodes(base)}  # fmt: skip
        own = _own_attributes(nodes)
        given = _parameters(nodes)
        return all(_is_named(node) and self._plain(node, inside, bases, own, given) for node in nodes)

    def _imports(self, node: _ast.Import | _ast.ImportFrom) -> bool:
        if isinstance(node, _ast.Import):
            for one in node.names:
                self._modules.setdefault(one.asname or one.name, set()).add(one.name)
            return all(one.name in {*PURE, "unittest", self._program} for one in node.names)
        if node.module == self._program and not node.level:
            return True
        if node.module == "unittest":
            return all((one.name, one.asname) == ("TestCase", None) for one in node.names)
        return node.module in PURE and not node.level and all(_harmless(node.module, one.name) for one in node.names)

    def _plain(self, node: _ast.AST, inside: set[int], bases: set[int], own: set[int], given: set[int]) -> bool:
        if isinstance(node, _ast.Attribute):
            return self._attribute(node, id(node) in bases, id(node) in own)
        if isinstance(node, _ast.Name):
            if node.id in self._modules or (node.id in _STANDARD and id(node) not in given):
                # A module's own names only, for where the module itself goes nobody can see.
                return isinstance(node.ctx, _ast.Load) and id(node) in inside
            return node.id not in _STRONG and (node.id != "TestCase" or id(node) in bases)
        if isinstance(node, _ast.ClassDef):
            return not node.keywords  # a metaclass
        if isinstance(node, _ast.MatchClass):  # it reads attributes
            return not node.patterns and not node.kwd_patterns
        return not isinstance(node, _ast.Await | _ast.AsyncFor | _ast.AsyncWith | _ast.AsyncFunctionDef)

    def _attribute(self, node: _ast.Attribute, is_base: bool, is_own: bool) -> bool:
        if not isinstance(node.ctx, _ast.Load):
            return is_own and not node.attr.startswith("__")
        if node.attr.startswith(_PRIVATE) and not (is_own and not node.attr.startswith("__")):
            return False
        if node.attr in _CHANGES:
            return False
        if isinstance(node.value, _ast.Name):
            name = node.value.id
            modules = self._modules.get(name) or ({name} if name in _STANDARD else set())
            return all(self._gives(module, node.attr, is_base) for module in modules)
        return True

    def _gives(self, module: str, name: str, is_base: bool) -> bool:
        if module == "unittest":
            return is_base and name == "TestCase"
        return module == self._program or (module in PURE and _harmless(module, name))


_NAMELESS = (_ast.expr, _ast.expr_context, _ast.operator, _ast.cmpop)


def _is_named(node: Any) -> bool:
    """Whether what it defines or uses has no name that Python itself asks for, but for the ordinary ones."""
    if isinstance(node, _ast.Name):
        return not node.id.startswith("__") or node.id in _ORDINARY
    if isinstance(node, _NAMELESS):
        return True
    names = [getattr(node, field, None) for field in ("name", "asname", "arg", "rest")]
    return not any(isinstance(one, str) and one.startswith("__") and one not in _ORDINARY for one in names)


def _parameters(nodes: list[_ast.AST]) -> set[int]:
    """The names that are a function's parameters: one may be called `string`, and is no module then."""
    found: set[int] = set()
    common = {name for node in nodes if isinstance(node, _ast.Global) for name in node.names}
    for node in nodes:
        if isinstance(node, _ast.FunctionDef | _ast.Lambda):
            names = {one.arg for one in _nodes(node.args) if isinstance(one, _ast.arg)} - common
            for part in node.body if isinstance(node.body, list) else [node.body]:
                found |= {id(one) for one in _nodes(part) if isinstance(one, _ast.Name) and one.id in names}
    return found


def _own_attributes(nodes: list[_ast.AST]) -> set[int]:
    """The attributes that methods set on `self`, where that can be nothing but an object of the code's own class."""
    made = {id(node.func) for node in nodes if isinstance(node, _ast.Call)}
    loose = {node.id for node in nodes if isinstance(node, _ast.Name) and id(node) not in made}
    # What a handler, a pattern, an import or a definition binds; these are no names of the tree.
    rebound = {getattr(node, part, None) for node in nodes for part in ("name", "asname", "rest")}
    named = {node.id for node in nodes if isinstance(node, _ast.Name)}
    inner = {node.attr for node in nodes if isinstance(node, _ast.Attribute)}
    found: set[int] = set()
    if "classmethod" in named:  # its class has methods for any object
        return found
    for kind in nodes:
        # Elsewhere than in `Kind(…)` its methods could be called for another object.
        if not isinstance(kind, _ast.ClassDef) or kind.name in loose | inner or kind.decorator_list:
            continue
        for method in kind.body:
            if not isinstance(method, _ast.FunctionDef) or method.decorator_list or not method.args.args:
                continue
            if method.name not in named:  # as a name it is no method, but a function
                found |= _of_self(method, method.args.args[0].arg, rebound)
    return found


def _of_self(method: _ast.FunctionDef, name: str, rebound: set[Any]) -> set[int]:
    parts = [one for statement in method.body for one in _nodes(statement)]
    inner = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.Lambda, _ast.ClassDef, _ast.Global, _ast.Nonlocal)
    if name in rebound or any(isinstance(one, inner) for one in parts):
        return set()
    if any(isinstance(one, _ast.Name) and one.id == name and not isinstance(one.ctx, _ast.Load) for one in parts):
        return set()
    return {
        id(one)
        for one in parts
        if isinstance(one, _ast.Attribute) and isinstance(one.value, _ast.Name) and one.value.id == name
    }


def _harmless(module: str, name: str) -> bool:
    """Whether this is a function, a class or a constant of the module, and nothing that can be filled."""
    if name.startswith("_") or name == "*" or name in _CHANGES:
        return False
    if module == "pytest":  # ours, made anew for each row
        return True
    found = getattr(import_module(module), name, None)
    return not isinstance(found, ModuleType | dict | list | set)
