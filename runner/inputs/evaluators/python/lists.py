"""Whether a Python function takes a parameter as a list, as far as its text shows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from runner.inputs.evaluators.foreign.evidence import holders
from runner.inputs.evaluators.foreign.module import ScriptModule
from runner.inputs.evaluators.python.signature import CallableNode, FunctionNode, annotations_of, loop_parts

_LIST = re.compile(
    r"(Optional\[|Annotated\[)?([\w.]+\.)?(list|List|tuple|Tuple|set|Set|frozenset|MutableSequence|ndarray|NDArray|"
    r"ArrayLike|Series|Tensor)\b"
)
_ITERABLE = re.compile(r"(Optional\[|Annotated\[)?([\w.]+\.)?(Sequence|Iterable|Iterator|Collection)\b")
OF_LISTS = re.compile(r"([\w.]+\.)?(list|List|Sequence|Iterable)\[\s*([\w.]+\.)?(list|List|Sequence|Iterable)\b")
_OF_NUMBERS = re.compile(r"\[\s*(Union\[)?(bool|int|float|np\.\w+|Number|Real)\b")
_TEXTS = re.compile(r"\bstr\b(?![^\[]*\])|\bAny\b(?![^\[]*\])|\bobject\b")
"""A text is one of the kinds that an annotation names, outside of brackets."""
_OF_ALL = (
    "sklearn.metrics",
    "sklearn",
    "scipy.stats",
    "seqeval",
    "sacrebleu.corpus",
    "nltk.translate.bleu_score.corpus",
)
_TAKES = {"len", "set", "list", "zip", "enumerate", "sorted", "sum", "min", "max", "tuple", "Counter", "range", "any"}
_TAKES |= {
    "all",
    "map",
    "filter",
    "reversed",
    "frozenset",
    "fromkeys",
    "array",
    "asarray",
    "tqdm",
    "mean",
    "intersection",
}
_TAKES |= {"union", "difference", "index", "count"}
"""What takes a list, and a text as well."""
_Uses = Literal["list", "texts too", "goes through", "counts", ""]


class ListUse(NamedTuple):
    how: _Uses
    """
    `list`: a text is none by its annotation, or by the package that gets it; `texts too`: its annotation is that of a
    text, too; `goes through`: by what is done with it; `counts`: only its length or a place in it is asked.
    """
    of_all: bool = False
    """True if what it is handed to judges all rows together, as sklearn's metrics do."""
    together: bool = False
    """True if it is gone through with another one, as by `zip`."""
    text: bool = False
    """True if it is asked what a text alone has, such as `lower`."""
    may_be_text: bool = False
    """True if its annotation names a text."""


def list_parameters(module: ScriptModule, entry: str, parameters: Sequence[str]) -> dict[str, str]:
    """Return, by parameter that is a list of lists, the function that goes through each; empty for a loop in it."""
    function, found = module.definition(entry), dict[str, str]()
    for loop, parts in loop_parts(function):
        each = {name: one for one, name in parts if name in parameters}
        if len(each) > 1 and any(_is_gone_through(loop, one) for one in each.values()):
            found |= {name: found.get(name, "") for name in each}  # of pairs of lists, both are
        for call in ast.walk(function) if function is not None and each else ():
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            node = module.definition(call.func.id)
            own = [] if node is None else [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            through = {name for _, inner in loop_parts(node) for _, name in inner}
            for name, part in each.items():
                given = {own[at] for at, one in enumerate(call.args[: len(own)]) if part in _names([one])}
                if given & through:
                    found[name] = call.func.id
    return found


def nested_lists(module: ScriptModule, entry: str, parameters: Sequence[str]) -> set[str]:
    """Return the parameters that are lists of lists, as a function goes through each of what they hold, too."""
    return {
        whole
        for loop, parts in loop_parts(module.definition(entry))
        for part, whole in parts
        if isinstance(loop, ast.For) and whole in parameters and _is_gone_through(loop, part)
    }


def _is_gone_through(loop: ast.For | ast.comprehension, part: str) -> bool:
    """Whether a loop in this one goes through a part of what this one does."""
    for inner in (one for statement in getattr(loop, "body", ()) for one in ast.walk(statement)):
        if isinstance(inner, ast.For | ast.comprehension):
            over = inner.iter
            if isinstance(over, ast.Call) and over.args and ast.unparse(over.func) in ("enumerate", "tqdm"):
                over = over.args[0]
            over = over.value if isinstance(over, ast.Subscript) else over
            if isinstance(over, ast.Name) and over.id == part:
                return True
    return False


def list_use(module: ScriptModule, entry: str, parameter: str) -> ListUse:
    """
    Return how a function uses a parameter: as a list, as far as can be seen.

    One that asks what it got is told nothing.
    """
    found, of_all, together = set[_Uses](), False, False
    annotation = annotations_of(module.definition(entry)).get(parameter, "")
    for node, own in holders(module, entry, parameter):
        for inner in ast.walk(node):
            match inner:
                case ast.Name(id=other, ctx=ast.Store()) if other == own:
                    return ListUse("goes through" if _is_rebuilt(node, own) else "")
                case ast.Call(func=func, args=args, keywords=keywords):
                    if own not in _names([*args, *(one.value for one in keywords)]):
                        continue
                    called = module.whole_name(ast.unparse(func))
                    last = called.rpartition(".")[2]
                    if last in ("isinstance", "type", "hasattr", "is_list_like"):
                        return ListUse("")
                    if called.startswith(_OF_ALL):
                        of_all = True
                        found.add("list")
                    elif last in ("zip", "enumerate", "map", "set", "Counter", "sorted"):
                        together = together or (last == "zip" and len(args) > 1)
                        found.add("goes through")
                    elif last in ("len", "range"):
                        found.add("counts")
                    elif last not in _TAKES and last not in module.functions:
                        return _declared(annotation)
                case ast.For(iter=ast.Name(id=other)) | ast.comprehension(iter=ast.Name(id=other)) if other == own:
                    found.add("goes through")
                case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=other)]) if other == own:
                    found.add("counts")
                case ast.Subscript(value=ast.Name(id=other)) if other == own:
                    found.add("counts")
                case ast.Attribute(value=ast.Name(id=other), attr=attr) if other == own and attr not in dir(list):
                    return _declared(annotation)._replace(text=hasattr(str, attr))
                case ast.FormattedValue(value=ast.Name(id=other)) if other == own:
                    return _declared(annotation)
    if of_all:
        return ListUse("list", True, together)
    declared = _declared(annotation)
    if declared.how == "list" or not found:
        return declared._replace(together=together)
    how: _Uses = "goes through" if "goes through" in found else "counts"
    return ListUse(how, together=together, may_be_text=_TEXTS.search(annotation) is not None)


def _is_rebuilt(function: CallableNode, name: str) -> bool:
    """Whether a function first makes another collection of a parameter, of the same name, by a comprehension."""
    body = function.body if isinstance(function, FunctionNode) else []
    match next((one for one in body if name in _names([*ast.walk(one)])), None):
        case ast.Assign(
            targets=[ast.Name(id=own)],
            value=ast.SetComp(generators=[one]) | ast.ListComp(generators=[one]) | ast.DictComp(generators=[one]),
        ):
            return own == name and isinstance(one.iter, ast.Name) and one.iter.id == name
    return False


def _declared(annotation: str) -> ListUse:
    """What an annotation alone says."""
    if not annotation or _TEXTS.search(annotation) or annotation.startswith(("Union", "typing.Union")):
        return ListUse("")
    if _LIST.match(annotation) or (_ITERABLE.match(annotation) and _OF_NUMBERS.search(annotation)):
        return ListUse("list")
    return ListUse("texts too") if _ITERABLE.match(annotation) else ListUse("")


def _names(nodes: Sequence[ast.AST]) -> set[str]:
    return {one.id for one in nodes if isinstance(one, ast.Name)}
