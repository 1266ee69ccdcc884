"""Where the source of Python objects is: the files, notebook cells and statements that define them."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from runner.core.errors import EvaluatorError
from runner.core.text import printable, whole

Function = ast.FunctionDef | ast.AsyncFunctionDef
_BLOCKS = ("body", "handlers", "orelse", "finalbody")


@dataclass(frozen=True)
class SourcePlace:
    """A file, or a cell of a notebook, with its source."""

    file: str
    lines: tuple[str, ...]
    tree: ast.Module = field(repr=False, compare=False)

    def text(self, node: ast.AST) -> str:
        """Return a definition or statement, with its decorators and without the indentation of what is around it."""
        first, last = span(node)
        text = textwrap.dedent("".join(self.lines[first - 1 : last]))
        try:
            (found,) = ast.parse(text).body
            same = ast.dump(found) == ast.dump(node)
        except (SyntaxError, ValueError):
            same = False
        # Something else may stand on its lines, and a text of several lines may begin further left.
        return text if same else ast.unparse(node) + "\n"

    def statements(self) -> Iterator[ast.stmt]:
        """Yield the statements that run with the module, in their order, also those inside of `if` and `try`."""
        left: list[Any] = list(reversed(self.tree.body))
        while left:
            node = left.pop()
            if isinstance(node, ast.stmt):
                yield node
            if not isinstance(node, Function | ast.ClassDef):
                left += reversed([inner for block in _BLOCKS for inner in getattr(node, block, ())])


def span(node: Any) -> tuple[int, int]:
    """Return the first and last line, from 1; decorators are part of a definition."""
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]), node.end_lineno or node.lineno


def place_of(code: CodeType, names: dict[str, Any]) -> SourcePlace | None:
    """Return the file or cell that some code comes from; None if its source is not known."""
    file = code.co_filename
    # Since Python 3.13 the text of `python -c` is known by the name that all text has which is executed.
    lines = [] if file in ("<string>", "<stdin>") else linecache.getlines(file, names)
    if not lines:
        return None
    try:
        return SourcePlace(file, tuple(lines), ast.parse("".join(lines)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def cells(names: dict[str, Any]) -> Iterator[SourcePlace]:
    """Yield the cells of a notebook that have been run, the last one first."""
    inputs = names.get("In")
    if not isinstance(inputs, list):
        return
    for number in range(len(inputs) - 1, 0, -1):
        source = inputs[number]
        if isinstance(source, str):
            try:
                source = _without_magic(source, names)
                tree = ast.parse(source)
            except Exception:
                continue  # no Python
            yield SourcePlace(f"In[{number}]", tuple(source.splitlines(keepends=True)), tree)


def _without_magic(source: str, names: dict[str, Any]) -> str:
    """The cell as Python: `%matplotlib inline` becomes a call."""
    shell = names.get("get_ipython", lambda: None)()
    transform = getattr(shell, "transform_cell", None)
    return str(transform(source)) if transform is not None else source


def definition(place: SourcePlace, function: FunctionType) -> Function | ast.Lambda:
    """Return the node that defines a function. Raises EvaluatorError where its file has changed meanwhile."""
    code = function.__code__
    named = code.co_name == "<lambda>"
    kinds: tuple[type[ast.AST], ...] = (ast.Lambda,) if named else (ast.FunctionDef, ast.AsyncFunctionDef)
    found: list[Any] = [
        node
        for node in ast.walk(place.tree)
        if isinstance(node, kinds) and (named or getattr(node, "name", "") == code.co_name)
    ]
    if named:
        found = [node for node in found if _holds(node, code)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
    else:
        found = [node for node in found if span(node)[0] == code.co_firstlineno]
    if not found:
        where = f"{printable(whole(place.file))}:{code.co_firstlineno}"
        raise EvaluatorError(
            f"{where} does not define `{printable(code.co_name, 60)}` any more; import it again, "
            "or restart Python after changing the file"
        )
    last: Function | ast.Lambda = found[-1]
    return last  # of several lambdas, the innermost


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """True if all instructions of the code come from this lambda."""
    places = [at for at in code.co_positions() if None not in at and at[2:] != (0, 0)]
    body = node.body
    if not places and isinstance(body, ast.Constant):  # in Python 3.12 what returns a constant has no place of its own
        arguments = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        same = arguments == [*code.co_varnames[: len(arguments)]] and node.lineno == code.co_firstlineno
        return same and any(type(value) is type(body.value) and value == body.value for value in code.co_consts)
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    return bool(places) and all(first <= (at[0], at[2]) and (at[1], at[3]) <= last for at in places)


def binding(places: list[SourcePlace], name: str) -> tuple[SourcePlace, ast.stmt] | None:
    """Return the last import or plain assignment that binds a name in one of the places."""
    for place in places:
        found = None
        for node in place.statements():
            match node:
                case ast.ImportFrom(names=aliases):
                    bound = any((alias.asname or alias.name) == name for alias in aliases)
                case (
                    ast.Assign(targets=[ast.Name(id=target)])
                    | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr())
                ):
                    bound = target == name
                case _:
                    bound = False
            if bound:
                found = node
        if found is not None:
            return place, found
    return None


def class_definition(places: list[SourcePlace], name: str) -> tuple[SourcePlace, ast.ClassDef] | None:
    """Return the last class of this name at the top level of one of the places."""
    for place in places:
        found = [node for node in place.statements() if isinstance(node, ast.ClassDef) and node.name == name]
        if found:
            return place, found[-1]
    return None
