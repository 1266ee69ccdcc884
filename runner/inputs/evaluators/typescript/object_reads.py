"""The keys that a TypeScript function reads of an object that it is given, where no type tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runner.inputs.evaluators.typescript.object_type import pattern_key
from runner.inputs.evaluators.typescript.parse import FUNCTIONS

if TYPE_CHECKING:
    from tree_sitter import Node

    from runner.inputs.evaluators.typescript.parse import TypeScriptModule

_LOOKED_AT = 20_000
_LOOKED_INTO = 50
"""Functions that are looked into for one."""
_GLOBAL = ("parseInt", "parseFloat", "isNaN", "isFinite", "structuredClone", "encodeURIComponent", "btoa", "atob")
_AROUND = ("non_null_expression", "parenthesized_expression", "as_expression", "satisfies_expression")
_WORDS = (
    "length trim trimStart trimEnd toLowerCase toUpperCase includes indexOf lastIndexOf split match matchAll search "
    "replace replaceAll startsWith endsWith slice substring substr charAt charCodeAt codePointAt at concat repeat "
    "padStart padEnd normalize localeCompare join map filter reduce some every find findIndex flat flatMap forEach "
    "sort push pop keys values entries toFixed toString size has"
)
OF_VALUES = frozenset(_WORDS.split())
"""What texts, numbers and lists have themselves."""


class Reads(NamedTuple):
    """What a function reads of one parameter."""

    keys: dict[str, bool]
    """By key, whether the function counts on it: it does not ask whether it is there."""
    unseen: bool
    """Whether it hands the object on to a function of which the text does not tell what that reads."""


def reads_of(
    script: TypeScriptModule, function: Node, name: str, functions: set[tuple[int, str]] | None = None
) -> Reads:
    """
    Return the keys that a function reads of its parameter `name`, also in functions of the script that it hands it to.

    `functions` are those that have been looked into, with the names.
    """
    keys: dict[str, bool] = {}
    unseen = False
    functions = set() if functions is None else functions
    if (function.id, name) in functions or len(functions) > _LOOKED_INTO:
        return Reads(keys, unseen)
    functions.add((function.id, name))
    for node in _uses(script, function, name):
        while (above := node.parent) is not None and above.type in _AROUND and above.named_children[0] == node:
            node = above
        if above is None:
            continue
        kind = above.type
        if kind == "member_expression" and (key := above.child_by_field_name("property")) is not None:
            _add(keys, script.text(key), above)
        elif kind == "subscript_expression" and above.child_by_field_name("object") == node:
            index = above.child_by_field_name("index")
            if index is not None and index.type == "string":
                _add(keys, script.text(index)[1:-1], above)
        elif kind == "variable_declarator" and (pattern := above.child_by_field_name("name")) is not None:
            for part in pattern.named_children if pattern.type == "object_pattern" else ():
                if (own := pattern_key(script, part)) is not None:
                    optional = part.type == "object_assignment_pattern" or "=" in script.text(part)
                    keys[own] = keys.get(own, False) or not optional
        elif kind == "arguments":
            inner = _handed(script, above, node, functions)
            keys = {key: keys.get(key, False) or needed for key, needed in (keys | inner.keys).items()}
            unseen |= inner.unseen
        else:
            unseen |= kind == "spread_element"
    return Reads(keys, unseen)


def _uses(script: TypeScriptModule, function: Node, name: str) -> list[Node]:
    """Where the name stands in the body; a parameter of that name of a function in it is not told apart."""
    body = function.child_by_field_name("body")
    found: list[Node] = []
    left = [body] if body is not None else []
    for _ in range(_LOOKED_AT):
        if not left:
            break
        node = left.pop()
        if node.type in ("identifier", "shorthand_property_identifier") and script.text(node, 200) == name:
            found.append(node)
        left += reversed(node.named_children)
    return found


def _add(keys: dict[str, bool], key: str, node: Node) -> None:
    above = node.parent
    if key.startswith("#") or above is None or (above.type == "call_expression" and node in above.children[:1]):
        return  # a method, which no row has
    keys[key] = keys.get(key, False) or not _is_asked(node, above)


def _is_asked(node: Node, above: Node) -> bool:
    """Whether the function asks if what stands there is there: `a.b?.c`, `a.b ?? ""`, `!a.b`, `if (a.b)`."""
    match above.type:
        case "member_expression" | "subscript_expression" | "call_expression":
            return any(child.type in ("optional_chain", "?.") for child in above.children)
        case "binary_expression":
            operator = above.child_by_field_name("operator")
            sign = operator.type if operator is not None else ""
            right = above.child_by_field_name("right")
            nothing = right is not None and right.type in ("undefined", "null")
            return (sign in ("??", "||", "&&") and right != node) or nothing
        case "unary_expression":
            return True
        case "if_statement":
            return True
        case "parenthesized_expression":
            return above.parent is not None and above.parent.type in ("if_statement", "unary_expression")
        case "ternary_expression":
            return above.child_by_field_name("condition") == node
    return False


def _handed(script: TypeScriptModule, given: Node, node: Node, seen: set[tuple[int, str]]) -> Reads:
    """What a function of the script reads of what it is handed there."""
    call = given.parent
    called = call.child_by_field_name("function") if call is not None else None
    if called is None or called.type not in ("identifier", "call_expression"):
        return Reads({}, False)  # a method, such as `JSON.stringify`, and `new …`
    function = script.resolved(called)
    if function.type not in FUNCTIONS:
        name = script.text(called, 40)
        return Reads({}, called.type != "identifier" or not (name[:1].isupper() or name in _GLOBAL))
    at = [one for one in given.named_children if one.type != "comment"].index(node)
    alone = function.child_by_field_name("parameter")
    written = function.child_by_field_name("parameters")
    formals = [alone] if alone is not None else written.named_children if written is not None else []
    patterns = [one.child_by_field_name("pattern") or one for one in formals if one.type != "comment"]
    pattern = patterns[at] if at < len(patterns) else None
    if pattern is not None and pattern.type == "identifier":
        return reads_of(script, function, script.text(pattern), seen)
    keys = {
        key: "=" not in script.text(part)
        for part in (pattern.named_children if pattern is not None and pattern.type == "object_pattern" else ())
        if (key := pattern_key(script, part)) is not None
    }
    return Reads(keys, False)
