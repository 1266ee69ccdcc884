"""Read the members of the object that `evaluate` takes from its TypeScript annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

    from runner.inputs.evaluators.typescript.parse import TypeScriptModule

_LOOKED_AT = 10_000
"""Types and members; a script has no more that are worth it."""

_VALUES = ("string", "number", "boolean", "bigint", "symbol")
_LISTS = ("Array", "ReadonlyArray", "Set", "Map")
_AROUND = ("type_annotation", "type_arguments", "parenthesized_type", "type_alias_declaration")
_HOPS = 100
_PARTS = frozenset(("parenthesized_type", "union_type", "readonly_type"))


class Members(NamedTuple):
    """The properties by name, and whether each must be there."""

    required: dict[str, bool]
    open: bool
    """Whether there may be others, as with `EvaluatorParams`, `any` and no annotation."""


def members(script: TypeScriptModule, annotation: Node | None) -> Members:
    """
    Read object types, and the interfaces and aliases that the script declares, with what they extend and join.

    What else there may be (mapped and conditional types, unions, what is declared elsewhere) leaves it open.
    """
    found: dict[str, bool] = {}
    is_open = annotation is None
    left = [(annotation, False)] if annotation else []
    declared: set[str] = set()
    looked_at = 0
    while left:
        node, partial = left.pop()
        looked_at += 1
        inner = node.named_children
        match node.type:
            case "type_annotation" | "parenthesized_type" | "intersection_type" | "extends_type_clause":
                left.extend((child, partial) for child in reversed(inner))
            case "object_type" | "interface_body":
                is_open |= _read(script, inner, found, partial)
                looked_at += len(inner)
            case "interface_declaration":
                left.extend(
                    (c, partial) for c in reversed(inner) if c.type in ("extends_type_clause", "interface_body")
                )
            case "type_alias_declaration":
                left.append((inner[-1], partial))
            case "generic_type" if (name := script.text(inner[0])) in ("Readonly", "Partial"):
                left.extend((child, partial or name == "Partial") for child in inner[1].named_children)
            case "type_identifier" | "generic_type":
                name = script.text(inner[0] if inner else node)
                is_open |= name not in script.types
                if name not in declared:
                    declared.add(name)
                    left.extend((each, partial) for each in script.types.get(name, ()))
            case "comment":
                pass
            case _:
                is_open = True
        if looked_at > _LOOKED_AT:
            return Members(found, True)
    return Members(found, is_open)


def is_value(script: TypeScriptModule, annotation: Node | None) -> bool:
    """
    Say whether a type is text, a number, a list and the like, so that an object of the parameters cannot be meant.
    """
    if annotation is None:
        return False
    left = list(annotation.named_children)
    declared: set[str] = set()
    for _ in range(_LOOKED_AT):
        if not left:
            return True
        node = left.pop()
        text = script.text(node, 100)
        if node.type in _PARTS:
            left.extend(node.named_children)
        elif node.type == "type_identifier" and len(script.types.get(text, ())) == 1 and text not in declared:
            declared.add(text)
            alias = script.types[text][0]
            if alias.type != "type_alias_declaration":
                return False
            left.append(alias.named_children[-1])
        elif not _is_value(script, node, text):
            return False
    return False


def function_type(script: TypeScriptModule, annotation: Node | None) -> Node | None:
    """Return the type of a function that an annotation comes down to, through brackets and the script's own aliases."""
    node = annotation
    for _ in range(_HOPS):
        if node is None or node.type == "function_type":
            return node
        if node.type == "type_identifier":
            declared = script.types.get(script.text(node), ())
            node = declared[0] if len(declared) == 1 and declared[0].type == "type_alias_declaration" else None
        else:
            inner = node.named_children
            node = inner[-1] if inner and node.type in _AROUND else None
    return None


def _is_value(script: TypeScriptModule, node: Node, text: str) -> bool:
    match node.type:
        case "array_type" | "tuple_type" | "literal_type" | "template_literal_type" | "comment":
            return True
        case "predefined_type":
            return text in _VALUES
        case "generic_type":
            return script.text(node.named_children[0], 100) in _LISTS
    return False


def _read(script: TypeScriptModule, body: list[Node], found: dict[str, bool], partial: bool) -> bool:
    """Add the properties of an object type; whether it allows others."""
    is_open = False
    for node in body:
        name = node.child_by_field_name("name")
        if node.type == "index_signature":
            is_open = True
        elif name is not None and (node.type == "property_signature" or node.children[0].type == "get"):
            key = key_of(script, name)
            is_open |= key is None
            if key is not None:
                optional = partial or any(child.type == "?" for child in node.children)
                found[key] = found.get(key, False) or not optional
    return is_open


def key_of(script: TypeScriptModule, node: Node) -> str | None:
    """Return a property's name; None where it is computed, or written with escapes."""
    if node.type == "computed_property_name":
        return None
    text = script.text(node)
    text = text[1:-1] if node.type == "string" else text
    return None if "\\" in text else text


def pattern_key(script: TypeScriptModule, part: Node) -> str | None:
    """Return the key of one part of an object's pattern; None for what has none, or one that is made."""
    return None if part.type in ("rest_pattern", "comment") else key_of(script, key_and_default(part)[0])


def key_and_default(part: Node) -> tuple[Node, bool]:
    """Return the key of one part of `{ a, b = 1, c: d, e: f = 2 }`, and whether it has a default."""
    if part.type == "object_assignment_pattern":
        return part.child_by_field_name("left") or part, True
    value = part.child_by_field_name("value")
    return part.child_by_field_name("key") or part, value is not None and value.type == "assignment_pattern"
