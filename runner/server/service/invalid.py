"""What is wrong in a request, in words of JSON: where, what must stand there, and what does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runner.core.entry_points import reason
from runner.core.settings import SETTINGS, parameter
from runner.core.text import shown_json
from runner.server.service.types import line

COMMAND = re.compile(r"`evalcell (evaluators|templates|datasets|runs|sandboxes)`")
"""Steps of the command line that an address and a tool have as well."""
_MUST = {
    "missing": "is missing",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than": "must be more than {gt:,g}",
    "greater_than_equal": "must be at least {ge:,g}",
    "less_than": "must be less than {lt:,g}",
    "less_than_equal": "must be at most {le:,g}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "may have at most {max_length:,} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "may have at most {max_length:,} entries",
    "extra_forbidden": "is not known",
}
"""By pydantic's types of errors."""
_FORMS = ("str", "SandboxConfig", "dict[str,any]")
"""Parts of a place that are no words of the caller's, but names of our types."""
_PLAIN = ("missing", "extra_forbidden", "string_too_long", "too_long")
"""Those that say all without the value."""


def what(error: Mapping[str, Any]) -> str:
    """Return what is wrong at one place."""
    kind = error["type"]
    if kind == "extra_forbidden" and (why := _lacking(str(error["loc"][-1]))):
        return f"is not taken here: {why}"
    if kind not in _MUST:
        return line(str(error["msg"]).removeprefix("Value error, "), 300)
    words = _MUST[kind].format(**error.get("ctx", {})).replace("'", "`")
    return words if kind in _PLAIN else f"{words}, not {line(shown_json(error['input'], 60))}"


def _lacking(name: str) -> str:
    """Why a request lacks a setting; empty for what is none."""
    return next((why for one in SETTINGS if parameter(one) == name and (why := reason("POST /v1/runs", one))), "")


def each(errors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """
    Return the errors of pydantic, without those of a form that nobody meant.

    Where one place may hold a text or an object, it tells what is wrong with each of these.
    """
    forms = ("string_type", "dict_type", "model_type", "model_attributes_type", "none_required")
    deep = [error for error in errors if error["type"] not in forms]
    meant = {error["loc"][:depth] for error in deep for depth in range(len(error["loc"]))}
    return [error for error in errors if error["type"] not in forms or error["loc"][:-1] not in meant]


def place(error: Mapping[str, Any]) -> str:
    """Return the place, as a path of names and numbers."""
    parts = [line(str(part), 80) for part in error["loc"]]
    return ".".join(part for part in parts if part not in _FORMS)
