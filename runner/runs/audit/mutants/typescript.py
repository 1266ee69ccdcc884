"""Mutants of a TypeScript script, by its syntax tree; all else stays as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from runner.inputs.evaluators.typescript.parse import FUNCTIONS, TypeScriptModule
from runner.runs.audit.mutants.types import ARITHMETIC, COMPARISONS, RESULT_KEYS, Edit, shorten

if TYPE_CHECKING:
    from tree_sitter import Node

_SIGNS: Mapping[str, str] = {
    **{sign: other for sign, other in {**COMPARISONS, **ARITHMETIC}.items() if sign not in ("in", "//")},
    **{"&&": "||", "||": "&&", "??": "&&"},
    **{f"{sign}=": f"{other}=" for sign, other in ARITHMETIC.items() if sign != "//"},
}
_CLEANERS = frozenset(
    ("trim", "trimStart", "trimEnd", "toLowerCase", "toUpperCase", "replace", "replaceAll", "normalize", "sort")
)
_OTHERS: Mapping[str, str] = {"min": "max", "max": "min", "some": "every", "every": "some"}
_LEFT = frozenset(
    (
        *("import_statement", "throw_statement", "type_annotation", "type_arguments", "type_parameters"),
        *("interface_declaration", "type_alias_declaration", "template_string", "comment", "predefined_type"),
        *("as_type", "literal_type", "union_type", "decorator"),
    )
)
_TESTED = frozenset(("if_statement", "while_statement", "ternary_expression"))
_NUMBER = re.compile(r"\d+(?:\.\d+)?\Z")
_ANCHORS = re.compile(r"\A\^|\$\Z")


def typescript_edits(source: str) -> Iterator[Edit]:
    """
    Yield each change of a script.

    Raises:
        TangledError, SandboxUnavailableError: As `TypeScriptModule` does.
    """
    module = TypeScriptModule(source)
    yield from _Reader(module.root, source.encode(errors="replace")).edits()


class _Reader:
    def __init__(self, root: Node, data: bytes) -> None:
        self._root, self._data = root, data
        self._own = {
            self._text(name)
            for node in self._nodes()
            if node.type in FUNCTIONS and (name := node.child_by_field_name("name")) is not None
        }

    def _text(self, node: Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode()

    def _nodes(self) -> Iterator[Node]:
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node.type in _LEFT or self._explains(node):
                continue
            yield node
            waiting += reversed(node.named_children)

    def _explains(self, node: Node) -> bool:
        key = node.child_by_field_name("key") if node.type == "pair" else None
        return key is not None and self._text(key).strip("\"'") == "explanation"

    def edits(self) -> Iterator[Edit]:
        """Yield the edits in no order."""
        for node in self._nodes():
            yield from self._changes(node)

    def _edit(self, node: Node, text: str, change: str) -> Edit:
        return Edit(node.start_byte, node.end_byte, text, change)

    def _changes(self, node: Node) -> Iterator[Edit]:
        kind = node.type
        if kind in ("binary_expression", "augmented_assignment_expression"):
            sign = node.child_by_field_name("operator")
            sides = [node.child_by_field_name(side) for side in ("left", "right")]
            joined = any(side is not None and side.type in ("string", "template_string") for side in sides)
            if sign is not None and (other := _SIGNS.get(self._text(sign))) and not (joined and sign.type == "+"):
                yield self._edit(sign, other, f"{sign.type} -> {other}")
        elif kind == "unary_expression":
            sign, inner = node.child_by_field_name("operator"), node.child_by_field_name("argument")
            if sign is not None and inner is not None and sign.type in ("!", "-"):
                yield self._edit(node, f"({self._text(inner)})", f"{sign.type} removed")
        elif kind in ("true", "false"):
            other = "false" if kind == "true" else "true"
            yield self._edit(node, other, f"{kind} -> {other}")
        elif kind == "number" and _NUMBER.match(text := self._text(node)):
            other = f"{float(text) + 1:.10g}"
            yield self._edit(node, other, f"{text} -> {other}")
        elif kind == "string" and node.end_byte - node.start_byte > 2 and not self._is_key(node):
            yield self._edit(node, '""', f"{shorten(self._text(node))} -> ''")
        elif kind == "regex_pattern" and _ANCHORS.search(text := self._text(node)):
            yield self._edit(node, _ANCHORS.sub("", text) or "(?:)", f"anchors of /{shorten(text)}/ removed")
        elif kind == "call_expression":
            yield from self._calls(node)
        elif kind == "return_statement" and node.named_children:
            yield self._edit(node.named_children[0], "null", "the returned value -> null")
        elif kind == "continue_statement" and not node.named_children:
            yield self._edit(node, "break;", "continue -> break")
        elif kind == "break_statement" and not node.named_children and not self._in_switch(node):
            yield self._edit(node, "continue;", "break -> continue")
        if kind in _TESTED and (test := node.child_by_field_name("condition")) is not None:
            bare = self._text(test).strip()
            words = bare[1:-1] if bare.startswith("(") and bare.endswith(")") else bare
            for value in ("false",) if kind == "while_statement" else ("true", "false"):
                yield self._edit(test, f"({value})", f"{shorten(words)} -> {value}")

    def _is_key(self, node: Node) -> bool:
        """A key of an object; or a type, which stands for itself."""
        above = node.parent
        if above is None or above.type != "pair":
            return False
        key = above.child_by_field_name("key")
        return key is not None and key.start_byte == node.start_byte and self._text(node).strip("\"'") in RESULT_KEYS

    def _in_switch(self, node: Node) -> bool:
        above = node.parent
        while above is not None and above.type not in ("for_statement", "for_in_statement", "while_statement"):
            if above.type in ("switch_case", "switch_default"):
                return True
            above = above.parent
        return False

    def _calls(self, node: Node) -> Iterator[Edit]:
        called, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if called is None or arguments is None:
            return
        name = called.child_by_field_name("property") if called.type == "member_expression" else called
        of = called.child_by_field_name("object") if called.type == "member_expression" else None
        if name is None:
            return
        word = self._text(name)
        if of is not None and word in _CLEANERS:
            yield self._edit(node, f"({self._text(of)})", f".{word}() removed")
        elif of is not None and word in _OTHERS:
            yield self._edit(name, _OTHERS[word], f"{word} -> {_OTHERS[word]}")
        elif of is not None and word == "abs" and len(arguments.named_children) == 1:
            yield self._edit(node, self._text(arguments), "abs() removed")
        elif of is None and word in self._own and len(arguments.named_children) == 2:
            one, two = map(self._text, arguments.named_children)
            if one != two:
                yield self._edit(arguments, f"({two}, {one})", f"the arguments of {word} swapped")
