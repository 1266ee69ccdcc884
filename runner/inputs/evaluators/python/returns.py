"""What a script in Python is seen to return without being run, where that is hardly what is meant."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from runner.core.text import list_names
from runner.core.types import Evaluator
from runner.inputs.evaluators.column_suggestions import likely_direction
from runner.inputs.evaluators.python.row_function import called_function, renaming, row_call, row_head, row_line
from runner.inputs.evaluators.python.signature import (
    FunctionNode,
    definitions,
    expression,
    names_of,
    own_nodes,
    parse,
)

NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*%?|nan|inf|infinity)\s*", re.IGNORECASE | re.ASCII)
"""A number as text."""
_VERDICT = re.compile(r"([\w.]+\.)?[tT]uple\[(bool|float|int), (Optional\[)?str\b")
"""The annotation of a function that returns a verdict, and why."""


def tuple_step(evaluator: Evaluator) -> str:
    """Return what to write where a Python script returns a tuple: one of its values, or all by their names in it."""
    function = evaluator.called
    if evaluator.dialect is not None or "." in function:
        return "return one of its values, or a dict of them by names that are `outputs` in the script's header"
    lists, brackets = _bracketed(evaluator)
    first = renaming(function)
    place = tuple_place(evaluator.source, evaluator.name, function) or TuplePlace("[0]", 0, ())
    ordinal = _ORDINALS[place.at] if place.at < len(_ORDINALS) else f"{place.at + 1}th"
    what = f"it returns {list_names(place.parts, 4)} together; " if place.parts else ""
    step = f"{what}for its {ordinal} value {first}add `{row_line(evaluator, lists, place.path)}` to the script and "
    if handed := _handed(evaluator):
        line, call = handed
        step = f"{what}for its {ordinal} value let line {line} be `return {call}{place.path}`, and "
    step += f"run that{brackets}"
    if verdict := _with_reason(evaluator.source, evaluator.name, function):
        kind = '"label": str(verdict)' if verdict == "verdict" else '"score": float(score)'
        return (
            f"{first}add `{row_head(evaluator)} {verdict}, why = {row_call(evaluator, lists)}; return "
            f'{{{kind}, "explanation": str(why)}}` to the script and run that'
        )
    names = tuple_names(evaluator.source, evaluator.name, function)
    if not names:
        return step
    outputs = ", ".join(f'{one} = {{kind = "continuous"{likely_direction(one)}}}' for one in names)
    words = ", ".join(f'"{one}"' for one in names)
    lines = f"{row_head(evaluator)} return dict(zip(({words}), {row_call(evaluator, lists)}))"
    if evaluator.outputs or "/// script" in evaluator.source:
        return f"{step}; for all `{lines}`, and in the script's header `outputs = {{{outputs}}}` in place of `output`"
    header = ("# /// script", "# [tool.evalcell]", f"# outputs = {{{outputs}}}", "# ///")
    return f"{step}; for all add these lines: {', '.join(f'`{one}`' for one in (*header, lines))}"


class TuplePlace(NamedTuple):
    """The value of a returned tuple that is likely the score."""

    path: str
    """Where it is in what is returned: `[0]`, or `[1]["acc"]` in an object with one number."""
    at: int
    parts: tuple[str, ...]
    """The values as they are written."""
    sure: bool = False
    """True if it is seen to be a number, beside what is none."""


@lru_cache(8)
def tuple_place(source: str, where: str, called: str) -> TuplePlace | None:
    """Return where the score is in a tuple that a Python function returns; None where no tuple is seen."""
    function = _returning(parse(source, where).body, called)
    returns = [] if function is None else [one for one in own_nodes(function.body) if isinstance(one, ast.Return)]
    tuples = [one.value for one in returns if isinstance(one.value, ast.Tuple)]
    if function is None or not tuples or any(len(one.elts) != len(tuples[-1].elts) for one in tuples):
        return None
    each = [[one.elts[at] for one in tuples] for at in range(len(tuples[-1].elts))]
    # One value for all rows judges none.
    ranks = [(_SAME, "") if _is_constant(some) else min(_rank(one, function) for one in some[::-1]) for some in each]
    best = min(rank for rank, _ in ranks)
    likely = [at for at, (rank, _) in enumerate(ranks) if rank == best]
    at = next((one for one in likely if _OF_SCORES.search(expression(each[one][-1]))), likely[0])
    mixed = any(rank != best for rank, _ in ranks)
    parts = tuple(expression(some[-1]) for some in each) if len(each) > 1 else ()
    return TuplePlace(f"[{at}]{ranks[at][1]}", at, parts, mixed and best < _UNKNOWN)


def _is_number(value: ast.AST | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float)


def _is_constant(some: Sequence[ast.expr]) -> bool:
    return all(isinstance(one, ast.Constant) for one in some) and len({*map(expression, some)}) == 1


_UNKNOWN, _SAME = 2, 5
_ORDINALS = ("first", "second", "third", "fourth")
_NUMBERS = {"round", "float", "int", "abs", "sum", "len", "max", "min", "bool", "mean", "item", "fmean", "all", "any"}
_NO_NUMBERS = {*("dict", "list", "set", "str", "defaultdict", "Counter", "OrderedDict", "sorted", "tuple", "join")}
_NO_NUMBERS |= {"append", "update", "extend", "add", "dumps", "format", "strip", "lower", "split"}
_OF_SCORES = re.compile(
    r"(^|_)(scores?|acc|accuracy|f1|em|precision|recall|correct|is_correct|reward|passed|match|rate|ratio|mean|avg|"
    r"average|total|bleu|rouge|wer|cer|iou|auc|mrr|ndcg)(_|\d|$)"
)


def _rank(value: ast.AST | None, function: FunctionNode, depth: int = 0) -> tuple[int, str]:
    """How far a value of a function is from a score, from 0, and where in it a number is."""
    match value:
        case ast.Constant(value=int() | float()) | ast.Compare() | ast.UnaryOp():
            return 0, ""
        case ast.BinOp(left=left, right=right):
            texts = any(isinstance(one, ast.JoinedStr | ast.List) or _is_label(one) for one in (left, right))
            return 3 if texts else 0, ""
        case ast.Tuple(ctx=ast.Store()):  # which part of a value this is, is not known
            return _UNKNOWN, ""
        case ast.Constant() | ast.JoinedStr() | ast.List() | ast.ListComp() | ast.DictComp() | ast.Set() | ast.Tuple():
            return 3, ""
        case ast.Dict(keys=keys, values=values):
            names = [getattr(key, "value", None) for key in keys]
            numbers = [name for name, one in zip(names, values, strict=True) if _rank(one, function, depth + 1)[0] < 1]
            only = len(numbers) == 1 and isinstance(numbers[0], str)
            return (1, f"[{json.dumps(numbers[0], ensure_ascii=False)}]") if only else (3, "")
        case ast.Call(func=func):
            name = expression(func).rpartition(".")[2]
            return 0 if name in _NUMBERS else 3 if name in _NO_NUMBERS else _UNKNOWN, ""
        case ast.IfExp(body=one, orelse=other):
            return max(_rank(one, function, depth), _rank(other, function, depth))
        case ast.Name(id=name) if name.isupper():  # `PASS`, `FAIL`: a verdict
            return 1, ""
        case ast.Name(id=name) if depth < 3:
            if _NO_VERDICT.search(name):
                return 4, ""
            if name in _objects(function):
                whole = _whole(function, name)
                return (3, "") if whole is None else _rank(whole, function, depth + 1)
            made = [one for own, one in definitions(function.body) if own == name]
            ranks = [
                _rank(getattr(one, "value", one) if isinstance(one, ast.AugAssign) else one, function, depth + 1)
                for one in made
            ]
            worst = max(ranks, default=(_UNKNOWN, ""))
            return (0, "") if worst[0] == _UNKNOWN and _OF_SCORES.search(name) else worst
    return _UNKNOWN, ""


def _is_label(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _whole(function: FunctionNode, name: str) -> ast.Dict | None:
    """An object with all keys that a function gives it; None where one of them is no fixed text."""
    made = [one for own, one in definitions(function.body) if own == name]
    if len(made) != 1 or not (isinstance(made[0], ast.Dict) or (isinstance(made[0], ast.Call) and not made[0].args)):
        return None
    keys, values = ([*made[0].keys], [*made[0].values]) if isinstance(made[0], ast.Dict) else ([], [])
    for node in own_nodes(function.body):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=own), slice=key)], value=value) if own == name:
                keys.append(key)
                values.append(value)
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=own), slice=key), value=value) if own == name:
                keys.append(key)
                values.append(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr="update" | "setdefault")) if own == name:
                return None
    texts = {one.value: value for one, value in zip(keys, values, strict=True) if isinstance(one, ast.Constant)}
    if not all(isinstance(one, ast.Constant) for one in keys):
        return None
    return ast.Dict([ast.Constant(one) for one in texts], [*texts.values()])


def _returning(body: list[ast.stmt], called: str) -> FunctionNode | None:
    """The function that makes what is returned: another one, where this one does no more than return its value."""
    names = names_of(body)
    for _ in range(5):
        function = names.get(called)
        if not isinstance(function, FunctionNode):
            return None
        match [one.value for one in own_nodes(function.body) if isinstance(one, ast.Return)]:
            case [ast.Call(func=ast.Name(id=other))] if other != called and isinstance(names.get(other), FunctionNode):
                called = other
            case _:
                return function
    return None


def _handed(evaluator: Evaluator) -> tuple[int, str] | None:
    """The line of an `evaluate` that returns what another function of the script does, and that call."""
    function = called_function(evaluator)
    match [] if function is None else function.body:
        case [ast.Return(value=ast.Call(func=ast.Name(id=other)) as call)]:
            inner = names_of(parse(evaluator.source, evaluator.name).body).get(other)
            return (call.lineno, expression(call)) if isinstance(inner, FunctionNode) else None
    return None


_TOKENS = re.compile(r"\btoken(s|i[sz]ed)\b")


def _bracketed(evaluator: Evaluator) -> tuple[dict[str, str], str]:
    """The parameters that are given a list of what a row likely has, as such, and what to say of it."""
    from runner.inputs.evaluators.foreign.module import read_python  # here: few functions return several values
    from runner.inputs.evaluators.python.lists import list_parameters

    names = [one.name for one in evaluator.parameters if one.required]
    if not (inner := list_parameters(read_python(evaluator.source, evaluator.name), evaluator.called, names)):
        return {}, ""
    function = called_function(evaluator)
    if (told := "" if function is None else ast.get_docstring(function) or "") and _TOKENS.search(told):
        words = {one: f"[{one}.split()]" for one in inner}
        several = [one for one in inner if re.search(rf"\b{one}\b[^:\n]*:.*\blists? of lists?\b", told)]
        words |= {one: f"[{words[one]}]" for one in several}
        return words, " (it takes lists of words: leave `.split()` out where a row has them)"
    by = next(iter(inner.values()))
    each = f", of which `{by}` goes through each" if by else ""
    lists = {one: f"[{one}]" for one in inner}
    return lists, f" (it takes lists of lists{each}: leave the brackets out where a row has several)"


@lru_cache(8)
def tuple_names(source: str, where: str, called: str) -> list[str]:
    """Return the names of the numbers that a function returns together; nothing if some of it is no number."""
    if (function := _returning(parse(source, where).body, called)) is None:
        return []
    objects = _objects(function)
    for one in own_nodes(function.body):
        if isinstance(one, ast.Return) and isinstance(one.value, ast.Tuple):
            found = [_name(each) for each in one.value.elts]
            verdicts = any(name and name.isupper() for name in found)
            if None not in found and not verdicts and not {*found} & objects and len({*found}) == len(found):
                return [name or f"value_{at}" for at, name in enumerate(found, 1)]
    return []


def _name(value: ast.expr) -> str | None:
    """What a number is called that is returned beside others: "" if it has no name, None if it is hardly a number."""
    match value:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="round" | "float" | "int" | "abs"), args=[inner, *_]):
            return _name(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "mean" | "sum")):
            return _name(inner)
        case ast.BinOp(op=ast.Mult(), left=inner, right=ast.Constant(value=100)):
            return _name(inner)
        case ast.BinOp():
            return ""
    return None


def _with_reason(source: str, where: str, called: str) -> str:
    """What the first of a pair is whose second says why: `score`, or `verdict` where it is no number; else nothing."""
    if (function := _returning(parse(source, where).body, called)) is None:
        return ""
    if function.returns is not None and _VERDICT.match(expression(function.returns).strip("'\"")):
        return "score"
    pairs = [
        one.value.elts
        for one in own_nodes(function.body)
        if isinstance(one, ast.Return) and isinstance(one.value, ast.Tuple) and len(one.value.elts) == 2
    ]
    if any(isinstance(one, ast.Name) and _NO_VERDICT.search(one.id) and not one.id.isupper() for one, _ in pairs):
        return ""
    texts = [isinstance(why, ast.JoinedStr) or isinstance(getattr(why, "value", None), str) for _, why in pairs]
    own = names_of(parse(source, where).body)
    words = any(
        isinstance(getattr(one, "value", None), str)
        or (isinstance(one, ast.Name) and one.id.isupper() and not _is_number(own.get(one.id)))
        for one, _ in pairs
    )
    return ("verdict" if words else "score") if any(texts) else ""


_NO_VERDICT = re.compile(r"(?i)invalid|error|fail|wrong|miss|flag")
"""In a name: 1 says that something is wrong with the answer, or nothing of it at all."""


def _objects(function: FunctionNode) -> set[str]:
    """What a function makes an object or a list, which is no score beside another."""
    kinds = ast.Dict | ast.List | ast.DictComp | ast.ListComp | ast.Set | ast.SetComp | ast.JoinedStr
    keyed = {
        node.value.id
        for node in own_nodes(function.body)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
    }
    return keyed | {
        name
        for name, value in definitions(function.body)
        if isinstance(value, kinds)
        or (isinstance(value, ast.Call) and expression(value.func).rpartition(".")[2] in _NO_NUMBERS)
    }
