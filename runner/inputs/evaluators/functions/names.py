"""The global names and the modules that a piece of Python source uses."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Names:
    """What a definition or a statement needs from around it."""

    used: tuple[str, ...]
    """Names that it does not define, in alphabetical order; builtins are among them."""
    dotted: tuple[str, ...]
    """The dotted names that begin with one of these: `xml.etree.ElementTree.fromstring`."""
    imported: tuple[str, ...]
    """The modules that it imports itself; a relative one begins with a dot."""


def names_of(node: ast.AST) -> Names:
    """
    Return the names that a function, class, lambda or statement uses.

    The annotations of a plain function are left out: a script's annotations are not evaluated.
    """
    plain = _Unannotated().visit(ast.parse(ast.unparse(node)))
    used = set(_free(symtable.symtable(ast.unparse(plain), "<function>", "exec")))
    if isinstance(node, Function | ast.ClassDef):
        used.discard(node.name)
    dotted = {chain for inner in ast.walk(plain) if (chain := _chain(inner)) and chain.split(".")[0] in used}
    imported = {module for inner in ast.walk(plain) for module in _modules(inner)}
    return Names(tuple(sorted(used)), tuple(sorted(dotted)), tuple(sorted(imported)))


class _Unannotated(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: Function) -> ast.AST:
        self.generic_visit(node)
        # A decorator may look at the annotations.
        if not node.decorator_list:
            node.returns = None
            arguments = node.args
            for arg in (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                arguments.vararg,
                arguments.kwarg,
            ):
                if arg is not None:
                    arg.annotation = None
        node.body = [_unannotated(statement) for statement in node.body]
        return node


def _unannotated(statement: ast.stmt) -> ast.stmt:
    """The annotation of a local variable is never evaluated."""
    if not isinstance(statement, ast.AnnAssign):
        return statement
    if statement.value is None:
        return ast.copy_location(ast.Pass(), statement)
    return ast.copy_location(ast.Assign(targets=[statement.target], value=statement.value), statement)


def _free(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        own = symbol.is_assigned() or symbol.is_imported() if top else not symbol.is_global()
        if not own:
            yield symbol.get_name()
    for child in table.get_children():
        yield from _free(child)


def _chain(node: ast.AST) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if parts and isinstance(node, ast.Name) else None


def _modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield "." * node.level + (node.module or "")
