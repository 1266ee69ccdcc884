"""What a script in TypeScript defines that can be called for a row. Nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core.errors import EvaluatorError
from runner.core.text import listed, printable, suggestion
from runner.core.types import Aggregate
from runner.inputs.evaluators.entries import Entry, which, with_reference
from runner.inputs.evaluators.entrypoint import naming
from runner.inputs.evaluators.python_signature import Signature
from runner.inputs.evaluators.typescript.parse import CLASSES, FUNCTIONS, Module, TangledError
from runner.inputs.evaluators.typescript.signature import (
    aggregate_in,
    calls,
    description_of,
    parameters_of,
    read_script,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST = 1000


def entries_of(text: str, where: str) -> dict[str, Entry]:
    """What a script defines that can be called, of which the parameters can be seen."""
    try:
        script = Module(text)
    except TangledError:
        return {}
    found = {}
    for name, node in _names(script).items():
        if entry := _entry(script, name, node, where):
            found[name] = entry
    found |= {name: one for name, one in _common(script, text, where).items() if name not in found}
    called = calls(script)
    return {name: one._replace(helps=name in called) for name, one in found.items()}


def signature_of(text: str, where: str, name: str) -> Signature:
    """The signature of a function that was named. Raises EvaluatorError where it is none, or cannot be seen."""
    script = read_script(text, where)
    node = _names(script).get(name)
    function = None if node is None else _function(script, node)
    word = printable(name, 60)
    if node is None and (common := _common(script, text, where).get(name)) is not None:
        return Signature(with_reference(common.parameters, None), False, "")
    if node is None:
        entries = entries_of(text, where)
        found = which([*entries.values()], where) or f"it defines {listed(entries, 6) or 'no functions'}"
        raise EvaluatorError(f"{where} has no function `{word}`{suggestion(name, entries)}; {found}")
    if function is None:
        kind = "is a class; call it in a function" if script.resolved(node).type in CLASSES else "cannot be seen"
        what = f"`{word}` {kind}" if kind.startswith("is") else f"the parameters of `{word}` {kind} without running it"
        raise EvaluatorError(
            f"{where}:{node.start_point.row + 1}: {what}; define `function evaluate({{ output, reference }}) {{ return "
            f"{word}(output, reference); }}`, as it is to be called"
        )
    if script.returned(function) is not None:
        raise EvaluatorError(
            f"{where}: `{word}` makes a function; give what it makes a name in the script, such as "
            f"`const scorer = {word}(…)`, and name that: {naming(where, 'scorer')}"
        )
    parameters, accepts_any = parameters_of(script, function, where, name)
    if not accepts_any:
        parameters = with_reference(parameters, None)
    aggregate = None if aggregate_in(script) is None else Aggregate(accepts_any=True)
    return Signature(parameters, accepts_any, description_of(script, function), aggregate=aggregate)


def _common(script: Module, text: str, where: str) -> dict[str, Entry]:
    """What a CommonJS module exports, and takes its parameters by place."""
    if script.exported or "exports" not in text:
        return {}
    from runner.inputs.evaluators.foreign.javascript import read_javascript
    from runner.inputs.evaluators.foreign.module import PATTERN

    return {
        name: Entry(name, tuple(p.model_copy(update={"positional_only": True}) for p in one.parameters), line=one.line)
        for name, one in read_javascript(text, where).functions.items()
        if PATTERN not in one.names
    }


def _names(script: Module) -> dict[str, Node]:
    """By name, what is exported or defined."""
    found = dict(list((script.bindings | script.exported).items())[:_MOST])
    default = found.get("default")
    if default is not None and any(
        name != "default" and script.resolved(node) == script.resolved(default) for name, node in found.items()
    ):
        del found["default"]
    return found


def _entry(script: Module, name: str, node: Node, where: str) -> Entry | None:
    function = _function(script, node)
    if function is None:
        return None
    try:
        parameters, accepts_any = parameters_of(script, function, where, name)
    except EvaluatorError:
        return None
    makes = script.returned(function) is not None
    if accepts_any and not any(one.required for one in parameters):  # an object, of which nothing is known
        parameters = ()
    return Entry(name, parameters, accepts_any, node.start_point.row + 1, makes=makes)


def _function(script: Module, node: Node) -> Node | None:
    """The function that stands there, or that a call there makes."""
    found = script.resolved(node)
    if found.type == "call_expression" and (called := found.child_by_field_name("function")) is not None:
        factory = script.resolved(called)
        found = (script.returned(factory) if factory.type in FUNCTIONS else None) or found
    return found if found.type in FUNCTIONS else None
