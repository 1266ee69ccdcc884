"""Read a Python function as an evaluator."""

from __future__ import annotations

import functools
import inspect
import os
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NoReturn

from runner.core.errors import EvaluatorError
from runner.core.text import printable, whole
from runner.core.types import Evaluator
from runner.inputs.evaluators.entrypoint import NAME
from runner.inputs.evaluators.functions.carry import Carrier
from runner.inputs.evaluators.functions.layout import layout
from runner.inputs.evaluators.load import parse_evaluator

_DEF = "def evaluate(output, reference): …"


def read_function(function: object, *, packages: bool = False) -> Evaluator:
    """
    Return a function, with the imports, constants, functions and classes of its file that it uses, as an evaluator.

    `packages`: the caller names the packages that the script needs; otherwise those that it imports are its
    dependencies.

    Raises:
        EvaluatorError: For a function whose source is not known, and for what it uses and a script cannot contain, such
            as an open connection.
    """
    inner = _function(function)
    carried = Carrier(inner, checked=not packages)
    name = carried.name if inner.__name__ != "<lambda>" else "lambda"
    file = printable(whole(carried.home.file))
    if name == NAME and os.path.isfile(carried.home.file):
        name = os.path.splitext(os.path.basename(carried.home.file))[0]
    return parse_evaluator(layout(carried), name, f"the function `{printable(name, 60)}` of {file}")


def _function(value: Any) -> FunctionType:
    if isinstance(value, MethodType):
        _refuse(value, f"is a method of an object, which stays here; write a function that needs no object: {_DEF}")
    if isinstance(value, functools.partial):
        _refuse(
            value.func,
            "is a partial; pass the function, and its arguments as mapping={…} or InputMapping(literals={…})",
        )
    if isinstance(value, type):
        _refuse(value, f"is a class; write a function that uses it: {_DEF}")
    try:
        inner = inspect.unwrap(value)
    except ValueError:
        inner = value
    if isinstance(inner, BuiltinFunctionType) or type(inner).__name__ in ("builtin_function_or_method", "ufunc"):
        _refuse(inner, f"is built in and has no source; write a function that calls it: {_DEF}")
    if not isinstance(inner, FunctionType):
        _refuse(type(value), f"makes objects that can be called, which stay here; write a function: {_DEF}")
    around = inner.__qualname__.rpartition(".")[0]
    if around and not around.endswith("<locals>"):
        _refuse(inner, f"is a method of the class `{printable(around, 60)}`; write a function: {_DEF}")
    return inner


def _refuse(value: Any, why: str) -> NoReturn:
    raise EvaluatorError(f"`{printable(getattr(value, '__name__', type(value).__name__), 60)}` {why}")
