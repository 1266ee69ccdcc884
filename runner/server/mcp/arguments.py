"""A call whose arguments do not fit is refused with the call that would: nothing is ignored or guessed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from runner.core.errors import ColumnsError
from runner.core.text import json_text, nearest, printable
from runner.server.service.invalid import place, what

_OTHERS = {
    **dict.fromkeys(("paths", "map", "columns", "input_mapping", "column_mapping"), "mapping"),
    **dict.fromkeys(("literals", "set", "params", "parameters"), "values"),
    **dict.fromkeys(("code", "script", "text"), "source"),
    **dict.fromkeys(("id", "run_id"), "run"),
    **dict.fromkeys(("data", "cases", "examples"), "rows"),
    **dict.fromkeys(("gate", "requires"), "require"),
    "fail_if": "gates",
    **dict.fromkeys(("limit", "n"), "count"),
    **dict.fromkeys(("a", "baseline", "old"), "base"),
    **dict.fromkeys(("b", "candidate"), "new"),
    "type": "kind",
    "template": "name",
}
"""Names that others have for our arguments."""
_LONG = 160
"""Characters of one argument, as JSON; a longer one is not said again."""


def fit_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that fit. Raises ToolError, whose last words are the call to make, for any others."""
    known: dict[str, Any] = tool.parameters["properties"]
    wrong, right = [], {name: value for name, value in arguments.items() if name in known}
    for name in arguments:
        if name not in known:
            left, other = [one for one in known if one not in arguments], _OTHERS.get(name.lower())
            near = other if other in left else nearest(name, left)
            wrong.append(f"`{tool.name}` has no argument `{printable(name, 60)}`")
            if near:
                right[near] = arguments[name]
    if wrong and not right:
        wrong.append(f"it takes {', '.join(f'`{one}`' for one in known)}")
    right = _flat(right)
    if isinstance(mapping := right.get("mapping"), dict):
        fixed = {name: value for name, value in mapping.items() if not isinstance(value, str)}
        wrong += [f"`mapping.{printable(name, 60)}` must be the name of a column or a path, as text" for name in fixed]
        right["mapping"] = {name: path for name, path in mapping.items() if name not in fixed}
        right |= {"values": {**fixed, **(right.get("values") or {})}} if fixed else {}
    for error in _errors(tool, right):
        name = str(error["loc"][0]) if error["loc"] else ""
        wrong.append(f"`{place(error)}` {what(error)}")
        right[name] = _fit_value(known.get(name, {}), right.get(name), name)
    if wrong:
        raise ToolError(f"{'; '.join(wrong[:6])}; call {call(tool.name, right)}")
    return right


def columns_call(tool: str, arguments: Mapping[str, Any], error: ColumnsError) -> str:
    """Return the call with the likely mapping."""
    right = {name: value for name, value in arguments.items() if value is not None}
    right["mapping"] = (right.get("mapping") or {}) | error.paths
    if error.values:
        right["values"] = dict(right.get("values") or {}) | dict.fromkeys(error.values, "VALUE") | error.examples
    how = f"with the right {' and '.join(error.blanks)}" if error.blanks else "if these columns are the right ones"
    return f"call {call(tool, right)}, {how}"


def call(tool: str, right: Mapping[str, Any]) -> str:
    """Return a call as it is to be written; a long argument that stays as it was is left as `…`."""
    words = []
    for name, value in right.items():
        text = json_text(value)
        words.append(f'"{name}": ' + (text if len(text) <= _LONG else '"…"'))
    as_before = " (… stands for what you gave)" if any(word.endswith(': "…"') for word in words) else ""
    return f"`{tool}` with {{{', '.join(words)}}}{as_before}"


def _errors(tool: Tool, arguments: dict[str, Any]) -> list[Any]:
    try:
        tool.fn_metadata.validate_arguments(arguments)
    except ValidationError as error:
        seen: dict[object, Any] = {}
        for one in error.errors():
            seen.setdefault(one["loc"][:1], one)
        return list(seen.values())
    return []


def _flat(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same, with a mapping as HTTP has it, {"paths": …, "literals": …}, as two arguments."""
    mapping, values = arguments.get("mapping"), arguments.get("values") or {}
    if not isinstance(mapping, dict) or not mapping or not mapping.keys() <= {"paths", "literals"}:
        return arguments
    if not all(isinstance(one, dict) for one in (*mapping.values(), values)):
        return arguments
    return arguments | {"mapping": mapping.get("paths", {}), "values": mapping.get("literals", {}) | values}


def _fit_value(schema: Mapping[str, Any], value: Any, name: str) -> Any:
    """A value that fits, as near to the one that was given as can be; else one that shows the form."""
    schema = next((one for one in schema.get("anyOf", []) if one.get("type") != "null"), schema)
    if options := schema.get("enum"):
        return next(iter(difflib.get_close_matches(str(value or "")[:100], options, 1, 0.3)), options[0])
    match schema.get("type"):
        case "array":
            inner = schema.get("items", {})
            ones = value if isinstance(value, list) else [] if value is None else [value]
            wanted = dict if inner.get("type") == "object" else str
            good = [one for one in ones if isinstance(one, wanted)][: schema.get("maxItems", 1000)]
            return good or [_fit_value(inner, None, name)]
        case "object":
            pairs = value.items() if isinstance(value, dict) else _pairs(value)
            return {key: one for key, one in pairs if isinstance(one, str)} or {"output": "…"}
        case "integer" | "number":
            number = value if isinstance(value, int | float) and not isinstance(value, bool) else 5
            low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1), schema.get("maximum", number)
            return max(low, min(high, number))
        case _:
            return (
                value
                if isinstance(value, str) and value and len(value) <= schema.get("maxLength", 200)
                else name.upper()
            )


def _pairs(value: Any) -> list[tuple[str, str]]:
    """`output=answer` as on the command line."""
    words = value if isinstance(value, list) else [value]
    cut = [word.partition("=") for word in words if isinstance(word, str) and "=" in word]
    return [(name.strip(), path.strip()) for name, _, path in cut]
