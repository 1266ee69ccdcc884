"""What a Python script itself reads as JSON: then a column of such texts is what it wants."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from runner.inputs.evaluators.python.signature import CallableNode, parse

_READS = re.compile(r"\b(?:loads|literal_eval|safe_load)\b")


@lru_cache(8)
def own_json(source: str, where: str) -> frozenset[str]:
    """Return the names and keys that it reads so, in itself or in a function that does so with what it gets."""
    if not _READS.search(source):
        return frozenset()
    nodes = list(ast.walk(parse(source, where)))
    readers = {"loads", "literal_eval", "safe_load"}
    for node in nodes:
        if isinstance(node, CallableNode) and (name := getattr(node, "name", "")):
            own = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
            if any(_words(call) & own for call in ast.walk(node) if _is_read(call, readers)):
                readers.add(name)
    found = {word for node in nodes if _is_read(node, readers) for word in _words(node)}
    for node in (*nodes, *nodes):  # a name may be given to what has one
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id in found for one in node.targets):
            found |= _words(node.value)
    return frozenset(found)


def _is_read(node: ast.AST, readers: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in readers


def _words(node: ast.AST) -> set[str]:
    """The names and texts in an expression."""
    parts = [*node.args, *(one.value for one in node.keywords)] if isinstance(node, ast.Call) else [node]
    inner = [one for part in parts for one in ast.walk(part)]
    names = {one.id for one in inner if isinstance(one, ast.Name)}
    return names | {one.value for one in inner if isinstance(one, ast.Constant) and isinstance(one.value, str)}
