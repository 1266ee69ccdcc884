"""Read the signature of `evaluate` from a Python script, by parsing it; nothing is run."""

from __future__ import annotations

import ast
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, point_at, printable, suggestion, whole
from runner.core.types import Aggregate, Parameter
from runner.inputs.evaluators.entrypoint import AGGREGATE, NAME, RESULTS

DEFINE = "define `def evaluate(output, reference): …`"
STACK = 64 << 20
"""Bytes of stack for the parser, so that its own limit on nesting comes before the end of the stack."""

_NEWER = re.compile(r"^\s*(async\s+)?(def|class)\s+\w+\s*\[|^\s*type\s+\w+|f-string|template string|\bt[\"']")
_GAP = r"(?:[ \t\f]|\\\n)*+"
_WORD = r"[0-9A-Za-z_\x80-\U0010ffff]"
_PARTS = 300
"""Python's parser takes quadratic time for an import of more parts: half a minute for one of 256 KB."""
_DOTTED = rf"(?<!{_WORD})(?:{_WORD}++{_GAP}\.{_GAP}){{{_PARTS}}}"

_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
CallableNode = FunctionNode | ast.Lambda


class Signature(NamedTuple):
    parameters: tuple[Parameter, ...]
    accepts_any: bool
    docstring: str
    evaluates: bool = True
    aggregate: Aggregate | None = None


class NoFunctionError(EvaluatorError):
    """A script has no `evaluate`. `near` is what it has instead, and `step` the next step."""

    def __init__(self, where: str, near: str, step: str) -> None:
        self.near, self.step = near, step
        super().__init__(f"{where} has no function `evaluate`{near}; {step}")


ALONE = Signature(
    tuple(Parameter(name=name, required=False) for name in ("output", "reference")),
    accepts_any=True,
    docstring="",
    evaluates=False,
)
"""Of a script that has `aggregate` alone: its rows carry what its header maps, and these where they have them."""


def _of_hub(node: ast.ClassDef) -> str:
    """What to write for a metric of Hugging Face's `evaluate`, which is given the values of all rows."""
    own = next((one for one in node.body if isinstance(one, FunctionNode) and one.name == "_compute"), None)
    if own is None or len(own.args.args) < 3:
        return ""
    names = [one.arg for one in own.args.args[1:3]]
    given = ", ".join(f"{name}=[{role}]" for name, role in zip(names, ("output", "reference"), strict=True))
    return (
        f"add `def score(output, reference): return {node.name}._compute(None, {given})` to the script, and name "
        "`score`: of Hugging Face's metrics `_compute` takes lists of all rows, here of one"
    )


def read_signature(source: str, where: str) -> Signature:
    """
    Return the parameters of the `evaluate` and of the `aggregate` that a script ends up with.

    Raises:
        EvaluatorError: It is not an evaluator.
    """
    tree = parse(source, where)
    found: CallableNode | ast.AST | None = None
    functions: dict[str, CallableNode] = {}
    for name, node in definitions(tree.body):
        if name == NAME:
            found = _resolved(node, functions)
        elif isinstance(resolved := _resolved(node, functions), CallableNode):
            functions[name] = resolved
        else:
            functions.pop(name, None)
    whole_dataset = functions.get(AGGREGATE)
    aggregate = aggregate_of(whole_dataset)
    if found is None and whole_dataset is not None and aggregate is not None:
        return ALONE._replace(docstring=_docstring(tree, whole_dataset), aggregate=aggregate)
    if found is None:
        raise NoFunctionError(where, _near_miss(tree, functions), DEFINE)
    classes = [node for _, node in definitions(tree.body) if isinstance(node, ast.ClassDef)]
    if isinstance(found, ast.Import | ast.ImportFrom) and (functions or classes):  # such as Hugging Face's package
        step = next((step for one in classes if (step := _of_hub(one))), DEFINE)
        raise NoFunctionError(where, f" of its own (line {found.lineno} imports one)", step)
    if not isinstance(found, CallableNode):
        raise EvaluatorError(
            f"{where}:{getattr(found, 'lineno', 1)}: the parameters of this `evaluate` cannot be seen "
            f"without running the script; {DEFINE}"
        )
    own = (*parameters(found.args), *keywords(found))
    return Signature(own, found.args.kwarg is not None, _docstring(tree, found), aggregate=aggregate)


def aggregate_of(function: ast.AST | None) -> Aggregate | None:
    """
    Return the script's `aggregate`; None where it does not take `results` first: then it is a function of its own.
    """
    if not isinstance(function, CallableNode):
        return None
    args = function.args
    first, *others = parameters(args) or (None,)
    by_place = [*args.posonlyargs, *args.args]
    if first is None or not by_place or first.name != RESULTS:
        return None
    return Aggregate(parameters=tuple(others), accepts_any=args.kwarg is not None)


@lru_cache(2)  # one load of a script asks for it up to a hundred times
def parse(source: str, where: str) -> ast.Module:
    # To compile the pattern takes as long as to parse a script.
    if source.count(".") >= _PARTS and (dotted := re.search(_DOTTED, source)):
        line = source.count("\n", 0, dotted.start()) + 1
        raise EvaluatorError(f"{where}:{line}: a name of more than {_PARTS} parts; shorten it")
    result: list[ast.Module | BaseException] = []

    def parse() -> None:
        try:
            result.append(ast.parse(source))
        except BaseException as error:
            result.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = threading.stack_size(STACK)
        try:
            thread = threading.Thread(target=parse, name="parse")
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
    outcome = result[0]
    if isinstance(outcome, ast.Module):
        return outcome
    if isinstance(outcome, SyntaxError):
        raise EvaluatorError(_syntax_message(outcome, source, where)) from None
    if isinstance(outcome, MemoryError | RecursionError):
        raise EvaluatorError(f"{where} is nested too deeply for Python's parser; split its expressions up")
    raise EvaluatorError(f"{where} cannot be parsed: {printable(str(outcome))}")


def _syntax_message(error: SyntaxError, source: str, where: str) -> str:
    """File, line and column, what is wrong, and the line itself with a caret below the place."""
    lines = source.split("\n")
    line = min(max(error.lineno or 1, 1), len(lines))
    message = point_at(where, source, line, error.offset or 1, error.msg)
    if _NEWER.search(lines[line - 1]) or "f-string" in error.msg:
        running = ".".join(map(str, sys.version_info[:2]))
        message += f"\n    Syntax newer than Python {running}, on which evalcell runs here, cannot be read."
    return message


def definitions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """
    Yield every name that the module's own statements bind, in the order of the text, and by what.

    What stands under `if __name__ == "__main__":` is not run: a script is loaded as a module.
    """
    left: list[ast.AST] = list(reversed(body))
    while left:
        node = left.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _targets(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _targets(target, value)
            case ast.AugAssign(target=target, value=value):
                # What comes out of `evaluate += …` is none of its parts.
                yield from ((name, node) for name, _ in _targets(target, value))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name, node) for alias in names)
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()]), orelse=others):
                left.extend(reversed(others))
            case _:
                blocks = (getattr(node, block, ()) for block in _BLOCKS)
                left.extend(reversed([inner for block in blocks for inner in block]))


def reach(body: list[ast.stmt], *called: str) -> list[ast.AST]:
    """
    Return what functions of a script reach that are called, these among it: functions, classes and what else has a
    name.
    """
    names = names_of(body)
    found, left = dict[str, ast.AST](), [one.partition(".")[0] for one in called]
    while left:
        if (name := left.pop()) in names and name not in found:
            found[name] = names[name]
            left += [one.id for one in ast.walk(names[name]) if isinstance(one, ast.Name)]
    return [*found.values()]


def names_of(body: list[ast.stmt]) -> dict[str, ast.AST]:
    """Return what each name stands for in the end, in the order of the text."""
    found: dict[str, ast.AST] = {}
    for name, node in definitions(body):
        found.pop(name, None)
        found[name] = node
    return found


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a function, in the order of the text, but those of functions and classes in it."""
    left = [*body][::-1]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, CallableNode | ast.ClassDef):
            left.extend([*ast.iter_child_nodes(node)][::-1])


def of_classes(node: ast.AST) -> set[int]:
    """Return the ids of the functions that are methods of classes in this node, and are given the instance."""
    kinds = [one for one in ast.walk(node) if isinstance(one, ast.ClassDef)]
    methods = [one for kind in kinds for one in kind.body if isinstance(one, FunctionNode)]
    return {id(one) for one in methods if not any(expression(mark) == "staticmethod" for mark in one.decorator_list)}


def expression(node: ast.AST) -> str:
    """Return an expression as it is written; `…` for one of more parts than Python can write."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "…"


def key_of(node: ast.AST) -> tuple[ast.expr, str, Literal["index", "get", "in"]] | None:
    """Return the object, the key, and how it is read: `x["key"]`, `x.get("key")`, `x.pop("key")`, or `"key" in x`."""
    match node:
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            return value, key, "index"
        case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return value, key, "get"
        case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[ast.Constant(value=str(key)), *default]):
            return value, key, "get" if default else "index"
        case ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In() | ast.NotIn()], comparators=[value]):
            return value, key, "in"
    return None


def _targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    match target:
        case ast.Name(id=name):
            yield name, value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            # Which part of the value goes where is not for the parser to say.
            yield from ((part.id, target) for part in parts if isinstance(part, ast.Name))


def _resolved(node: ast.AST, functions: dict[str, CallableNode]) -> ast.AST:
    """The function that another name stands for."""
    return functions.get(node.id, node) if isinstance(node, ast.Name) else node


def parameters(args: ast.arguments) -> tuple[Parameter, ...]:
    by_place = [*args.posonlyargs, *args.args]
    required = len(by_place) - len(args.defaults)
    found = [
        Parameter(name=arg.arg, positional_only=at < len(args.posonlyargs), required=at < required)
        for at, arg in enumerate(by_place)
    ]
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        found.append(Parameter(name=arg.arg, required=default is None))
    return tuple(found)


def keywords(function: CallableNode) -> tuple[Parameter, ...]:
    """
    Return what a function reads by its name of its `**kwargs`, as parameters, so that columns of these names fill them.

    An output or a reference is required, however it is read: without it `kwargs.get("reference")` would be None in
    all rows, without a word. Of several names of one of these, such as in `kw.get("gold") or kw.get("label")`, a
    column of any is enough.
    """
    if function.args.kwarg is None:
        return ()
    from runner.inputs.evaluators.column_suggestions import OUTPUTS, REFERENCES  # here: few functions have such

    every, read = function.args.kwarg.arg, dict[str, bool]()
    held = {one.name for one in parameters(function.args)}
    nodes = [*ast.walk(function)]
    if any(isinstance(one, ast.Name) and one.id == every and isinstance(one.ctx, ast.Store) for one in nodes):
        return ()
    nodes.sort(key=lambda one: (getattr(one, "lineno", 0), getattr(one, "col_offset", 0)))
    for found in filter(None, map(key_of, nodes)):
        if isinstance(found[0], ast.Name) and found[0].id == every and found[1].isidentifier():
            read[found[1]] = read.get(found[1], True) and found[2] == "index"
    names = [name for name in read if name not in held]
    same = {role: [name for name in names if name in role] for role in (OUTPUTS - REFERENCES, REFERENCES - OUTPUTS)}
    first = {some[0]: tuple(some) for role, some in same.items() if some and not held & role}
    others = {name for some in first.values() for name in some[1:]}
    return tuple(
        Parameter(
            name=name,
            required=(read[name] or name in first) and name not in others,
            columns=columns if len(columns := first.get(name, ())) > 1 and not read[name] else (),
        )
        for name in names
    )


def annotations_of(function: CallableNode | None) -> dict[str, str]:
    """Return, by parameter, its annotation as it is written, without quotes; of those that have one."""
    args = [] if function is None else [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return {one.arg: expression(one.annotation).strip("'\"") for one in args if one.annotation is not None}


def loop_parts(function: ast.AST | None) -> Iterator[tuple[ast.For | ast.comprehension, list[tuple[str, str]]]]:
    """Yield the loops of a function, each with its names for parts of what it goes through, and the names of that."""
    for loop in ast.walk(function) if function is not None else ():
        if not isinstance(loop, ast.For | ast.comprehension):
            continue
        target, over = loop.target, loop.iter
        while isinstance(over, ast.Call) and over.args and expression(over.func) in ("enumerate", "tqdm", "tqdm.tqdm"):
            if expression(over.func) == "enumerate" and isinstance(target, ast.Tuple) and target.elts:
                target = target.elts[-1]
            over = over.args[0]
        pairs = [(target, over)]
        if isinstance(over, ast.Call) and expression(over.func) == "zip":
            pairs = [*zip(target.elts, over.args, strict=False)] if isinstance(target, ast.Tuple) else []
        yield loop, [(one.id, of.id) for one, of in pairs if isinstance(one, ast.Name) and isinstance(of, ast.Name)]


def empty(args: ast.arguments) -> set[str]:
    """Return the parameters whose default is None or an empty text."""
    return {name for name, value in _constants(args) if value in (None, "")}


def numbers(args: ast.arguments) -> dict[str, float]:
    """Return the parameters whose default is a number, or true or false, and that."""
    return {name: value for name, value in _constants(args) if isinstance(value, int | float)}


def _constants(args: ast.arguments) -> Iterator[tuple[str, object]]:
    """The parameters that have a constant as default, and that."""
    places = [*args.posonlyargs, *args.args]
    pairs = [
        *zip(places[::-1], args.defaults[::-1], strict=False),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    return ((own.arg, default.value) for own, default in pairs if isinstance(default, ast.Constant))


def _near_miss(tree: ast.Module, functions: dict[str, CallableNode]) -> str:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, FunctionNode) and inner.name == NAME:
                    return f" (line {inner.lineno} has one, inside the class `{printable(node.name, 60)}`)"
    lines = {name: node.lineno for name, node in functions.items()}
    close = [name for name in lines if name.lower() == NAME or suggestion(name.lower(), [NAME])]
    if close:
        return f" (line {lines[close[0]]} defines `{printable(close[0], 60)}`)"
    return f" (it defines {list_names(lines, 4)})" if lines else ""


def _docstring(tree: ast.Module, found: CallableNode) -> str:
    own = None if isinstance(found, ast.Lambda) else ast.get_docstring(found)
    return whole(ast.get_docstring(tree) or own or "")
