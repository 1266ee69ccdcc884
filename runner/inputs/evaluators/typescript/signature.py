"""Read the signature of `evaluate` from a TypeScript script, by parsing it; nothing is run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import describe, list_names, point_at, printable, suggestion, whole
from runner.core.types import Aggregate, Parameter
from runner.inputs.evaluators.column_suggestions import INPUTS, OUTPUTS, REFERENCES, plain_name
from runner.inputs.evaluators.entrypoint import AGGREGATE, NAME, RESULTS
from runner.inputs.evaluators.python.beside import is_beside
from runner.inputs.evaluators.python.signature import ALONE, NoFunctionError, Signature
from runner.inputs.evaluators.typescript.object_reads import OF_VALUES, reads_of
from runner.inputs.evaluators.typescript.object_type import (
    Members,
    function_type,
    is_value,
    key_and_default,
    key_of,
    members,
)
from runner.inputs.evaluators.typescript.parse import CLASSES, FUNCTIONS, TangledError, TypeScriptModule
from runner.inputs.evaluators.typescript.syntax_errors import problem

if TYPE_CHECKING:
    from tree_sitter import Node

DEFINE = "define `function evaluate({ output, reference }) { … }`"
MOST = 255
"""Parameters."""

_COLUMNS = ("output", "reference", "input", "metadata")
_TEXTS = ("text", "s", "str", "string", "value", "a", "x")
_KINDS = {"internal_module": "namespace", "object": "object", **dict.fromkeys(CLASSES, "class")}
_WORD = re.compile(r"[\w$]+")
_COMMON_JS = ("module.exports", "exports.evaluate", "module.exports.evaluate")


def read_typescript(source: str, where: str) -> Signature:
    """
    Return the parameters of the `evaluate` that the script exports or defines.

    A destructured object gives its keys. One parameter of another kind is given the object, whose type says what is
    in it. Several parameters are given by position.

    Raises:
        EvaluatorError, SandboxUnavailableError: Where the parser is not installed.
    """
    script = read_script(source, where)
    found, whole_dataset = script.function(NAME), aggregate_in(script)
    aggregate = None if whole_dataset is None else Aggregate(accepts_any=True)
    if whole_dataset is not None and (found is None or found.node == whole_dataset):
        description = description_of(script, whole_dataset)
        return ALONE._replace(docstring=description, aggregate=aggregate)
    if found is None:
        raise NoFunctionError(where, _near_miss(script), DEFINE)
    function = found.node
    brought = function.child_by_field_name("source") if function.type == "import_statement" else None
    if brought is not None:
        raise EvaluatorError(
            f"{where}:{_line(function)}: this `evaluate` is imported from {script.text(brought, 80)}, and scores no "
            f"row itself; name a function of the script that does, or {DEFINE}"
        )
    if function.type not in FUNCTIONS:
        raise UnseenError(where, function)
    refuse_generator(function, where, NAME)
    parameters, accepts_any = parameters_of(script, function, where, NAME, found.annotation)
    return Signature(parameters, accepts_any, description_of(script, function), aggregate=aggregate)


def read_script(source: str, where: str) -> TypeScriptModule:
    """Parse a script. Raises EvaluatorError for wrong syntax, and for what it imports that is not there."""
    try:
        script = TypeScriptModule(source)
    except TangledError as error:
        raise EvaluatorError(f"{where}: {error}; look for a comment or a text that is not closed") from None
    if wrong := problem(script):
        raise EvaluatorError(point_at(where, source, *wrong))
    refuse_imports(script, where)
    return script


def aggregate_in(script: TypeScriptModule) -> Node | None:
    """Return the function `aggregate(results, …)`. One that does not take `results` first is the script's own."""
    found = script.function(AGGREGATE)
    if found is None or found.node.type not in FUNCTIONS:
        return None
    if found.how == "default":  # of another name it is `evaluate`
        named = found.node.child_by_field_name("name")
        if named is None or script.text(named) != AGGREGATE:
            return None
    formals = formals_of(found.node)
    return found.node if formals and script.text(formals[0].pattern, 20) == RESULTS else None


class UnseenError(EvaluatorError):
    """What is called is no function as far as the text tells it."""

    def __init__(self, where: str, node: Node) -> None:
        self.node = node
        super().__init__(
            f"{where}:{_line(node)}: the parameters of this `evaluate` cannot be seen without running the script; "
            f"{DEFINE}"
        )


def _line(node: Node) -> int:
    return node.start_point.row + 1


def refuse_imports(script: TypeScriptModule, where: str) -> None:
    """Refuse a script that imports what is not in its file. Raises EvaluatorError."""
    if not script.foreign:
        return
    from sandboxes.deno.modules import import_problem  # with Deno's sandbox, which takes a while

    for specifier, line in script.foreign:
        if specifier.startswith(("./", "../")):
            continue  # it is looked for where the files are known
        name = describe(specifier, 60)
        if specifier.startswith((".", "/", "file:")) or (is_beside(where, specifier) and specifier != Path(where).stem):
            raise EvaluatorError(
                f'{where}:{line}: {name} is no file of the script\'s folder: write it as "./NAME", from there, or '
                "copy the scoring function alone"
            )
        if why := import_problem(specifier):
            raise EvaluatorError(f"{where}:{line}: {name} cannot be imported: {why}")


class _Formal(NamedTuple):
    """One parameter as it is written."""

    pattern: Node
    annotation: Node | None
    optional: bool

    @property
    def plain(self) -> bool:
        return self.pattern.type == "identifier"


def parameters_of(
    script: TypeScriptModule, function: Node, where: str, name: str, annotation: Node | None
) -> tuple[tuple[Parameter, ...], bool]:
    """Return the parameters of the function `name`, and whether it takes any. Raises EvaluatorError."""
    found = _parameters(script, function, where, name, annotation)
    if len(found[0]) > MOST:
        raise EvaluatorError(f"{where}:{_line(function)}: `{name}` has more than {MOST} parameters")
    return found


def _parameters(
    script: TypeScriptModule, function: Node, where: str, called: str, annotation: Node | None
) -> tuple[tuple[Parameter, ...], bool]:
    formals = formals_of(function)
    if outside := function_type(script, annotation):
        for at, stated in enumerate(formals_of(outside)[: len(formals)]):
            if formals[at].annotation is None:
                formals[at] = formals[at]._replace(annotation=stated.annotation)
    rest = bool(formals) and formals[-1].pattern.type == "rest_pattern"
    named = formals[:-1] if rest else formals
    if not formals:
        return (), False
    unused = unused_at(script, function) if called != NAME else ()
    named = [one for at, one in enumerate(named) if at not in unused]
    alone = len(named) == 1 and 0 not in unused  # one object, or the only value
    if named and named[0].pattern.type == "object_pattern" and all(formal.optional for formal in named[1:]):
        return _destructured(script, function, named[0], where)
    if not named or not all(formal.plain for formal in named):
        raise EvaluatorError(
            f"{where}:{_line(function)}: `{called}` must take one object or plain parameters; {DEFINE}"
        )
    known: Collection[str] = (
        _COLUMNS[:2] if called == NAME else {*_COLUMNS[:3], *OUTPUTS, *REFERENCES, *INPUTS, *_TEXTS}
    )
    if alone and (name := script.text(named[0].pattern)) in _TEXTS and called != NAME:
        read = reads_of(script, function, name).keys.keys()
        known = known if read.isdisjoint(OUTPUTS | REFERENCES) else ()
    if alone and not _is_by_position(script, named[0], known):
        return _object(script, function, named[0], where, called)
    return tuple(
        Parameter(name=script.text(formal.pattern), positional_only=True, required=not formal.optional)
        for formal in named
    ), False


def formals_of(function: Node) -> list[_Formal]:
    """Return the parameters of a function as they are written."""
    if alone := function.child_by_field_name("parameter"):
        return [_Formal(alone, None, False)]
    found = []
    written = function.child_by_field_name("parameters")
    for node in written.named_children if written else ():
        pattern = node.child_by_field_name("pattern")
        if pattern is not None and pattern.type != "this":
            optional = node.type == "optional_parameter" or node.child_by_field_name("value") is not None
            found.append(_Formal(pattern, node.child_by_field_name("type"), optional))
    return found


def _is_by_position(script: TypeScriptModule, formal: _Formal, known: Collection[str]) -> bool:
    """True if a single parameter is one value, not the object of all parameters."""
    if is_value(script, formal.annotation):
        return True
    # Nobody names the object of all so; a function that does would score the wrong thing without a word.
    name = plain_name(script.text(formal.pattern, 60))
    stated = "" if formal.annotation is None else script.text(formal.annotation, 60).strip(": ")
    if stated not in ("", "any", "unknown"):  # a type from elsewhere
        found = members(script, formal.annotation)
        return name in OUTPUTS and len(known) > 2 and found.open and not found.required
    return name in known


def _object(
    script: TypeScriptModule, function: Node, formal: _Formal, where: str, called: str
) -> tuple[tuple[Parameter, ...], bool]:
    """The parameters in one object: those of its type, and where that leaves it open those that the function reads."""
    found: Members = members(script, formal.annotation)
    required, accepts_any = dict(found.required), found.open
    if found.open:
        read = reads_of(script, function, script.text(formal.pattern))
        if called != NAME and not required and not read.keys and read.unseen:
            name = script.text(formal.pattern, 60)
            raise EvaluatorError(
                f"{where}:{_line(function)}: what `{called}` reads of `{name}` cannot be seen without running the "
                f"script; define `function evaluate({{ output, reference }}) {{ return {called}(…); }}`, as it is to "
                "be called"
            )
        if called != NAME and not required and not read.keys.keys() - OF_VALUES:  # one value
            return (Parameter(name=script.text(formal.pattern), positional_only=True),), False
        own = {key: needed for key, needed in read.keys.items() if key not in required and key not in OF_VALUES}
        # Our own function may leave its columns out; what another lacks would be undefined, and score all rows alike.
        required |= {key: needed and not (called == NAME and key in _COLUMNS) for key, needed in own.items()}
        if called == NAME or not required:
            required |= {name: False for name in _COLUMNS if name not in required}
    return tuple(Parameter(name=name, required=needed) for name, needed in required.items()), accepts_any


def unused_at(script: TypeScriptModule, function: Node) -> frozenset[int]:
    """
    Return the places of the parameters by position that a function does nothing with; none if it uses none at all.
    """
    formals = formals_of(function)
    body = function.child_by_field_name("body")
    text = "" if body is None else script.text(body)
    words = {*_WORD.findall(text)}
    if len(formals) < 2 or "arguments" in words or not all(one.plain for one in formals[1:]):
        return frozenset()
    unused = {
        at
        for at, one in enumerate(formals)
        if one.plain
        and script.text(one.pattern) not in words
        and not any(
            script.text(one.pattern) in _WORD.findall(script.text(o.pattern.parent or o.pattern))
            for o in formals[at + 1 :]
        )
    }
    return frozenset(unused if len(unused) < len(formals) else ())


def gives_result(script: TypeScriptModule, function: Node, annotation: Node | None) -> bool:
    """Say whether a function may return something that is not what it is given."""
    outside = function_type(script, annotation)
    stated = function.child_by_field_name("return_type") or (outside and outside.child_by_field_name("return_type"))
    words = "" if stated is None else script.text(stated, 100).strip(": \n")
    if words.startswith("asserts ") or words in ("void", "never", "Promise<void>", "undefined"):
        return False
    body = function.child_by_field_name("body")
    return (
        body is None
        or body.type != "statement_block"
        or any(one.named_children for one in _own_nodes(body) if one.type == "return_statement")
    )


def refuse_generator(function: Node, where: str, name: str) -> None:
    """Refuse a function that gives what it yields, and no result. Raises EvaluatorError."""
    if "generator" in function.type or any(child.type == "*" for child in function.children):
        raise EvaluatorError(
            f"{where}:{_line(function)}: `{printable(name, 60)}` is a generator (`function*`), which yields values and "
            "returns no score; take the values in a function that returns one: "
            f"`for await (const one of {printable(name, 60)}(…)) …`"
        )


def _own_nodes(body: Node) -> Iterator[Node]:
    """What stands in a function, and not in one that is in it."""
    left = [body]
    while left:
        node = left.pop()
        yield node
        left += [] if node.type in FUNCTIONS or node.type == "method_definition" else node.named_children


def _destructured(
    script: TypeScriptModule, function: Node, formal: _Formal, where: str
) -> tuple[tuple[Parameter, ...], bool]:
    """The names of an object. One that the function does nothing with may be lacking, unless it uses none at all."""
    declared = members(script, formal.annotation).required
    parts = [_WORD.findall(script.text(part))[1:] for part in formal.pattern.named_children]  # with defaults
    words = {*_WORD.findall(script.text(function.child_by_field_name("body") or function)), *chain(*parts)}
    required: dict[str, bool] = {}
    used: dict[str, bool] = {}
    accepts_any = False
    for part in formal.pattern.named_children:
        match part.type:
            case "rest_pattern":
                accepts_any = True
                continue
            case "comment":
                continue
        key, default = key_and_default(part)
        name = key_of(script, key)
        if name is None:
            raise UnseenError(where, part)
        used[name] = part.type == "pair_pattern" or name in words
        required[name] = required.get(name, False) or (not default and declared.get(name, True))
    if any(used.values()) and "arguments" not in words:
        required = {name: needed and used[name] for name, needed in required.items()}
    return tuple(Parameter(name=name, required=needed) for name, needed in required.items()), accepts_any


def _near_miss(script: TypeScriptModule) -> str:
    for statement in script.root.named_children:
        node = statement.child_by_field_name("declaration") or statement.child_by_field_name("value") or statement
        if node.type == "expression_statement" and node.named_children:
            node = node.named_children[0]
        place = _inside(script, node)
        if place:
            return f" (line {_line(place[0])} has one, inside {place[1]})"
        if node.type == "assignment_expression":
            target = node.child_by_field_name("left")
            if target is not None and script.text(target, 40) in _COMMON_JS:
                return f" (line {_line(node)} assigns `{script.text(target, 40)}`; write `export default` instead)"
    if NAME in script.bindings and script.resolved(script.bindings[NAME]).type in CLASSES:
        return f" (line {_line(script.bindings[NAME])} makes it a class)"
    first = islice(script.bindings.items(), 1000)
    lines = {name: _line(node) for name, node in first if script.resolved(node).type in FUNCTIONS}
    close = [name for name in lines if name.lower() == NAME or suggestion(name.lower(), [NAME])]
    if close:
        return f" (line {lines[close[0]]} defines `{printable(close[0], 60)}`)"
    return f" (it defines {list_names(lines, 4)})" if lines else ""


def _inside(script: TypeScriptModule, node: Node) -> tuple[Node, str] | None:
    """An `evaluate` in a class, a namespace or an object, and in words what it is in."""
    kind = _KINDS.get(node.type)
    body = node if node.type == "object" else node.child_by_field_name("body")
    if kind is None or body is None:
        return None
    name = node.child_by_field_name("name")
    for part in body.named_children:
        inner = part.child_by_field_name("declaration") or part
        key = inner.child_by_field_name("name") or inner.child_by_field_name("key") or inner
        if script.text(key, 20) == NAME:
            return part, f"the {kind} `{printable(script.text(name, 200), 60)}`" if name else "the default export"
    return None


def calls(script: TypeScriptModule) -> set[str]:
    """Return the names of functions that a function of the script uses, other than its own."""
    found: set[str] = set()
    for name, node in script.bindings.items():
        if (function := script.resolved(node)).type in FUNCTIONS:
            text = script.text(function.child_by_field_name("body") or function)
            found |= {*_WORD.findall(text)} & script.bindings.keys() - {name}
    return found


def description_of(script: TypeScriptModule, function: Node) -> str:
    """Return what the script says of itself, or of this function."""
    return whole(_description(script, function))


def _description(script: TypeScriptModule, function: Node) -> str:
    """The script's first `/** … */`; where that stands right above another function, rather that of `evaluate`."""
    first: Node | None = None
    pending: Node | None = None
    above_other = False
    for node in script.root.named_children:
        if node.type == "comment":
            if script.text(node, 5).startswith("/**") and script.text(node, 5) != "/**/":
                first, pending = first or node, node
            continue
        mine = node.start_byte <= function.start_byte < node.end_byte
        if pending is not None and mine and above_other:
            first = pending
        elif pending is not None and pending == first:
            above_other = not mine and _defines(script, node) and _line(node) == pending.end_point.row + 2
        if mine:
            break
        pending = None
    return _said(script.text(first)) if first else ""


def _defines(script: TypeScriptModule, node: Node) -> bool:
    """True if a statement defines a function or a class."""
    declared = node.child_by_field_name("declaration") or node
    if declared.type == "lexical_declaration":
        name = declared.named_children[0].child_by_field_name("name")
        return name is not None and script.resolved(name).type in FUNCTIONS
    return declared.type in FUNCTIONS | CLASSES


def _said(comment: str) -> str:
    """The words of a `/** … */`, up to its first tag."""
    lines = []
    for line in comment[3:-2].split("\n"):
        text = line.strip().removeprefix("*").removeprefix(" ").rstrip()
        if text.startswith("@"):
            break
        lines.append(text)
    return "\n".join(lines).strip()
