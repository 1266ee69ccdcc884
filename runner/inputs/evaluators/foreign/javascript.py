"""A JavaScript or TypeScript script as dialects see it: what it exports. Nothing of it is run."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import EvaluatorError
from runner.core.text import describe
from runner.core.types import Parameter
from runner.inputs.evaluators.foreign.module import PATTERN, Class, ModuleFunction, ScriptModule
from runner.inputs.evaluators.typescript.members import members_named, methods_of
from runner.inputs.evaluators.typescript.object_type import key_and_default, pattern_key
from runner.inputs.evaluators.typescript.parse import CLASSES, FUNCTIONS, TypeScriptModule
from runner.inputs.evaluators.typescript.signature import read_script
from sandboxes.deno.modules import CLOSED_MODULES, NO_MODULES, OPEN, PURE, import_problem
from sandboxes.errors import SandboxUnavailableError

if TYPE_CHECKING:
    from tree_sitter import Node

BUILT_IN = (
    "assert",
    "buffer",
    "crypto",
    "events",
    "path",
    "querystring",
    "stream",
    "string_decoder",
    "url",
    "util",
    "zlib",
)
"""What a CommonJS module may require: the modules of Node that need no permission."""
REQUIRE_CALL = re.compile(r"""\brequire\s*\(\s*(["'])([^"'\\\n]{1,200})\1\s*\)""")
PAGES = ("evaluate", "performEval")
"""Functions that pages of tools call without an export."""
RUNNER = "evaluateRun"
"""The method that LangSmith calls of an object."""
_MOST = 255
_TARGET = re.compile(
    r"""(module(?:\.exports|\[["']exports["']\])|exports)(?:\.default)?(?:\.([\w$]+)|\[["']([^"'\]]+)["']\])?"""
)
_CALLABLE = ("call_expression", "new_expression", "identifier", "member_expression", "ternary_expression", *CLASSES)
"""What may be a function, or have some, when it is run."""
_STATEMENTS = {"program", "if_statement", "else_clause", "statement_block", "expression_statement"}
_STATEMENTS |= {"parenthesized_expression", "try_statement"}
"""Where a module's exports are looked for: not in its functions, but in one that is called where it stands."""


def read_javascript(source: str, where: str) -> ScriptModule:
    """Parse a script. Raises EvaluatorError for wrong syntax, and for what it imports that is not there."""
    try:
        script = read_script(source, where)
    except SandboxUnavailableError as error:
        raise EvaluatorError(f"{where}: {error}") from None
    module = ScriptModule(source, where, language="typescript")
    for name in (*script.exported, *script.bindings):
        node = script.exported.get(name)
        if (node is not None or name in PAGES) and (found := _function(script, node or script.bindings[name], name)):
            module.functions.setdefault(name, found)
    default = script.exported.get("default")
    if default is not None:
        for name, function in _object(script, default).items():
            module.functions.setdefault(name, function)
    for name, node in script.exported.items():
        if name not in module.functions and script.resolved(node).type in _CALLABLE:
            module.values[name] = ast.Pass()
    if (common := common_exports(script)) is not None:
        module.functions |= common.functions
        module.values |= {name: ast.Pass() for name in common.values}
    module.is_common = common is not None
    if not script.exported and not module.is_common and script.bindings.keys().isdisjoint(PAGES):
        for name, node in script.bindings.items():  # a script that exports nothing is read as if it did
            if found := _function(script, node, name):
                module.functions.setdefault(name, found)
    if RUNNER in source:
        _add_runners(script, module)
    if module.is_common:
        refuse_required(source, where)
    return module


def refuse_required(source: str, where: str) -> None:
    """Raise EvaluatorError for a `require` of what is not there. Files are looked for where they are known."""
    for required in REQUIRE_CALL.finditer(source):
        plain = required[2].removeprefix("node:")
        if plain not in BUILT_IN and not plain.startswith(("./", "../")):
            line = source.count("\n", 0, required.start()) + 1
            of_node = plain in (*CLOSED_MODULES.split(), *PURE.split())
            why = import_problem(f"node:{plain}" if of_node else required[2])
            if why is None:
                why = f"it is not there; {OPEN}" if of_node else f"write `import … from {required[2]!r}`, {NO_MODULES}"
            raise EvaluatorError(f"{where}:{line}: {describe(required[2], 60)} cannot be required: {why}")


def _add_runners(script: TypeScriptModule, module: ScriptModule) -> None:
    """What has LangSmith's method, by the name of its class or object; a class that needs arguments, without it."""
    for name, one in members_named(script, RUNNER).items():
        owner, _, method = name.partition(".")
        kind = module.classes.setdefault(owner, Class(owner, (), {}, one.node.start_point.row + 1))
        if function := _function(script, one.node, name):
            kind.methods[method] = function
    for name, node in script.bindings.items():
        kind_node = script.resolved(node)
        if kind_node.type in CLASSES and RUNNER in methods_of(script, kind_node):
            module.classes.setdefault(name, Class(name, (), {}, kind_node.start_point.row + 1))


def _function(script: TypeScriptModule, node: Node, name: str) -> ModuleFunction | None:
    node = script.resolved(node)
    if node.type not in FUNCTIONS and (node.type != "method_definition" or node.children[0].type in ("get", "set")):
        return None
    parameters: list[Parameter] = []
    parts: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    alone = node.child_by_field_name("parameter")
    written = node.child_by_field_name("parameters")
    inside = [alone] if alone is not None else written.named_children if written is not None else []
    for each in inside[:_MOST]:
        pattern = each.child_by_field_name("pattern") or each
        if each.type == "comment" or pattern.type in ("this", "rest_pattern"):
            continue
        text = script.text(pattern, 60) if pattern.type == "identifier" else PATTERN
        if not parameters and pattern.type == "object_pattern":
            keys = [(key, part) for part in pattern.named_children if (key := pattern_key(script, part))]
            parts = tuple(key for key, _ in keys)
            optional = tuple(key for key, part in keys if key_and_default(part)[1])
        required = each.type == "required_parameter" and each.child_by_field_name("value") is None
        parameters.append(Parameter(name=text, required=required or alone is not None))
    line = node.start_point.row + 1
    return ModuleFunction(name, tuple(parameters), False, line, parts=parts, optional_parts=optional, node=node)


class CommonExports(NamedTuple):
    """What a CommonJS module exports, by name: `default` for `module.exports` itself."""

    functions: dict[str, ModuleFunction]
    values: list[str]
    """What may be a function when it is run."""


def common_exports(script: TypeScriptModule) -> CommonExports | None:
    """Return what a CommonJS module exports; None for a script that is none."""
    if script.exported or "exports" not in script.source:
        return None
    found: dict[str, ModuleFunction] = {}
    values: list[str] = []
    common = False
    left = [script.root]
    while left:
        node = left.pop()
        if node.type == "assignment_expression":
            target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
            names = [] if target is None else [_exports(script.text(target, 200))]
            while value is not None and value.type == "assignment_expression":  # `exports = module.exports = …`
                target, value = value.child_by_field_name("left"), value.child_by_field_name("right")
                names += [] if target is None else [_exports(script.text(target, 200))]
            for name in names:
                if name is not None and value is not None:
                    common = True
                    found |= _object(script, value) if name == "default" else {}
                    _add(found, script, value, name)
                    if name not in found and script.resolved(value).type in _CALLABLE:
                        values.append(name)
        elif node.type == "call_expression":
            called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            arguments = given.named_children if given is not None else []
            named = "" if called is None else script.text(called, 60)
            if named.startswith("Object.") and arguments and _exports(script.text(arguments[0], 200)) == "default":
                common = True
                if named == "Object.assign":
                    for value in arguments[1:]:
                        found |= _object(script, value)
                elif named == "Object.defineProperty" and len(arguments) > 2:
                    defined = _object(script, arguments[2])
                    if function := defined.get("value"):
                        name = script.text(arguments[1], 100).strip("\"'")
                        found[name] = function._replace(name=name)
            left += [] if called is None else [called]  # a function that is called where it stands
        at_once = node.parent is not None and node.parent.type in ("parenthesized_expression", "call_expression")
        if node.type in _STATEMENTS or (node.type in FUNCTIONS and at_once):
            left += reversed(node.named_children)
    return CommonExports(found, values) if common else None


def _exports(text: str) -> str | None:
    """What an assignment to this exports: `default` for all, or a name; None for another place."""
    match = _TARGET.fullmatch("".join(text.split()))
    return None if match is None else match[2] or match[3] or "default"


def _object(script: TypeScriptModule, node: Node) -> dict[str, ModuleFunction]:
    """The functions of `module.exports = { a, b: …, c() {} }`."""
    found: dict[str, ModuleFunction] = {}
    if script.resolved(node).type != "object":
        return found
    for part in script.resolved(node).named_children[:_MOST]:
        if part.type == "shorthand_property_identifier" and script.text(part) in script.bindings:
            _add(found, script, script.bindings[script.text(part)], script.text(part))
        if part.type == "spread_element":
            found |= _object(script, part.named_children[0]) if part.named_children else {}
        if part.type == "method_definition":
            _add(found, script, part, script.text(part.child_by_field_name("name") or part, 100).strip("\"'"))
        key, value = part.child_by_field_name("key"), part.child_by_field_name("value")
        if key is not None and value is not None:
            _add(found, script, value, script.text(key, 100).strip("\"'"))
    return found


def _add(found: dict[str, ModuleFunction], script: TypeScriptModule, node: Node, name: str) -> None:
    if function := _function(script, node, name):
        found[name] = function
