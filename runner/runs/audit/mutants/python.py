"""Mutants of a Python script. Only the changed expression is written anew, so that lines and comments stay."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import cast

from runner.runs.audit.mutants.types import ARITHMETIC, COMPARISONS, RESULT_KEYS, Edit, shorten

_SIGNS: Mapping[type[ast.AST], str] = {
    **{ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in"},
    **{ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Add: "+", ast.Sub: "-", ast.Mult: "*"},
    **{ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|"},
    **{ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>"},
}
_CLASSES = {sign: kind for kind, sign in _SIGNS.items()}
_CLEANERS = frozenset(
    ("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "replace", "removeprefix", "removesuffix", "title")
)
"""Methods whose result is like what they are called of: `text.strip()` is `text`."""
_WRAPPERS = frozenset(("abs", "sorted", "round", "set", "reversed"))
"""Functions whose result is like their argument."""
_OTHERS: Mapping[str, str] = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ANCHORS = re.compile(r"\A(?:\^|\\A)|(?:\$|\\Z)\Z")


def python_edits(source: str) -> Iterator[Edit]:
    """Yield each change of a script. Raises SyntaxError, ValueError and RecursionError for what is no Python."""
    tree = ast.parse(source)
    yield from _Reader(source, tree).statements(tree.body)


class _Reader:
    def __init__(self, source: str, tree: ast.Module) -> None:
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}

    def _edit(self, node: ast.expr | ast.stmt, text: str, change: str) -> Edit:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return Edit(start, self._starts[node.end_lineno - 1] + node.end_col_offset, text, change)

    def statements(self, body: list[ast.stmt]) -> Iterator[Edit]:
        for number, node in enumerate(body):
            docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not docstring:
                yield from self._walk(node)

    def _walk(self, node: ast.AST) -> Iterator[Edit]:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return  # what an error says is judged by nobody, and Python 3.11 misplaces parts of an f-string
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return
        yield from self._changes(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                yield from self.statements(value)
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not self._skips(node, child):
                    yield from self._walk(child)

    @staticmethod
    def _skips(node: ast.AST, child: ast.AST) -> bool:
        if isinstance(node, ast.keyword):
            return node.arg == "explanation"
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name = key.value if isinstance(key, ast.Constant) else None
                if name in RESULT_KEYS and (child is key or (child is value and name == "explanation")):
                    return True
        return False

    def _changes(self, node: ast.AST) -> Iterator[Edit]:
        if isinstance(node, ast.Compare):
            yield from self._comparisons(node)
        elif isinstance(node, ast.BoolOp):
            other: type[ast.boolop] = ast.Or if isinstance(node.op, ast.And) else ast.And
            words = "and -> or" if isinstance(node.op, ast.And) else "or -> and"
            yield self._edit(node, f"({ast.unparse(ast.BoolOp(other(), node.values))})", words)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            sign = "not" if isinstance(node.op, ast.Not) else "-"
            yield self._edit(node, f"({ast.unparse(node.operand)})", f"{sign} removed")
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            yield from self._arithmetic(node)
        elif isinstance(node, ast.Constant):
            yield from self._constants(node)
        elif isinstance(node, ast.Call):
            yield from self._calls(node)
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            for value in ("False",) if isinstance(node, ast.While) else ("True", "False"):
                yield self._edit(node.test, value, f"{shorten(ast.unparse(node.test))} -> {value}")
        elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
            yield self._edit(node.value, "None", "the returned value -> None")
        elif isinstance(node, ast.Break):
            yield self._edit(node, "continue", "break -> continue")
        elif isinstance(node, ast.Continue):
            yield self._edit(node, "break", "continue -> break")

    def _comparisons(self, node: ast.Compare) -> Iterator[Edit]:
        for at, op in enumerate(node.ops):
            sign = _SIGNS[type(op)]
            ops = [*node.ops]
            ops[at] = cast(ast.cmpop, _CLASSES[COMPARISONS[sign]]())
            text = ast.unparse(ast.Compare(node.left, ops, node.comparators))
            yield self._edit(node, f"({text})", f"{sign} -> {COMPARISONS[sign]}")

    def _arithmetic(self, node: ast.BinOp | ast.AugAssign) -> Iterator[Edit]:
        sign = _SIGNS.get(type(node.op), "")
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
        texts = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in sides)
        if texts or (other := ARITHMETIC.get(sign)) is None:
            return
        kind = cast(ast.operator, _CLASSES[other]())
        if isinstance(node, ast.BinOp):
            yield self._edit(node, f"({ast.unparse(ast.BinOp(node.left, kind, node.right))})", f"{sign} -> {other}")
        else:
            text = ast.unparse(ast.AugAssign(node.target, kind, node.value))
            yield self._edit(node, text, f"{sign}= -> {other}=")

    def _constants(self, node: ast.Constant) -> Iterator[Edit]:
        value = node.value
        if isinstance(value, bool):
            yield self._edit(node, str(not value), f"{value} -> {not value}")
        elif isinstance(value, int | float) and abs(value) < 1e15:
            other = value + 1
            yield self._edit(node, repr(other), f"{value} -> {other:.10g}")
        elif isinstance(value, str) and value:
            yield self._edit(node, '""', f"{shorten(repr(value))} -> ''")
            if _ANCHORS.search(value) and len(value) > 2:
                free = _ANCHORS.sub("", value)
                yield self._edit(node, repr(free), f"{shorten(repr(value))} -> {shorten(repr(free))}")

    def _calls(self, node: ast.Call) -> Iterator[Edit]:
        called, arguments = node.func, node.args
        if isinstance(called, ast.Attribute):
            if called.attr in _CLEANERS and not (called.attr == "replace" and node.keywords):
                yield self._edit(node, f"({ast.unparse(called.value)})", f".{called.attr}() removed")
            elif called.attr == "fullmatch":
                text = ast.unparse(ast.Call(ast.Attribute(called.value, "search"), arguments, node.keywords))
                yield self._edit(node, text, "fullmatch -> search")
        elif isinstance(called, ast.Name):
            if called.id in _OTHERS:
                yield self._edit(called, _OTHERS[called.id], f"{called.id} -> {_OTHERS[called.id]}")
            elif called.id in _WRAPPERS and arguments and not isinstance(arguments[0], ast.Starred):
                whole = isinstance(arguments[0], ast.GeneratorExp)
                text = f"list({ast.unparse(arguments[0])})" if whole else f"({ast.unparse(arguments[0])})"
                yield self._edit(node, text, f"{called.id}() removed")
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if name in self._own and len(arguments) == 2 and ast.dump(arguments[0]) != ast.dump(arguments[1]):
            swapped = ast.Call(called, [arguments[1], arguments[0]], node.keywords)
            yield self._edit(node, ast.unparse(swapped), f"the arguments of {name} swapped")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
