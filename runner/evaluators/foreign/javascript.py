"""A JavaScript or TypeScript script as dialects see it: what it exports. Nothing of it is run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.errors import EvaluatorError
from runner.evaluators.foreign.module import PATTERN, Function, ScriptModule
from runner.evaluators.typescript.parse import FUNCTIONS, Module, TangledError
from runner.evaluators.typescript.signature import refuse_imports
from runner.evaluators.typescript.syntax_errors import problem
from runner.text import pointed, shown
from runner.types import Parameter
from sandboxes.errors import SandboxUnavailableError

if TYPE_CHECKING:
    from tree_sitter import Node

BUILT_IN = ("assert", "buffer", "crypto", "events", "path", "querystring", "string_decoder", "url", "util")
"""What a CommonJS module may require: the modules of Node that need no permission."""
REQUIRED = re.compile(r"""\brequire\s*\(\s*(["'])([^"'\\\n]{1,200})\1\s*\)""")
_MOST = 255


def read_javascript(source: str, where: str) -> ScriptModule:
    """Parse a script. Raises EvaluatorError for wrong syntax, and for what it imports that is not there."""
    try:
        script = Module(source)
    except SandboxUnavailableError as error:
        raise EvaluatorError(f"{where}: {error}") from None
    except TangledError as error:
        raise EvaluatorError(f"{where}: {error}; look for a comment or a text that is not closed") from None
    if wrong := problem(script):
        raise EvaluatorError(pointed(where, source, *wrong))
    module = ScriptModule(source, where, language="typescript")
    for name in (*script.exported, *script.bindings):
        node = script.exported.get(name)
        if (node is not None or name == "evaluate") and (
            found := _function(script, node or script.bindings[name], name)
        ):
            module.functions.setdefault(name, found)
    common = _common(script)
    module.functions |= common
    module.is_common = bool(common)
    if module.is_common:
        for required in REQUIRED.finditer(source):
            if required[2].removeprefix("node:") not in BUILT_IN:
                line = source.count("\n", 0, required.start()) + 1
                name = shown(required[2], 60)
                raise EvaluatorError(
                    f"{where}:{line}: {name} cannot be required: a script is one file; copy what it needs"
                )
    refuse_imports(script, where)
    return module


def _function(script: Module, node: Node, name: str) -> Function | None:
    node = script.resolved(node)
    if node.type not in FUNCTIONS:
        return None
    parameters = []
    alone = node.child_by_field_name("parameter")
    written = node.child_by_field_name("parameters")
    inside = [alone] if alone is not None else written.named_children if written is not None else []
    for each in inside[:_MOST]:
        pattern = each.child_by_field_name("pattern") or each
        if each.type == "comment" or pattern.type in ("this", "rest_pattern"):
            continue
        text = script.text(pattern, 60) if pattern.type == "identifier" else PATTERN
        required = each.type == "required_parameter" and each.child_by_field_name("value") is None
        parameters.append(Parameter(name=text, required=required or alone is not None))
    return Function(name, tuple(parameters), False, node.start_point.row + 1)


def _common(script: Module) -> dict[str, Function]:
    """What a CommonJS module exports: `default` for `module.exports` itself."""
    found: dict[str, Function] = {}
    for statement in script.root.named_children:
        node = statement.named_child(0) if statement.type == "expression_statement" else None
        if node is None or node.type != "assignment_expression":
            continue
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            continue
        target = script.text(left, 100).replace(" ", "")
        if target in ("module.exports", "module.exports.default", "exports.default"):
            found |= _object(script, right)
            _add(found, script, right, "default")
        elif match := re.fullmatch(r"(?:module\.)?exports\.([\w$]+)", target):
            _add(found, script, right, match[1])
    return found


def _object(script: Module, node: Node) -> dict[str, Function]:
    """The functions of `module.exports = { a, b: …, c() {} }`."""
    found: dict[str, Function] = {}
    if script.resolved(node).type != "object":
        return found
    for part in script.resolved(node).named_children[:_MOST]:
        if part.type == "shorthand_property_identifier" and script.text(part) in script.bindings:
            _add(found, script, script.bindings[script.text(part)], script.text(part))
        key, value = part.child_by_field_name("key"), part.child_by_field_name("value")
        if key is not None and value is not None:
            _add(found, script, value, script.text(key, 100).strip("\"'"))
    return found


def _add(found: dict[str, Function], script: Module, node: Node, name: str) -> None:
    if function := _function(script, node, name):
        found[name] = function
