"""Find and describe the first syntax error of a TypeScript script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from runner.core.text import describe

if TYPE_CHECKING:
    from tree_sitter import Node

    from runner.inputs.evaluators.typescript.parse import TypeScriptModule

_CLOSERS = {"(": ")", "[": "]", "{": "}", "${": "}"}
_SHOWN = 120
"""Bytes of what was not expected."""


class SyntaxProblem(NamedTuple):
    line: int
    column: int
    """Both count from 1."""
    message: str


class _Broken(NamedTuple):
    """A node that the parser could not parse, and its surroundings."""

    node: Node
    above: str
    """The type of what it is in."""
    before: Node | None


def problem(script: TypeScriptModule) -> SyntaxProblem | None:
    """
    Return the first thing that is wrong with the syntax.

    What is TypeScript, though this parser cannot read it, is not.
    """
    for broken in _broken(script.root):
        if not _known_gap(script, broken):
            place, message = _explained(script, broken.node)
            return SyntaxProblem(*script.place(place), message)
    return None


def _broken(root: Node) -> Iterator[_Broken]:
    """In the order of the text. Walks by hand, as the parser's own ways to a neighbour recurse."""
    cursor = root.walk()
    above: list[str] = []
    before: Node | None = None
    while True:
        node = cursor.node
        if node is not None and node.has_error:
            if node.is_error or node.is_missing:
                yield _Broken(node, above[-1] if above else "", before)
            elif cursor.goto_first_child():
                above.append(node.type)
                before = None
                continue
        before = node
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            above.pop()
            before = cursor.node


def _explained(script: TypeScriptModule, node: Node) -> tuple[Node, str]:
    """The place of the error, and its message."""
    if node.is_missing:
        return node, "expected a name or a value" if node.is_named else f"expected `{node.type}`"
    unclosed: list[Node] = []
    for child in node.children:
        if child.type in _CLOSERS and not child.is_named:
            unclosed.append(child)
        elif unclosed and child.type == _CLOSERS[unclosed[-1].type]:
            unclosed.pop()
    if unclosed:
        return unclosed[-1], f"`{script.text(unclosed[-1])}` is never closed"
    if node.children and (quote := node.children[0].type) in ("'", '"', "`"):
        return node, f"text that begins with {quote} is never closed"
    first, _, _ = script.text(node, _SHOWN).partition("\n")
    return node, f"unexpected {describe(first)}"


def _known_gap(script: TypeScriptModule, broken: _Broken) -> bool:
    if broken.above == "template_string":  # an escape that only a tag may be given: String.raw`\u`
        return script.text(broken.node, 1) == "\\"
    before = "" if broken.before is None else script.text(broken.before, 4)
    return broken.above == "type_parameters" and before in ("in", "out")  # interface A<in out T>
