"""What a script in TypeScript defines that can be called for a row. Nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import list_names, printable, suggestion
from runner.core.types import Aggregate, Parameter
from runner.inputs.evaluators.column_suggestions import OUTPUTS, REFERENCES, plain_name
from runner.inputs.evaluators.entrypoint import NAME, RESULTS, naming
from runner.inputs.evaluators.python.entries import Entry, which, with_reference
from runner.inputs.evaluators.python.signature import Signature
from runner.inputs.evaluators.typescript.create_scorer import (
    CreatedScorer,
    created_scorer,
    package_step,
    run_parameters,
    unseen_scorers,
)
from runner.inputs.evaluators.typescript.members import (
    CALLABLE_KINDS,
    DEFAULT,
    ObjectMember,
    member_at,
    members_in,
    members_of,
    methods_of,
    needs_nothing,
    owner_of,
)
from runner.inputs.evaluators.typescript.object_reads import OF_VALUES, reads_of, reads_of_pattern
from runner.inputs.evaluators.typescript.parse import CLASSES, FUNCTIONS, NO_FUNCTIONS, TangledError, TypeScriptModule
from runner.inputs.evaluators.typescript.signature import (
    DEFINE,
    UnseenError,
    aggregate_in,
    calls,
    description_of,
    formals_of,
    gives_result,
    parameters_of,
    read_script,
    refuse_generator,
    unused_at,
)
from sandboxes.errors import SandboxUnavailableError

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST = 1000
_HOLD = ("object", "new_expression", "array", *CLASSES)


class _Callable(NamedTuple):
    """What is called by a name."""

    node: Node
    annotation: Node | None = None
    """The type that is written for it from outside."""
    member: ObjectMember | None = None
    created: CreatedScorer | None = None
    """What `createScorer` was given, where that is called."""


_RUN = re.compile(
    r"\b(\w+)[?!]?\.(?:results|caseResults|cases|samples|rows|evaluations)\b"
    r"(?=[?!]?\.(?:map|filter|reduce|forEach|flatMap|every|some|length)\b|\s*\)\s*\{)"
)
_ARRAY = re.compile(r"(readonly\s+)?([\w.]+|\{.*\}|\([^()]*\))\s*\[\]|(Readonly)?Array<.*>", re.DOTALL)
_TEXT = 100_000
"""Bytes of a function that are looked through."""


def entries_of(text: str, where: str) -> dict[str, Entry]:
    """Return what a script defines that can be called, of which the parameters can be seen."""
    try:
        script = TypeScriptModule(text)
    except TangledError:
        return {}
    found = {}
    for name, one in _callables(script).items():
        if entry := _entry(script, name, one, where):
            found[name] = entry
    bases = {*re.findall(r"\bextends\s+([A-Za-z_$][\w$]*)", text)}  # those that extend them are meant
    for name, node in _names(script).items():
        kind = script.resolved(node)
        if name in bases:
            continue
        if kind.type in CLASSES and methods_of(script, kind) and not needs_nothing(script, kind):
            step = _class_step(script, kind, name, where)
            found.setdefault(name, Entry(name, (), line=node.start_point.row + 1, makes=True, step=step))
    called = calls(script)
    # Who calls it is not looked for in TypeScript: something that is no entry.
    found = {name: one._replace(callers=frozenset({""} if name in called else ())) for name, one in found.items()}
    own = {*script.exported, *_common(script)}
    lists = [one for one in map(script.resolved, script.exported.values()) if one.type == "array"]
    own |= {script.text(each, 200) for one in lists for each in one.named_children if each.type == "identifier"}
    if any(name.partition(".")[0] in own for name in found):
        inside = found.keys() - {name for name in found if name.partition(".")[0] in own}
        found |= {name: found[name]._replace(scores=False) for name in inside}
    default = _common(script).get("default")
    if default is not None and any(
        one.line == found["default"].line for one in found.values() if one.name != "default"
    ):
        del found["default"]
    return found


def signature_of(text: str, where: str, name: str) -> Signature:
    """Return the signature of a function that was named. Raises EvaluatorError where it is none, or cannot be seen."""
    script = read_script(text, where)
    one = _callables(script).get(name)
    if one is None:
        raise EvaluatorError(_refusal(script, text, where, name))
    function = one.node
    if step := _made(script, function, name, where):
        raise EvaluatorError(f"{where}: {step}")
    refuse_generator(function, where, name)
    if together := _together(script, function):
        raise EvaluatorError(
            f"{where}:{function.start_point.row + 1}: `{name}` takes `{together}`, those of all rows together; define "
            "`function aggregate(results) { … }` for figures of all rows, docs/how-to/aggregates.md, and `evaluate` "
            "for one row"
        )
    if one.created is not None and one.created.asks:
        raise EvaluatorError(
            f"{where}: `{printable(name, 60)}` asks a model, by its `{one.created.asks}`, and scores nothing without "
            "it; give a function of your own what the model replied, as a column, and score that"
        )
    parameters, accepts_any = _parameters(script, one, where, name)
    if not parameters and not accepts_any and not formals_of(function):
        raise EvaluatorError(
            f"{where}:{function.start_point.row + 1}: `{printable(name, 60)}()` takes nothing of a row, so that all "
            f"rows would have one score; {which([*entries_of(text, where).values()], where) or DEFINE}"
        )
    if not accepts_any:
        parameters = with_reference(parameters, None)
    aggregate = None if aggregate_in(script) is None else Aggregate(accepts_any=True)
    return Signature(parameters, accepts_any, description_of(script, function), aggregate=aggregate)


def keys_of(text: str, name: str, parameter: str) -> list[str]:
    """Return the keys that a function reads of one of its parameters."""
    return _read(text, name, parameter)[0]


def reads_more(text: str, name: str, parameter: str) -> bool:
    """Say whether a function may read other keys of a parameter than its text shows."""
    return _read(text, name, parameter)[1]


def _read(text: str, name: str, parameter: str) -> tuple[list[str], bool]:
    script = TypeScriptModule(text)
    one = _callables(script).get(name)
    if one is None:
        return [], False
    formals = formals_of(one.node)
    found = reads_of(script, one.node, parameter)
    if formals and not any(script.text(each.pattern) == parameter for each in formals):  # a key of the first
        found = found.joined(reads_of_pattern(script, one.node, formals[0].pattern, path=(parameter,)))
    return [key for key in found.keys if key not in OF_VALUES], found.unseen or found.more


def arrays_of(text: str, name: str) -> tuple[list[str], str]:
    """Return the parameters that a function declares as arrays alone, and how the script calls it."""
    script = TypeScriptModule(text)
    one = _callables(script).get(name)
    if one is None:
        return [], name
    called = name if one.member is None else f"{one.member.owner}.{name.rpartition('.')[2]}"
    own = [each for each in formals_of(one.node) if each.plain]
    written = [(each, script.text(each.annotation, 2000).lstrip(": ") if each.annotation else "") for each in own]
    return [script.text(each.pattern, 60) for each, kind in written if _ARRAY.fullmatch(kind)], called


def common_entry(text: str) -> str | None:
    """Return what is called of a CommonJS module of no tool: `evaluate`, or the module itself, by a row's columns."""
    try:
        script = TypeScriptModule(text)
    except (TangledError, SandboxUnavailableError):  # told where the script is read
        return None
    if NAME in _callables(script) and _is_common(script):
        return NAME
    default = _common(script).get("default")
    return "default" if default is not None and _takes_row(script, default) else None


def unseen_step(text: str) -> str:
    """Return what to do with scorers of a script that have no name, or are made elsewhere; empty for none of these."""
    try:
        return unseen_scorers(TypeScriptModule(text))
    except (TangledError, SandboxUnavailableError):
        return ""


def unseen_error(text: str, where: str, error: UnseenError) -> EvaluatorError:
    """Return the error, or one that says which package's function makes what the script exports."""
    step = package_step(TypeScriptModule(text), "", error.node)
    return EvaluatorError(f"{where}:{error.node.start_point.row + 1}: {step}") if step else error


def takes_row(text: str, function: Node) -> bool:
    """Say whether a function takes a row's columns in one object, as no assertion of promptfoo does."""
    return _takes_row(TypeScriptModule(text), function)


def _takes_row(script: TypeScriptModule, function: Node) -> bool:
    formals = formals_of(function)
    if len(formals) != 1:
        return False
    name = script.text(formals[0].pattern, 60)
    read = {*map(plain_name, reads_of(script, function, name).keys)} if formals[0].plain else set()
    return formals[0].pattern.type == "object_pattern" or bool(read & OUTPUTS and read & (REFERENCES - OUTPUTS))


def calling(text: str, name: str) -> tuple[str, str]:
    """
    Return the script with what is called exported, on lines of their own where that has to be made, and its name there.
    """
    try:
        script = TypeScriptModule(text)
    except TangledError:
        return text, name
    one = _callables(script).get(name)
    if one is None:
        return text, name
    from runner.inputs.evaluators.foreign.guest import common_function, common_start

    is_common = _is_common(script)
    formals = formals_of(one.node)
    unused = unused_at(script, one.node)
    if one.member is None and not unused and not is_common:
        return script.runnable, name
    own = [f"a{at}" for at in range(len(formals)) if at not in unused]
    given = ", ".join("undefined" if at in unused else f"a{at}" for at in range(len(formals)))
    own, given = (own, given) if unused else (["...given"], "...given")
    parameters, lines, awaits = ", ".join(own), "", ""
    if one.member is None:
        called = name if name in script.bindings else ""
        called = common_function(name, called) if is_common else called
    else:
        owner, key = one.member.owner, one.member.key
        called = f"evalcellOwner[{key}]"
        if (awaited := owner_of(one.member)) != owner:
            lines = "let evalcellOwner;\n"
            owner = awaited
            awaits, called = "async ", f"(evalcellOwner ??= {owner})[{key}]"
        else:
            lines = f"const evalcellOwner = {owner};\n"
    if not called:
        awaits, called = "async ", f"(await import(import.meta.url))[{json.dumps(name)}]"
    shown = f"{name}()"
    start = common_start(text) if is_common else ""
    source = f"{start}{script.runnable}\n{lines}const evalcellCalled = {awaits}({parameters}) => {called}({given});\n"
    return f"{source}export {{ evalcellCalled as {json.dumps(shown)} }};\n", shown


def _refusal(script: TypeScriptModule, text: str, where: str, name: str) -> str:
    """Why what was named cannot be called, and what to do."""
    word, first = printable(name, 60), name.partition(".")[0]
    entries = entries_of(text, where)
    node = _names(script).get(name)
    members = [one for one in entries.values() if one.name.startswith(f"{name}.")]
    if node is None and (
        first == name or not (inside := [e for e in entries.values() if e.name.startswith(f"{first}.")])
    ):
        found = which([*entries.values()], where) or f"it defines {list_names(entries, 6) or 'no functions'}"
        return f"{where} has no function `{word}`{suggestion(name, entries)}; {found}"
    if node is None:
        found = which(inside, where) or f"it has {list_names([one.name for one in inside], 6)}"
        return f"{where}: `{printable(first, 60)}` has no function `{word}`{suggestion(name, entries)}; {found}"
    line, resolved = node.start_point.row + 1, script.resolved(node)
    if members:
        step = which(members, where) or f"name one of {list_names([one.name for one in members], 6)}"
        kind = "a class" if resolved.type in CLASSES else "no function"
        return f"{where}:{line}: `{word}` is {kind}; {step}"
    if resolved.type in CLASSES:
        return f"{where}:{line}: {_class_step(script, resolved, name, where)}"
    if resolved.type in NO_FUNCTIONS:
        found = which([*entries.values()], where) or f"it defines {list_names(entries, 6) or 'no functions'}"
        return f"{where}:{line}: `{word}` is no function, and has none; {found}"
    if step := package_step(script, name, node):
        return f"{where}:{line}: {step}"
    return (
        f"{where}:{line}: the parameters of `{word}` cannot be seen without running the script; define `function "
        f"evaluate({{ output, reference }}) {{ return {word}(output, reference); }}`, as it is to be called"
    )


def _class_step(script: TypeScriptModule, node: Node, name: str, where: str) -> str:
    """What to write for a class of which no instance can be made without arguments."""
    methods, word = methods_of(script, node), printable(name, 60)
    if not methods:
        return f"`{word}` is a class without a method that takes a row; {DEFINE}"
    made = f"scorer.{methods[0]}"
    if node.type == "abstract_class_declaration":
        return (
            f"`{word}` is an abstract class; add `const scorer = new …(…);` of one that extends it to the script, and "
            f"name {naming(where, made)}"
        )
    return (
        f"`{word}` is a class that needs arguments; add `const scorer = new {word}(…);` to the script, and name a "
        f"method of that: {naming(where, made)}"
    )


def _made(script: TypeScriptModule, function: Node, name: str, where: str) -> str:
    """What a factory makes, and how to name the functions of that; nothing of what is no factory."""
    made, _ = script.result_of(function)
    created = created_scorer(script, made) is not None
    word = printable(name, 60)
    formals = [" ".join(script.text(one.pattern, 40).split()) for one in formals_of(function) if not one.optional]
    add = f"add `export const scorer = {word}({'…' if formals else ''});` to the script, and name"
    if made is not None and (created or made.type in FUNCTIONS):
        what = "makes a function, and scores nothing by itself"
        return f"`{word}({', '.join(formals)})` {what}; {add} {naming(where, 'scorer')}"
    if not {*map(plain_name, formals)} & OUTPUTS and (step := package_step(script, f"{word}()", made, makes=True)):
        return step
    inside = [] if made is None or made.type not in _HOLD else [*members_in(script, function, "scorer")]
    if not inside:
        return ""
    keys = list_names([one.name.removeprefix("scorer.") for one in inside], 4)
    what = f"makes an object with {keys}, and scores nothing by itself"
    return f"`{word}({', '.join(formals)})` {what}; {add} {naming(where, inside[0].name)}"


def _is_common(script: TypeScriptModule) -> bool:
    from runner.inputs.evaluators.foreign.javascript import common_exports

    return common_exports(script) is not None


def _common(script: TypeScriptModule) -> dict[str, Node]:
    """By name, the functions that a CommonJS module exports."""
    from runner.inputs.evaluators.foreign.javascript import common_exports

    common = common_exports(script)
    return {} if common is None else {name: one.node for name, one in common.functions.items() if one.node is not None}


def _names(script: TypeScriptModule) -> dict[str, Node]:
    """By name, what is exported or defined."""
    found = dict(list((script.bindings | script.exported).items())[:_MOST])
    default = found.get("default")
    if default is not None and any(
        name != "default" and script.resolved(node) == script.resolved(default) for name, node in found.items()
    ):
        del found["default"]
    return found


def _callables(script: TypeScriptModule) -> dict[str, _Callable]:
    """By name, what can be called: functions, and those in what else has a name."""
    found = {name: _Callable(node) for name, node in _common(script).items()}
    for name, node in _names(script).items():
        created = created_scorer(script, node)
        if created is not None:
            found.setdefault(name, _Callable(created.function, created=created))
        elif (function := _function(script, node)) is not None:
            found.setdefault(name, _Callable(function, script.annotation(node)))
            continue
        owner = name if name in script.bindings else DEFAULT
        if owner == name or name == "default":
            for one in islice(members_of(script, name, node, owner), _MOST - len(found)):
                found.setdefault(one.name, _Callable(one.node, None, one))
    if not script.exported:
        for one in islice(_of_common(script), _MOST):
            found.setdefault(one.name, _Callable(one.node, None, one))
    return found


def _of_common(script: TypeScriptModule) -> Iterator[ObjectMember]:
    """What is inside of what a CommonJS module exports as one object."""
    for statement in script.root.named_children:
        node = statement.named_child(0) if statement.type == "expression_statement" else None
        target = node.child_by_field_name("left") if node is not None and node.type == "assignment_expression" else None
        value = None if node is None else node.child_by_field_name("right")
        if target is not None and value is not None and script.text(target, 20) == "module.exports":
            for one in members_of(script, "exports", value, "module.exports"):
                name = one.name.removeprefix("exports.")
                if "." in name:  # the others are functions that it exports
                    yield one._replace(name=name)


def _together(script: TypeScriptModule, function: Node) -> str:
    """The first parameter of a function that takes all rows together; nothing for another."""
    first = next(iter(formals_of(function)), None)
    name = script.text(first.pattern, 20) if first else ""
    if name in (RESULTS, "rows", "allResults"):
        return name
    # A run of some framework, whose results it goes through.
    return next((run[0] for run in _RUN.finditer(script.text(function, _TEXT)) if run[1] == name), "")


def _parameters(script: TypeScriptModule, one: _Callable, where: str, name: str) -> tuple[tuple[Parameter, ...], bool]:
    if one.created is not None and one.created.steps:
        return run_parameters(script, one.created), False
    own, accepts_any = parameters_of(script, one.node, where, name, one.annotation)
    if one.created is not None:  # many take all that there is, and use a part
        text = script.text(one.node, _TEXT)
        own = tuple(
            each.model_copy(update={"required": each.required and len(re.findall(rf"\b{each.name}\b", text)) > 1})
            for each in own
        )
    return own, accepts_any


def _entry(script: TypeScriptModule, name: str, one: _Callable, where: str) -> Entry | None:
    function = one.node
    try:
        parameters, accepts_any = _parameters(script, one, where, name)
    except EvaluatorError:
        return None
    step = _made(script, function, name, where)
    if accepts_any and not any(one.required for one in parameters):  # an object, of which nothing is known
        parameters = ()
    scores = gives_result(script, function, one.annotation) and not _together(script, function)
    line = function.start_point.row + 1
    return Entry(name, parameters, accepts_any, line, makes=bool(step), scores=scores, step=step)


def _given(script: TypeScriptModule, call: Node, called: Node) -> Node | None:
    """The only function that is given to one of a package, as in `Scorer("same", (row) => …)`: it is called for it."""
    name = script.text(called, 60) if called.type == "identifier" else ""
    binding = None if name.startswith("define") else script.bindings.get(name)  # defines it for its own runner
    if binding is None or "import" not in f"{binding.type} {binding.parent.type if binding.parent else ''}":
        return None
    given = call.child_by_field_name("arguments")
    functions = [one for one in (given.named_children if given else ()) if one.type in FUNCTIONS]
    return functions[0] if len(functions) == 1 else None


def _function(script: TypeScriptModule, node: Node) -> Node | None:
    """The function that stands there, or that a call there makes."""
    found = script.resolved(node)
    if found.type == "call_expression" and (called := found.child_by_field_name("function")) is not None:
        factory = member_at(script, called)
        found = (script.returned(factory) if factory.type in CALLABLE_KINDS else None) or found
        found = _given(script, found, called) or found
    return found if found.type in FUNCTIONS else None
