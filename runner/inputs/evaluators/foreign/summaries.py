"""Functions of other tools that judge all rows together: known by their parameters, and by what they do with these."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from runner.core.errors import EvaluatorError
from runner.inputs.evaluators.foreign.module import ScriptModule
from runner.inputs.evaluators.python.signature import annotations_of, parameters

_LISTS = re.compile(r"(Optional\[|Annotated\[)?([\w.]+\.)?(list|List|Sequence|Iterable|Collection|tuple|Tuple)\b")
_TOGETHER = ("zip", "enumerate", "map")
_OF_OBJECTS = ("get", "items", "keys", "values")


def takes_lists(module: ScriptModule, entry: str, names: Collection[str]) -> bool:
    """
    Say whether a function takes these parameters as lists, one value for each row.

    Its annotations decide. Without them it is one that goes through them together or by number, and looks for no key.

    Raises:
        EvaluatorError: For one that only divides by their number: objects have one, too.
    """
    function = module.definition(entry)
    if function is None:
        return False
    if written := [kind for name, kind in annotations_of(function).items() if name in names]:
        return any(_LISTS.match(text) for text in written)
    known = {one.name for one in parameters(function.args) if one.name in names}
    nodes = list(ast.walk(function))
    one_each = {
        node.target.id
        for node in nodes
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
        and isinstance(node.target, ast.Name)
        and _names(node.iter, known)
    }
    if any(_is_object(node, known, one_each) for node in nodes):
        return False
    if any(_is_list(node, known) or _is_object(node, one_each, ()) for node in nodes):
        return True
    if divided := next(filter(None, (_divided(node, known) for node in nodes)), None):
        raise EvaluatorError(
            f"{module.where}:{function.lineno}: whether {entry} takes one row or all rows cannot be seen; write "
            f"`{divided}: dict` for one row, or `{divided}: list[dict]` for all"
        )
    return False


def _is_list(node: ast.AST, names: Collection[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=called), args=given) if called in _TOGETHER:
            return any(_names(one, names) for one in given)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[one])]):
            return _names(one, names)
        case ast.Subscript(value=value, slice=ast.Slice() | ast.Constant(value=int()) | ast.UnaryOp()):
            return _names(value, names)
    return False


def _divided(node: ast.AST, names: Collection[str]) -> str | None:
    match node:
        case ast.BinOp(op=ast.Div(), right=ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])) if (
            name in names
        ):
            return name
    return None


def _is_object(node: ast.AST, names: Collection[str], keys: Collection[str]) -> bool:
    match node:
        case ast.Subscript(value=value, slice=ast.Name(id=key)) if key in keys:
            return _names(value, names)
        case ast.Subscript(value=value, slice=ast.Constant(value=str())):
            return _names(value, names)
        case ast.Compare(left=ast.Name(id=key), ops=[ast.In() | ast.NotIn()], comparators=[value]) if key in keys:
            return _names(value, names)
        case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[value]):
            return _names(value, names)
        case ast.Attribute(value=value, attr=attribute):
            return attribute in _OF_OBJECTS and _names(value, names)
    return False


def _names(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names
