"""What a function of a script reads of the row, as far as its text shows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.types import Evaluator, Parameter
from runner.inputs.evaluators.foreign.module import ModuleFunction, ScriptModule, read_python
from runner.inputs.evaluators.python.signature import (
    CallableNode,
    FunctionNode,
    empty,
    expression,
    key_of,
    parameters,
    parse,
    reach,
)
from sandboxes.base import Language

_HANDED = 3
"""Functions through which an object is followed, one from the next."""


class ReadKey(NamedTuple):
    """A key of an object that a function reads by its name."""

    name: str
    required: bool
    """True if the function fails without it: `x["key"]`, and nowhere asked whether it is there."""


def uses(module: ScriptModule, entry: str, name: str) -> bool:
    """Say whether a function does anything with this parameter; True if its text cannot be found."""
    function = module.definition(entry)
    if function is None:
        return True
    return any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load) for one in _body(function)
    )


def asks(module: ScriptModule, entry: str, name: str) -> bool:
    """
    Say whether a function needs this parameter of its: it uses it, and asks nowhere whether it is there.

    One without a default is used as the tool gives it, be it None; then it is for the caller to say so.
    """
    function = module.definition(entry)
    if function is None or not uses(module, entry, name):
        return False
    own = {one.name: one.required for one in parameters(function.args)}
    if name not in own or own[name]:
        return name in own
    for node in _body(function):
        match node:
            case ast.Compare(left=left, comparators=[ast.Constant(value=None)]):
                tests = [left]
            case ast.If(test=test) | ast.IfExp(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
                tests = [test]
            case ast.BoolOp(values=tests):
                pass
            case _:
                continue
        if any(isinstance(one, ast.Name) and one.id == name for one in tests):
            return False
    return True


def needs(module: ScriptModule, function: ModuleFunction, reference: str) -> set[str]:
    """Return the words of a row that a function needs beside the output; `reference` is the tool's own name for one."""
    own = {"reference": reference, "input": "input"}
    found = {word for word, name in own.items() if name in function.required and uses(module, function.name, name)}
    return found | ({"reference"} if asks(module, function.name, reference) else set())


def uses_default(evaluator: Evaluator, parameter: str, names: Collection[str]) -> bool:
    """Say whether the script reads a parameter that no column fills, and gets None or an empty text for it."""
    if "." in parameter:
        return True  # a key that is read
    if evaluator.language == "typescript":
        return any(
            len(re.findall(rf"(?<![\w$]){re.escape(one.rpartition('.')[2])}(?![\w$])", evaluator.source)) > 1
            for one in names
        )
    module = read_python(evaluator.source, evaluator.name)
    if evaluator.dialect is None:
        function = module.definition(evaluator.called)
        return function is not None and parameter in empty(function.args) and uses(module, evaluator.called, parameter)
    return any(
        (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.Constant) and node.value in names)
        for node in module.nodes()
    )


def speaks_of(source: str, name: str, language: Language, words: Collection[str]) -> bool:
    """Say whether a script reads what is called by one of these words, or by a name with one: no parameter says so."""
    any_of = "|".join(map(re.escape, words))
    if language == "typescript":
        named = re.findall(rf"(?i)(\.?)\b(\w*(?:{any_of})\w*)", source)
        return any(dot or [one for _, one in named].count(word) > 1 for dot, word in named)
    found = re.compile(any_of)
    try:
        module = read_python(source, name)
    except EvaluatorError:
        return found.search(source) is not None
    return any(
        (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and found.search(node.id))
        or (isinstance(node, ast.Attribute) and found.search(node.attr))
        or (isinstance(node, ast.Constant) and str(node.value).isidentifier() and found.search(str(node.value)))
        for node in module.nodes()
    )


def object_keys(evaluator: Evaluator, parameter: str, names: Sequence[str]) -> list[str]:
    """
    Return the keys that a script reads of what it gets for a parameter: as one of `names`, or as `ctx.expected_output`.

    None of a tool's whose part in the guest makes the object itself.
    """
    if evaluator.language == "typescript" and evaluator.entry is not None and evaluator.dialect != "langsmith":
        from runner.inputs.evaluators.typescript.entries import keys_of
        from runner.inputs.evaluators.typescript.object_reads import OF_VALUES

        if evaluator.dialect is None:
            return keys_of(evaluator.source, evaluator.entry, parameter)
        of_any = "|".join(map(re.escape, dict.fromkeys((*names, parameter))))
        every = re.findall(rf"(?<![\w$])(?:{of_any})[?!]?\.(\w+)(?!\s*\()", evaluator.source)
        return [key for key in dict.fromkeys(every) if key not in OF_VALUES]
    if evaluator.language != "python" or evaluator.dialect == "langsmith" or evaluator.is_inline:
        return []
    own = {parameter, *names}
    found: dict[str, None] = {}
    for node in reached_nodes(parse(evaluator.source, evaluator.name), evaluator.entry or evaluator.called):
        if (read := key_of(node)) is None or read[2] == "in":
            continue
        value, key, _ = read
        if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
            value = value.values[0]
        if (isinstance(value, ast.Name) and value.id in own) or (
            isinstance(value, ast.Attribute) and value.attr in own
        ):
            found[key] = None
    return list(found)


def reached_nodes(tree: ast.Module, entry: str) -> Iterator[ast.AST]:
    """Yield what stands in the function or class that is called, and in those of the script that it names; else all."""
    for node in reach(tree.body, entry) or [tree]:
        yield from ast.walk(node)


def reads(module: ScriptModule, entry: str, name: str) -> bool:
    """
    Say whether a function or class reads an attribute of this name, or a parameter that it cannot be called without.
    """
    for node in ast.walk(module.names.get(entry.partition(".")[0]) or ast.Pass()):
        match node:
            case ast.Attribute(attr=attribute, ctx=ast.Load()) if attribute == name:
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() if name in _required(node):
                if any(isinstance(one, ast.Name) and one.id == name for one in _body(node)):
                    return True
    return False


def case_reads(module: ScriptModule, entry: str, methods: Collection[str]) -> dict[str, bool]:
    """
    Return the attributes that a class reads of the object that these methods of its get; True for one it cannot do
    without.

    What functions of the script read that it hands the object to counts too, and what it sets itself does not.
    """
    kinds, left = dict[str, ast.ClassDef](), [entry]
    while left:
        if isinstance(node := module.names.get(name := left.pop()), ast.ClassDef) and name not in kinds:
            kinds[name] = node
            left += module.classes[name].bases if name in module.classes else ()
    cases = {
        one.names[0]
        for name in kinds.keys() & module.classes.keys()
        for method in (*methods, *(f"a_{one}" for one in methods))
        if (one := module.classes[name].methods.get(method)) is not None and one.names
    }
    methods_of = [module.classes[name].methods for name in kinds.keys() & module.classes.keys()]
    every = (one for node in (*kinds.values(), *module.names.values()) for one in ast.walk(node))
    calls = [one for one in every if isinstance(one, ast.Call)]
    for _ in range(_HANDED):
        for call in calls:
            match call.func:
                case ast.Name(id=name):
                    called = module.functions.get(name)
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                    called = next((one[name] for one in methods_of if name in one), None)
                case _:
                    continue
            own_names = () if called is None else called.names
            cases |= {
                own
                for own, one in zip(own_names, call.args, strict=False)
                if isinstance(one, ast.Name) and one.id in cases
            }
    found: dict[str, bool] = {}
    stored: set[str] = set()
    functions = [node for name, node in module.names.items() if name in module.functions]
    for node, own in (*((one, True) for one in kinds.values()), *((one, False) for one in functions)):
        functions_called = {id(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(value=ast.Name(id=case), attr=attr, ctx=ast.Load()) if case in cases:
                    if id(inner) not in functions_called:
                        found[attr] = found.get(attr, own)
                case ast.Attribute(value=ast.Name(id=case), attr=attr) if case in cases:
                    stored.add(attr)
                case ast.Call(
                    func=ast.Name(id="getattr" | "hasattr" as how),
                    args=[ast.Name(id=case), ast.Constant(value=str(attr)), *rest],
                ) if case in cases:
                    found[attr] = found.get(attr, own) and how == "getattr" and not rest
    return {attr: needed for attr, needed in found.items() if attr not in stored and not attr.startswith("_")}


def keys(module: ScriptModule, entry: str, *objects: str) -> list[ReadKey]:
    """Return the keys that a function reads of objects, each as it is written there: `example.outputs`, `kwargs`."""
    function = module.definition(entry)
    return [] if function is None else keys_of(function, *objects)


def keywords(module: ScriptModule, entry: str, *words: str) -> list[Parameter]:
    """
    Return the keys that a function reads of its `**kwargs`; if it hands these on, also the `words` that the script has.
    """
    function = module.definition(entry)
    if function is None or function.args.kwarg is None:
        return []
    rest = function.args.kwarg.arg
    read = [Parameter(name=key.name, required=key.required) for key in keys_of(function, rest)]
    owners = {id(own[0]) for node in _body(function) if (own := key_of(node))}
    every = [one for one in _body(function) if isinstance(one, ast.Name) and one.id == rest and id(one) not in owners]
    if not any(isinstance(one.ctx, ast.Load) for one in every):
        return read
    known = {key.name for key in read}
    return [
        *read,
        *(Parameter(name=word, required=False) for word in words if word not in known and mentions(module, word)),
    ]


def mentions(module: ScriptModule, name: str) -> bool:
    """Say whether a script has the word anywhere, as a name, a parameter, an attribute or a text."""
    return re.search(rf"(?<!\w){name}(?!\w)", module.source) is not None


def keys_of(function: CallableNode, *objects: str) -> list[ReadKey]:
    """Return `keys` of a function as it is written."""
    found: dict[str, None] = {}
    objects = aliases(function, objects)
    optional: set[str] = set()
    for node in _body(function):
        if (read := key_of(node)) and _is(read[0], objects):
            _, key, how = read
            if how != "in":
                found[key] = None
            if how != "index":
                optional.add(key)
    return [ReadKey(name, name not in optional) for name in found]


def takes_whole(module: ScriptModule, entry: str, *objects: str) -> bool:
    """Say whether a function uses one of these objects in any way, and asks nowhere whether it is empty."""
    function = module.definition(entry)
    if function is None:
        return False
    own = aliases(function, objects)
    for node in _body(function):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
                pass
            case _:
                continue
        if any(_is(one, own) for one in (test.values if isinstance(test, ast.BoolOp) else [test])):
            return False
    return any(isinstance(node, ast.Attribute | ast.Subscript) and _is(node, objects) for node in _body(function))


def _required(function: FunctionNode) -> set[str]:
    return {one.name for one in parameters(function.args) if one.required}


def _is(node: ast.expr, objects: Collection[str]) -> bool:
    """Whether an expression is one of these, however its keys are quoted."""
    return any(text in objects for text in texts_of(node))


def texts_of(node: ast.expr) -> Iterator[str]:
    """Yield what an expression may be, as it is written: `x or {}`, `dict(x)` and `x if y else {}` are x."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=[first, *_]):
            yield from texts_of(first)
        case ast.IfExp(body=body, orelse=orelse):
            yield from texts_of(body)
            yield from texts_of(orelse)
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(key)), *_]):
            yield from (f"{text}.{key}" for text in texts_of(owner))
        case ast.Call(func=ast.Name(id="dict" | "copy" | "deepcopy"), args=[value]):
            yield from texts_of(value)
        case ast.Call(func=ast.Attribute(value=value, attr="copy"), args=[]):
            yield from texts_of(value)
    yield expression(node).replace("'", '"')


def aliases(function: CallableNode, objects: tuple[str, ...]) -> tuple[str, ...]:
    """Return the objects, also by the names that the function gives them: `r = example.outputs or {}`."""
    known = dict.fromkeys(objects)
    for node in (*_body(function), *_body(function)):  # a name may be given to what has one
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=False))
            case ast.Assign(targets=[name], value=value) | ast.NamedExpr(target=name, value=value):
                pairs = [(name, value)]
            case ast.AnnAssign(target=name, value=ast.expr() as value):
                pairs = [(name, value)]
            case _:
                continue
        for target, own in pairs:
            if isinstance(target, ast.Name):
                for text in texts_of(own):
                    begins = (text, f"{text}.", f"{text}[")
                    known |= {
                        target.id + one[len(text) :]: None for one in known if one == text or one.startswith(begins[1:])
                    }
    return tuple(known)


def _body(function: CallableNode) -> Iterator[ast.AST]:
    for statement in function.body if isinstance(function.body, list) else [function.body]:
        yield from ast.walk(statement)
