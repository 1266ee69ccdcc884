"""What can be called in a TypeScript script by a dotted name: functions in objects, lists, classes and instances."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from runner.inputs.evaluators.typescript.object_type import key_of
from runner.inputs.evaluators.typescript.parse import CLASSES, FUNCTIONS

if TYPE_CHECKING:
    from tree_sitter import Node

    from runner.inputs.evaluators.typescript.parse import TypeScriptModule

_DEPTH = 3
_MOST = 200
"""Parts of an object or class that are looked at."""
_LOOKED_AT = 2000
"""Objects, lists and classes that are looked at behind one name."""
_KEPT = ("Object.freeze", "Object.seal")
"""Calls that return what they are given."""
CALLABLE_KINDS = FUNCTIONS | {"method_definition"}
DEFAULT = "evalcellDefault"
"""Stands for what the script exports as its default, without a name."""
_DEFAULT = re.compile(rf"\b{DEFAULT}\b")
_CLOSED = ("private", "protected")


class ObjectMember(NamedTuple):
    """A function in something that has a name."""

    name: str
    """`scorers.exact`"""
    node: Node
    owner: str
    """The expression of what it is in: `scorers`, `new Scorer()`."""
    key: str
    """Its key in that, as it is written in brackets."""


def members_of(script: TypeScriptModule, name: str, node: Node, owner: str) -> Iterator[ObjectMember]:
    """Yield the functions in what stands there, as far as the text tells them; `owner` is the expression of it."""
    yield from _members(script, name, node, owner, {}, iter(range(_LOOKED_AT)), _DEPTH)


def members_named(script: TypeScriptModule, key: str) -> dict[str, ObjectMember]:
    """Return, by whole name, the functions of this key in what has a name or is exported as the default."""
    named = {name: node for name, node in script.bindings.items() if name != "default"}
    default = script.exported.get("default")
    if default is not None and not any(script.resolved(one) == script.resolved(default) for one in named.values()):
        named["default"] = default
    every = (
        one
        for name, node in named.items()
        for one in members_of(script, name, node, DEFAULT if name == "default" else name)
    )
    return {one.name: one for one in every if one.key == json.dumps(key)}


def owner_of(member: ObjectMember) -> str:
    """Return the expression of what a function is in, in an async function of the script's module."""
    return _DEFAULT.sub("(await import(import.meta.url)).default", member.owner)


def members_in(script: TypeScriptModule, factory: Node, name: str) -> Iterator[ObjectMember]:
    """Yield the functions in what a factory returns, under a name that is given to that."""
    made, inner = script.result_of(factory)
    if made is not None:
        yield from _members(script, name, made, name, inner, iter(range(_LOOKED_AT)), _DEPTH)


def member_at(script: TypeScriptModule, node: Node) -> Node:
    """Return what stands there, also behind `scorers.exact`."""
    if node.type != "member_expression":
        return script.resolved(node)
    path = script.text(node, 200).split(".")
    owner = script.bindings.get(path[0])
    inside = () if owner is None else members_of(script, path[0], owner, path[0])
    return next((one.node for one in inside if one.name == ".".join(path)), node)


def _members(
    script: TypeScriptModule, name: str, node: Node, owner: str, inner: dict[str, Node], left: Iterator[int], depth: int
) -> Iterator[ObjectMember]:
    found = _resolved(script, node, inner)
    if depth == 0 or next(left, None) is None:
        return
    if found.type == "object":
        for key, value in _parts(script, found, inner):
            yield from _member(script, name, key, value, owner, inner, left, depth)
    elif found.type == "array":
        values = [one for one in found.named_children if one.type != "comment"][:_MOST]
        for at, value in enumerate(values):
            if value.type != "identifier":  # what has a name is called by that
                yield from _member(script, name, str(at), value, owner, inner, left, depth)
    elif found.type == "internal_module":
        body = found.child_by_field_name("body")
        for statement in body.named_children[:_MOST] if body else ():
            declared = statement.child_by_field_name("declaration")
            whole = declared.named_children if declared and declared.type == "lexical_declaration" else [declared]
            for one in whole:
                if one is not None and (named := one.child_by_field_name("name")) is not None:
                    value = one.child_by_field_name("value") or one
                    yield from _member(script, name, script.text(named), value, owner, inner, left, depth)
    elif found.type in CLASSES:
        yield from _of_class(script, name, found, owner)
    elif found.type == "new_expression":
        kind = class_of(script, found, inner)
        if kind is not None:
            for key, method, static in _methods(script, kind):
                if not static:
                    yield ObjectMember(f"{name}.{key}", method, owner, json.dumps(key))
    elif found.type == "call_expression" and (called := found.child_by_field_name("function")) is not None:
        given = found.child_by_field_name("arguments")
        if script.text(called, 20) in _KEPT and given and given.named_children:
            yield from _members(script, name, given.named_children[0], owner, inner, left, depth - 1)
        factory = member_at(script, called) if called.type == "member_expression" else _resolved(script, called, inner)
        if factory.type in CALLABLE_KINDS:
            made, own = script.result_of(factory)
            if made is not None and made.type not in FUNCTIONS:
                yield from _members(script, name, made, owner, own, left, depth - 1)


def _member(
    script: TypeScriptModule,
    name: str,
    key: str,
    value: Node,
    owner: str,
    inner: dict[str, Node],
    left: Iterator[int],
    depth: int,
) -> Iterator[ObjectMember]:
    found, step = _resolved(script, value, inner), json.dumps(key)
    if found.type in CALLABLE_KINDS:
        yield ObjectMember(f"{name}.{key}", found, owner, step)
    elif found.type not in CLASSES:
        yield from _members(script, f"{name}.{key}", found, f"{owner}[{step}]", inner, left, depth - 1)


def _of_class(script: TypeScriptModule, name: str, node: Node, owner: str) -> Iterator[ObjectMember]:
    bare = needs_nothing(script, node)
    for key, method, static in _methods(script, node):
        if static or bare:
            yield ObjectMember(f"{name}.{key}", method, owner if static else f"new {owner}()", json.dumps(key))


def needs_nothing(script: TypeScriptModule, node: Node) -> bool:
    """Say whether an instance of a class can be made without arguments, as far as the text tells it."""
    for kind in _line_of(script, node):
        for part in _body(kind):
            if part.type == "method_definition" and _name(script, part) == "constructor":
                written = part.child_by_field_name("parameters")
                formals = [one for one in (written.named_children if written else ()) if one.type != "comment"]
                plain = any(
                    one.type == "required_parameter"
                    and one.child_by_field_name("value") is None
                    and (pattern := one.child_by_field_name("pattern")) is not None
                    and pattern.type != "rest_pattern"
                    for one in formals
                )
                return node.type != "abstract_class_declaration" and not plain
    return node.type != "abstract_class_declaration"


def methods_of(script: TypeScriptModule, node: Node) -> list[str]:
    """Return the names of the methods that an instance of a class has."""
    return [key for key, _, static in _methods(script, node) if not static]


def class_of(script: TypeScriptModule, node: Node, inner: dict[str, Node]) -> Node | None:
    """Return the script's class of which `new …` makes an instance."""
    kind = node.child_by_field_name("constructor")
    found = None if kind is None else _resolved(script, kind, inner)
    return found if found is not None and found.type in CLASSES else None


def _methods(script: TypeScriptModule, node: Node) -> Iterator[tuple[str, Node, bool]]:
    """The public methods of a class and of those above it, each with whether it is static."""
    seen = {"constructor"}
    for kind in _line_of(script, node):
        for part in _body(kind):
            words = {child.type for child in part.children}
            access = next((script.text(one) for one in part.children if one.type == "accessibility_modifier"), "")
            key, value = _name(script, part), part.child_by_field_name("value")
            if part.type == "method_definition" and not words & {"get", "set"}:
                value = part
            if key in seen or key is None or access in _CLOSED or value is None:
                continue
            if value.type == "method_definition" or value.type in FUNCTIONS:
                seen.add(key)
                yield key, value, "static" in words


def _line_of(script: TypeScriptModule, node: Node) -> list[Node]:
    """A class and those above it in the script, the nearest first."""
    line = [node]
    while len(line) < 20:
        heritage = next((one for one in line[-1].named_children if one.type == "class_heritage"), None)
        clause = (
            next((one for one in heritage.named_children if one.type == "extends_clause"), None) if heritage else None
        )
        above = clause.child_by_field_name("value") if clause else None
        found = None if above is None else script.resolved(above)
        if found is None or found.type not in CLASSES or found in line:
            break
        line.append(found)
    return line


def _body(node: Node) -> list[Node]:
    body = node.child_by_field_name("body")
    return body.named_children[:_MOST] if body else []


def _name(script: TypeScriptModule, part: Node) -> str | None:
    name = part.child_by_field_name("name")
    return None if name is None or name.type == "private_property_identifier" else key_of(script, name)


def _parts(
    script: TypeScriptModule, node: Node, inner: dict[str, Node], depth: int = _DEPTH
) -> Iterator[tuple[str, Node]]:
    """The keys and values of an object."""
    for part in node.named_children[:_MOST]:
        if part.type == "shorthand_property_identifier":
            yield script.text(part), inner.get(script.text(part)) or script.bindings.get(script.text(part), part)
        elif part.type == "spread_element" and part.named_children:
            above = _resolved(script, part.named_children[0], inner)
            if above.type == "object" and depth:
                yield from _parts(script, above, inner, depth - 1)
        elif part.type == "method_definition" and part.children[0].type not in ("get", "set"):
            if (key := _name(script, part)) is not None:
                yield key, part
        elif part.type == "pair":
            written, value = part.child_by_field_name("key"), part.child_by_field_name("value")
            if written is not None and value is not None and (key := key_of(script, written)) is not None:
                yield key, value


def _resolved(script: TypeScriptModule, node: Node, inner: dict[str, Node]) -> Node:
    if node.type == "identifier" and script.text(node) in inner:
        node = inner[script.text(node)]
    return script.resolved(node)
