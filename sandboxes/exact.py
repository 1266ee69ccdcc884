"""A boolean is no number, and nothing else is a boolean. By itself, pydantic takes 0 and "no" as false, true as 1."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic_core import PydanticKnownError


def _refuse_booleans(kind: Any, value: Any) -> Any:
    if value is True or value is False:
        raise PydanticKnownError(kind)
    return value


_CHECKS = {kind: partial(_refuse_booleans, f"{kind}_type") for kind in ("int", "float")}


def exact(schema: Any) -> Any:
    """Return a schema of pydantic's core that converts neither; a text such as "3" is still taken as a number."""
    if isinstance(schema, list):
        return [exact(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "bool":
        return {**schema, "strict": True}
    if kind == "function-before" and schema["function"]["function"] in _CHECKS.values():
        return schema  # of a model within a model
    if kind in ("int", "float"):
        check = {"type": "no-info", "function": _CHECKS[kind]}
        return {"type": "function-before", "function": check, "schema": schema}
    return {
        name: exact(value) if name not in ("metadata", "serialization") else value for name, value in schema.items()
    }
