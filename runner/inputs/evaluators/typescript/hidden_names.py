"""Names that a script in TypeScript uses and defines nowhere, where its own `catch` would make a score of that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.inputs.evaluators.python.hidden_names import hidden_name_error
from runner.inputs.evaluators.typescript.parse import TangledError, TypeScriptModule
from sandboxes.errors import SandboxUnavailableError

if TYPE_CHECKING:
    from tree_sitter import Node

_GLOBALS = frozenset(
    re.findall(
        r"\w+",
        """
        AbortController AbortSignal AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array
        Blob Boolean BroadcastChannel Buffer CompressionStream CustomEvent DOMException DataView Date
        DecompressionStream Deno Error Event EventSource EventTarget File FileReader FinalizationRegistry
        Float16Array Float32Array Float64Array FormData Function Headers Infinity Int16Array Int32Array
        Int8Array Intl Iterator JSON Map Math MessageChannel NaN Number Object Performance Promise Proxy
        RangeError ReadableStream ReferenceError Reflect RegExp Request Response Set SharedArrayBuffer String
        Symbol SyntaxError Temporal TextDecoder TextDecoderStream TextEncoder TextEncoderStream TransformStream
        TypeError URIError URL URLPattern URLSearchParams Uint16Array Uint32Array Uint8Array Uint8ClampedArray
        WeakMap WeakRef WeakSet WebAssembly WebSocket Worker WritableStream alert arguments atob btoa
        clearImmediate clearInterval clearTimeout close confirm console createImageBitmap crypto decodeURI
        decodeURIComponent encodeURI encodeURIComponent escape eval exports fetch global globalThis isFinite
        isNaN module navigator parseFloat parseInt performance process prompt queueMicrotask reportError require
        self setImmediate setInterval setTimeout structuredClone undefined unescape window __dirname __filename
        """,
    )
)
_BINDS = ("name", "pattern", "parameter", "parameters", "alias")
"""The fields of nodes in which names get what they stand for."""
_ASSIGNS = ("assignment_expression", "for_in_statement")
_USES = {"call_expression": "function", "new_expression": "constructor", "member_expression": "object"}
_NAMES = ("identifier", "type_identifier", "shorthand_property_identifier_pattern")


def refuse_hidden(text: str, where: str) -> None:
    """Refuse a script that hides from itself that a name is defined nowhere. Raises EvaluatorError."""
    if "catch" not in text:
        return
    try:
        script = TypeScriptModule(text)
    except (TangledError, SandboxUnavailableError):
        return
    nodes = _below(script.root)
    bound = {script.text(name) for node in nodes for name in _bound(node) if name.type in _NAMES} | _GLOBALS
    for node in nodes:
        handler, body = node.child_by_field_name("handler"), node.child_by_field_name("body")
        if node.type != "try_statement" or handler is None or body is None or "throw" in script.text(handler):
            continue
        for inner in _below(body):
            used = inner.child_by_field_name(_USES.get(inner.type, ""))
            if used is not None and used.type == "identifier" and (name := script.text(used)) not in bound:
                line = handler.start_point.row + 1
                raise hidden_name_error(where, name, used.start_point.row + 1, f"`catch` of line {line}")


def _bound(node: Node) -> list[Node]:
    """The names that a node gives a value, and at times others."""
    parts = [
        *map(node.child_by_field_name, _BINDS),
        node.child_by_field_name("left") if node.type in _ASSIGNS else None,
    ]
    parts += [node] if node.type.startswith(("import_", "namespace_")) else []
    return [name for part in parts if part is not None for name in _below(part)]


def _below(node: Node) -> list[Node]:
    found, left = [], [node]
    while left:
        found.append(one := left.pop())
        left += reversed(one.named_children)
    return found
