"""Messages that the library would leave unanswered, each with the error that its sender gets."""

from __future__ import annotations

import json
import re

from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from runner.core.text import printable

_NEAR = 4096
"""Bytes at both ends of a message in which its id is looked for."""
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,200}")'
_OTHER = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _OTHER + rb"\s*,\s*)*" + _ID + rb"\s*[,}]")
_LAST = re.compile(_ID + rb"\s*(?:,\s*" + _OTHER + rb"\s*)*\}\s*$")  # of the outermost object: nothing closes after it


def error(code: int, why: str, message: bytes) -> JSONRPCError:
    """Return the reply to a message that is not taken, with its id where that can be seen."""
    found = _FIRST.match(message[:_NEAR]) or _LAST.search(message[-_NEAR:])
    id = json.loads(found[1].decode("utf-8", "replace")) if found else None
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=why))


def too_long(most: int, first: bytes, last: bytes) -> JSONRPCError:
    """Return the reply to a message of which only both ends were kept."""
    why = f"a message has at most {most >> 20} MB; send less at once, or upload a dataset on the page"
    return error(INVALID_REQUEST, why, first[:_NEAR] + b" " * _NEAR + last[-_NEAR:])


def refusal(message: bytes) -> JSONRPCError | None:
    """Return the reply to what is no JSON by RFC 8259, or no message of JSON-RPC."""
    try:
        text = message.decode()
        value = from_json(text, allow_inf_nan=False)
    except UnicodeDecodeError as problem:
        return error(PARSE_ERROR, f"the message is no UTF-8 at byte {problem.start + 1}", message)
    except ValueError as problem:
        why = f"the message is no JSON ({printable(str(problem), 120)})"
        try:
            json.loads(text, parse_constant=_refuse)
            why = "half of a surrogate pair is no character; write both halves, or none"
        except (ValueError, RecursionError):
            pass
        return error(PARSE_ERROR, why, message)
    if isinstance(value, list):
        return error(INVALID_REQUEST, "a batch is not taken; send each message by itself", message)
    id = value.get("id", 0) if isinstance(value, dict) and "error" not in value else 0
    if isinstance(id, bool) or not isinstance(id, int | str):
        return error(INVALID_REQUEST, "the id is no text and no whole number; send one of these", message)
    try:
        jsonrpc_message_adapter.validate_python(value)
    except ValidationError:
        why = "the message is none of JSON-RPC 2.0: a request has `jsonrpc`, `id`, `method`, and `params` as an object"
        return error(INVALID_REQUEST, why, message)
    return None


def _refuse(name: str) -> None:
    raise ValueError(name)
