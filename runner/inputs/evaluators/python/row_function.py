"""The line of an `evaluate` to add to a Python script, which calls a function of the script for one row."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import takewhile

from runner.core.types import Evaluator
from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.python.entries import call_name
from runner.inputs.evaluators.python.signature import FunctionNode, expression, names_of, parse


def row_line(evaluator: Evaluator, values: Mapping[str, str], end: str = "") -> str:
    """
    Return the line. Parameters in `values` are given these expressions; `end` is the part of the result that counts.
    """
    return f"{row_head(evaluator)} return {row_call(evaluator, values)}{end}"


def row_head(evaluator: Evaluator) -> str:
    """Return how the line begins: `def evaluate(output, reference, lower=True):`."""
    return f"def evaluate({', '.join(_handed_on(evaluator)[0])}):"


def row_call(evaluator: Evaluator, values: Mapping[str, str]) -> str:
    """Return the call in the line."""
    given = [f"{keyword}{values.get(name, name)}" for keyword, name in _handed_on(evaluator)[1]]
    return f"{call_name(parse(evaluator.source, evaluator.name).body, evaluator.called)}({', '.join(given)})"


def renaming(name: str) -> str:
    """Return what to do first with a function that has the line's own name; nothing for any other."""
    return "name it otherwise (NAME), and " if name == NAME else ""


def called_function(evaluator: Evaluator) -> FunctionNode | None:
    """Return the function that is called, as it is written; None where it is something else."""
    found = names_of(parse(evaluator.source, evaluator.name).body).get(evaluator.called)
    return found if isinstance(found, FunctionNode) else None


def _handed_on(evaluator: Evaluator) -> tuple[list[str], list[tuple[str, str]]]:
    """
    The line's parameters, and those of the evaluator's function, each behind its keyword.

    All of them: a column may fill one with a default, and what is not handed on changes the numbers without a word.
    """
    required = [one.name for one in evaluator.parameters if one.required]
    function = called_function(evaluator)
    if function is None:
        return required, [("", name) for name in required]
    args = function.args
    places = [one.arg for one in (*args.posonlyargs, *args.args)]
    usual: dict[str, ast.expr | None] = dict(zip(places[::-1], args.defaults[::-1], strict=False))
    usual |= {one.arg: value for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)}
    names = [*places, *(one.arg for one in args.kwonlyargs)]
    optional = {name: node for name in names if name not in required and (node := usual.get(name)) is not None}
    first = [*takewhile(lambda name: name in required or name in places[: len(args.posonlyargs)], places)]
    own = [*required, *(f"{name}={expression(node)}" for name, node in optional.items())]
    rest = [(f"{name}=", name) for name in (*required, *optional) if name not in first]
    return own, [*(("", name) for name in first), *rest]
