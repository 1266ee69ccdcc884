"""Where a row's own value is in what a Python function returns that takes lists of all rows."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from runner.inputs.evaluators.foreign.module import ScriptModule
from runner.inputs.evaluators.python.signature import expression

_KEEP = {*("zip", "list", "tuple", "map", "enumerate", "tqdm", "range", "len", "sorted", "array", "asarray", "tensor")}
_KEEP |= {"stack", "FloatTensor", "Tensor", "tolist", "copy", "items", "values", "filter"}
"""What is called with lists, and gives as many values."""


def place_of_rows(module: ScriptModule, entry: str, names: Collection[str]) -> str:
    """
    Return where a function of lists has a row's value in what it returns: `[0]` where it returns one for each.

    `[1][0]` where such a list stands beside other values, and nothing where it returns none.
    """
    function = module.definition(entry)
    if function is None or isinstance(function, ast.Lambda):
        value = None if function is None else function.body
        return "[0]" if value is not None and _is_each(value, {*names}) else ""
    each = {*names}
    nodes = [*ast.walk(function)]
    for _ in range(3):  # what is made of what is made
        for node in nodes:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    if _is_each(value, each):
                        each.add(name)
                case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Call(func=ast.Name(id="zip"))):
                    each |= {one.id for one in parts if isinstance(one, ast.Name)}
                case ast.For(iter=over, body=body) if _is_each(over, each):
                    each |= _appended(body)
    for node in nodes:
        match node:
            case ast.Return(value=ast.Tuple(elts=parts)):
                at = [at for at, one in enumerate(parts) if _is_each(one, each) and expression(one) not in names]
                if len(at) == 1:
                    return f"[{at[0]}][0]"
            case ast.Return(value=ast.expr() as value) if _is_each(value, each) and expression(value) not in names:
                return "[0]"
    return ""


def _is_each(node: ast.expr, each: Collection[str]) -> bool:
    """Whether an expression has a value for each of what these names hold."""
    match node:
        case ast.Name(id=name):
            return name in each
        case ast.ListComp(generators=[one]) | ast.GeneratorExp(generators=[one]):
            return not one.ifs and _is_each(one.iter, each)
        case ast.Call(func=func, args=args):
            last = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
            owner = [func.value] if isinstance(func, ast.Attribute) and not args else []
            return last in _KEEP and any(_is_each(one, each) for one in (*args, *owner))
        case ast.BinOp(left=left, right=right):
            return isinstance(node.op, ast.Mult) and isinstance(left, ast.List) and _is_each(right, each)
    return False


def _appended(body: Sequence[ast.stmt]) -> set[str]:
    """The lists to which each turn of a loop adds a value, and not those of a loop in it."""
    found: set[str] = set()
    left: list[ast.AST] = [*body]
    while left:
        node = left.pop()
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")):
                found.add(name)
            case ast.For() | ast.While() | ast.FunctionDef() | ast.comprehension():
                continue
        left += ast.iter_child_nodes(node)
    return found
