"""A boolean is no number, and nothing else is a boolean. By itself, pydantic takes 0 and "no" as false, true as 1."""

from __future__ import annotations

from typing import Any


def exact(schema: Any) -> Any:
    """A schema of pydantic's core that converts neither; a text such as "3" is still taken as a number."""
    if isinstance(schema, list):
        return [exact(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "bool":
        return {**schema, "strict": True}
    if schema.get("type") in ("int", "float"):
        check = {"type": "no-info", "function": _int if schema["type"] == "int" else _float}
        return {"type": "function-before", "function": check, "schema": schema}
    return {
        name: exact(value) if name not in ("metadata", "serialization") else value for name, value in schema.items()
    }


def _int(value: Any) -> Any:
    return _refused("int_type") if value is True or value is False else value


def _float(value: Any) -> Any:
    return _refused("float_type") if value is True or value is False else value


def _refused(kind: Any) -> Any:
    from pydantic_core import PydanticKnownError  # here: most values need no pydantic

    raise PydanticKnownError(kind)
