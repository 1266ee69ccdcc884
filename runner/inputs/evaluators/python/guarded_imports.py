"""Imports without which a script goes on: `try: import x` and `except ImportError: HAS_X = False`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runner.core.text import list_names
from runner.core.types import Evaluator
from runner.inputs.evaluators.evaluator_files import own_modules
from runner.inputs.evaluators.python.signature import expression, own_nodes, parse, reach
from runner.inputs.evaluators.requirements import package_name
from sandboxes.words.hints import declare, unknown

_MISSING = ("ImportError", "ModuleNotFoundError")
_ANY = ("Exception", "BaseException", "")
_FINDS = ("find_spec", "is_package_available", "_is_package_available")


class GuardedImport(NamedTuple):
    """A module without which a script goes on."""

    module: str
    line: int
    """Where it goes on without."""
    names: frozenset[str]
    """What tells the script that it is not there."""
    handler: tuple[ast.stmt, ...] = ()
    """What runs in its place."""


def guarded_imports(tree: ast.Module) -> Iterator[GuardedImport]:
    """Yield the modules that a script does without; one in whose place it imports another is none."""
    for node in ast.walk(tree):
        match node:
            case ast.Try(body=body, handlers=handlers):
                names = {alias.asname or alias.name for one in _imports(body) for alias in one.names}
                for handler in handlers:
                    if not _catches(handler) or any(_imports(handler.body)):
                        continue
                    own = frozenset(names | {*_assigned(body), *_assigned(handler.body)})
                    for module in dict.fromkeys(module for one in _imports(body) for module in _modules(one)):
                        yield GuardedImport(module, handler.lineno, own, tuple(handler.body))
            case ast.Assign(value=value):
                for inner in ast.walk(value):
                    match inner:
                        case ast.Call(func=func, args=[ast.Constant(value=str(module)), *_]) if expression(
                            func
                        ).rpartition(".")[2] in _FINDS and _is_foreign(module):
                            yield GuardedImport(module, node.lineno, frozenset(_assigned([node])))


def missing_guarded(evaluator: Evaluator, packages: Sequence[str]) -> Iterator[tuple[GuardedImport, str]]:
    """Yield those that neither the packages nor the script's folder have, each with the package that brings it."""
    if "import" not in evaluator.source or not any(one in evaluator.source for one in ("except", *_FINDS)):
        return
    there = {*map(package_name, packages)}
    beside = {*own_modules(evaluator.files), *evaluator.beside}
    tree = parse(evaluator.source, evaluator.name)
    for one in guarded_imports(tree):
        from sandboxes.packages import which_package  # here: few scripts do without a module

        top = one.module.partition(".")[0]
        package = which_package(one.module)
        names = {package_name(name) for name in (top, package)}
        if top not in beside and not names & there and is_asked(tree, one):
            yield one, package


def guarded_notes(evaluator: Evaluator, packages: Sequence[str]) -> list[str]:
    """Note a module that is not there, and without which the functions that score a row go on: scores may differ."""
    if evaluator.language != "python" or evaluator.is_inline:
        return []
    missing = [*missing_guarded(evaluator, packages)]
    if not missing:
        return []
    nodes = reach(parse(evaluator.source, evaluator.name).body, evaluator.entry or evaluator.called)
    reached = [inner for node in nodes for inner in ast.walk(node)]
    read = {one.id for one in reached if isinstance(one, ast.Name)}
    brought = {one for node in reached if isinstance(node, ast.Import | ast.ImportFrom) for one in _modules(node)}
    found = {one.module: (one, package) for one, package in missing if one.names & read or one.module in brought}
    if not found:
        return []
    names = list_names(dict.fromkeys(name.partition(".")[0] for name in found), 4)
    asked = [*dict.fromkeys((*packages, *(package for _, package in found.values() if package)))]
    step = declare(asked) if len(asked) > len(packages) else unknown([next(iter(found)).partition(".")[0]])
    line = next(iter(found.values()))[0].line
    return [f"{names} is not installed, and the script goes on without, by line {line}, so scores may differ: {step}"]


def is_asked(tree: ast.Module, one: GuardedImport) -> bool:
    """Say whether the script does something else where the module is not there: it asks, or returns, or raises."""
    ends = any(isinstance(inner, ast.Return | ast.Raise) for inner in own_nodes(one.handler))
    return ends or any(True for _ in branches(tree, one))


def branches(tree: ast.Module, one: GuardedImport) -> Iterator[ast.If | ast.IfExp]:
    """Yield where the script asks whether the module is there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and any(
            (isinstance(inner, ast.Name) and inner.id in one.names)
            or (isinstance(inner, ast.Attribute) and inner.attr in one.names)
            for inner in ast.walk(node.test)
        ):
            yield node


def _imports(body: list[ast.stmt]) -> list[ast.Import | ast.ImportFrom]:
    return [one for one in own_nodes(body) if isinstance(one, ast.Import | ast.ImportFrom)]


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif node.level or not node.module:
        return []
    else:
        found = [node.module if "." in node.module else f"{node.module}.{alias.name}" for alias in node.names]
    return [one for one in found if _is_foreign(one)]


def _is_foreign(module: str) -> bool:
    return module.partition(".")[0] not in sys.stdlib_module_names


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler hides that a module is not there."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [expression(kind) if kind is not None else "" for kind in kinds]
    if any(name in _MISSING for name in names):
        return True
    return any(name in _ANY for name in names)


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    for node in own_nodes(body):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name | ast.Attribute):
                    yield target.id if isinstance(target, ast.Name) else target.attr
