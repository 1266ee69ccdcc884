"""Names that a script uses and defines nowhere, where its own `except` would make a score of that."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from runner.core.errors import EvaluatorError
from runner.core.text import printable
from runner.inputs.evaluators.python.signature import parse

_CATCHES = {"Exception", "BaseException"}
_KNOWN = {*dir(builtins), "__file__", "__name__", "__doc__", "__path__", "__spec__", "__builtins__"}
_DYNAMIC = ("import *", "globals(", "exec(", "vars(")


def refuse_hidden(text: str, where: str) -> None:
    """Refuse a script that hides from itself that a name is defined nowhere. Raises EvaluatorError."""
    if "except" not in text or any(word in text for word in _DYNAMIC):
        return
    nodes = [*ast.walk(parse(text, where))]
    known = _KNOWN | {*_bound(nodes)}
    functions = [one for one in nodes if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for one in (inner for function in functions for inner in ast.walk(function)):
        if not isinstance(one, ast.Try) or not (caught := next(filter(_catches_all, one.handlers), None)):
            continue
        for inner in (inner for each in one.body for inner in ast.walk(each)):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id not in known:
                raise hidden_name_error(where, inner.id, inner.lineno, f"`except` of line {caught.lineno}")


def hidden_name_error(where: str, name: str, line: int, catch: str) -> EvaluatorError:
    """Return the error of a name that is defined nowhere."""
    return EvaluatorError(
        f"{where}:{line}: `{printable(name, 60)}` is defined nowhere in the script, and its own {catch} would make a "
        "score of that error; define or import it, or copy it in"
    )


def _catches_all(handler: ast.ExceptHandler) -> bool:
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    names = {one.id for one in named if isinstance(one, ast.Name)}
    raises = isinstance(handler.body[-1], ast.Raise)
    return not raises and (handler.type is None or bool(names & _CATCHES)) and "NameError" not in names


def _bound(nodes: list[ast.AST]) -> Iterator[str]:
    for one in nodes:
        match one:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (each.asname or each.name.partition(".")[0] for each in names)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case ast.Global(names=own):
                yield from own
