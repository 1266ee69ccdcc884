"""What a script of another tool can be given beside a row's own words: what it would drop is refused before a run."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import NamedTuple

from runner.core.text import list_names, printable, suggestion
from runner.core.types import Evaluator
from runner.inputs.evaluators.foreign.dialects.langfuse import PAGE
from runner.inputs.evaluators.foreign.javascript import read_javascript
from runner.inputs.evaluators.foreign.module import ModuleFunction, ScriptModule, maker_of, read_python
from runner.inputs.evaluators.foreign.reads import keys_of, mentions
from runner.inputs.evaluators.foreign.types import DATA
from runner.inputs.evaluators.python.signature import FunctionNode

PARTS: dict[str, tuple[str, ...]] = {
    "promptfoo": ("vars", "providerResponse", "context"),
    "openai": ("item", "sample"),
    "lm-eval": ("doc",),
    "trl": ("column", "set"),
}
"""By dialect: the objects that its part in the guest makes of dotted names itself; any other is one of its own."""
_ALL_ITSELF = "langsmith"
_OF_ROWS = ("inputs", "outputs", "reference_outputs", "referenceOutputs", "else")
_FIXED = ("openai", "lm-eval", "mlflow")
"""A function of these is given its tool's own objects, and nothing else."""
_BY_NAME = ("langfuse", "braintrust", "trl", "opik", "phoenix", "ragas", "weave", "inspect")
"""A function of these is given what its parameters name."""
_MADE = ("deepeval", "inspect", "mlflow", "pydantic-evals")
"""A class of these gets its arguments by `--set`, which an instance of the script has already."""
_FILLED = {"braintrust": ("id", "tags", "trace")}
_OF_METRICS = ("threshold", "model", "strict_mode", "async_mode", "include_reason", "verbose_mode")
_OF_CASES = (
    *("context", "retrieval_context", "tools_called", "expected_tools", "additional_metadata", "name", "tags"),
    *("token_cost", "completion_time", "comments", "multimodal", "mcp_servers", "mcp_tools_called"),
)
_KEYWORDS = ((), ("input",), ("output",), ("expected_output",), ("metadata",))
"""How the required parameters of one of Langfuse's SDK begin; that of its page takes one object."""
_METHODS = {"langsmith": "evaluate_run", "opik": "score", "weave": "score", "trl": "__call__"}


class AcceptedNames(NamedTuple):
    """What a script takes."""

    words: str
    """How the script declares it: `M.score(output, item)`."""
    names: tuple[str, ...]
    rest: ast.arg | None = None
    """Its `**kwargs`."""
    read: tuple[str, ...] | None = None
    """The names that it reads of these, where it does nothing else with them."""


def splits(evaluator: Evaluator, head: str) -> bool:
    """Say whether the dialect's part in the guest takes `head.key` by that whole name."""
    return evaluator.dialect == _ALL_ITSELF or head in PARTS.get(evaluator.dialect or "", ())


def refusal(evaluator: Evaluator, name: str) -> str | None:
    """
    Return why a script of a dialect cannot be given a name that is none of a row's; None if it can, or may be able to.
    """
    assert evaluator.dialect is not None
    head, dot, _ = name.partition(".")
    if evaluator.dialect == _ALL_ITSELF:
        return _of_langsmith(evaluator, head)
    if (dot and splits(evaluator, head)) or (own := _taken(evaluator)) is None:
        return None
    if own.rest is not None or head in own.names:
        return None
    if evaluator.dialect == "deepeval":
        return _of_metric(evaluator, head, own.words)
    key = printable(name.rpartition(".")[2], 60)
    step = {"openai": f"write `item.{key}`, or `sample.{key}`", "lm-eval": f"write `doc.{key}`"}.get(evaluator.dialect)
    near = suggestion(head, own.names)
    return f"{own.words} has no parameter `{printable(head, 60)}`{near}; {step or 'leave it out'}"


def _of_langsmith(evaluator: Evaluator, head: str) -> str | None:
    """Why an evaluator of LangSmith's would not see a name: it is given a run and its example, and its own defaults."""
    if head in _OF_ROWS or not evaluator.evaluates or not evaluator.entry or evaluator.entry.startswith("<"):
        return None
    own: tuple[str, ...] = ()
    if evaluator.language == "typescript":
        words = evaluator.entry
    else:
        module = read_python(evaluator.source, evaluator.name)
        function = _function(module, evaluator.entry, _ALL_ITSELF)
        if function is None or (head not in ("run", "example") and head in function.names):
            return None
        words, own = function.words, function.names
    parts = "`outputs`, `reference_outputs`, `inputs`, or a key of one, such as `outputs.KEY`"
    if head in ("run", "example"):
        return f"`{head}` of {words} is made of a row's columns; map what is in it: {parts}"
    return f"{words} has no parameter `{printable(head, 60)}`{suggestion(head, own)}; what can be mapped is {parts}"


def unread(evaluator: Evaluator, names: Collection[str]) -> str | None:
    """Say that a script reads none of these of its `**kwargs`, as far as its text tells it."""
    own = _taken(evaluator) if evaluator.dialect and names else None
    if own is None or own.rest is None or own.read is None:
        return None
    heads = dict.fromkeys(name.partition(".")[0] for name in names)
    lost = [one for one in heads if one not in (*own.names, *own.read)]
    if not lost:
        return None
    reads = f"reads {list_names(own.read)} of" if own.read else "reads nothing of"
    return f"{own.words} does nothing with {list_names(lost)}: it {reads} its **{own.rest.arg}"


def _taken(evaluator: Evaluator) -> AcceptedNames | None:
    """None where the script's text does not tell it."""
    dialect, entry = evaluator.dialect or "", evaluator.entry or ""
    if dialect == "openai" and entry == DATA:
        return AcceptedNames("the grader", ())
    if not evaluator.evaluates or entry.startswith("<"):
        return None
    if evaluator.language == "typescript":
        return AcceptedNames(f"{PAGE}(ctx)", ()) if dialect == "langfuse" else _of_javascript(evaluator, entry)
    module = read_python(evaluator.source, evaluator.name)
    made = isinstance(module.values.get(entry), ast.Call)
    if made and dialect in _MADE and (dialect == "deepeval" or maker_of(module, entry) in module.classes):
        # It takes no arguments any more.
        return AcceptedNames(f"`{entry}`, which the script has made,", ())
    function = _function(module, entry, dialect)
    if function is None:
        return None
    if dialect in _FIXED or (dialect == "langfuse" and entry == PAGE and function.required[:1] not in _KEYWORDS):
        return AcceptedNames(function.words, ())
    if dialect not in _BY_NAME:
        return None
    names = tuple(one for one in function.names if one not in _FILLED.get(dialect, ()))
    node = module.definition(function.name)
    rest = node.args.kwarg if isinstance(node, FunctionNode) else None
    if function.accepts_any and rest is None:
        return None
    return AcceptedNames(function.words, names, rest, _reads(node, rest) if isinstance(node, FunctionNode) else None)


def _of_metric(evaluator: Evaluator, name: str, words: str) -> str | None:
    """Why a metric of deepeval that is made already cannot be given this; a case may have any attribute."""
    module = read_python(evaluator.source, evaluator.name)
    value, kind = module.values.get(evaluator.entry or ""), module.classes.get(maker_of(module, evaluator.entry or ""))
    own = set(kind.methods["__init__"].names) if kind is not None and "__init__" in kind.methods else set(_OF_METRICS)
    own |= {one.arg for one in value.keywords if one.arg} if isinstance(value, ast.Call) else set()
    if name in _OF_CASES or (name not in own and mentions(module, name)):
        return None
    step = f"write it where `{evaluator.entry}` is made, in line {getattr(value, 'lineno', 1)}"
    return f"{words} takes no `{printable(name, 60)}` any more: {step if name in own else 'leave it out'}"


def _of_javascript(evaluator: Evaluator, entry: str) -> AcceptedNames | None:
    """A function that takes its object apart, with nothing for the rest."""
    if evaluator.dialect != "braintrust":
        return None
    function = read_javascript(evaluator.source, evaluator.name).called(entry)
    if function is None or not function.parts or "..." in evaluator.source:
        return None
    return AcceptedNames(f"{function.name}({{ {', '.join(function.parts)} }})", function.parts)


def _function(module: ScriptModule, entry: str, dialect: str) -> ModuleFunction | None:
    """What the tool calls: a function, or a method that the script itself has, and no other of its class could fill."""
    kind = module.classes.get(maker_of(module, entry))
    if kind is None:
        return None if entry in module.values else module.called(entry)
    method = kind.methods.get(_METHODS.get(dialect, ""))
    if method is None or dialect != "weave":
        return method
    node = module.names.get(kind.name)
    if "__init__" in kind.methods or not all(one.startswith("weave.") for one in kind.bases):
        return None
    body = node.body if isinstance(node, ast.ClassDef) else []
    fields = [one.target.id for one in body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    own = [one for one in (*fields, "name", "description", "column_map") if one not in method.names]
    template = method.parameters[0] if method.parameters else None
    more = () if template is None else tuple(template.model_copy(update={"name": one}) for one in own)
    return method._replace(parameters=(*method.parameters, *more))


def _reads(node: FunctionNode, rest: ast.arg | None) -> tuple[str, ...] | None:
    """The keys that a function reads of its `**kwargs`; None if it does anything else with them."""
    if rest is None:
        return None
    every = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == rest.arg]
    found = [key.name for key in keys_of(node, rest.arg)]
    owners = [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Subscript | ast.Attribute | ast.Compare)
        for child in ast.iter_child_nodes(one)
        if child in every
    ]
    literal = all(
        (isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Constant))
        or (isinstance(one, ast.Attribute) and one.attr == "get")
        or (isinstance(one, ast.Compare) and isinstance(one.left, ast.Constant))
        for one in owners
    )
    return tuple(found) if len(owners) == len(every) and literal else None
