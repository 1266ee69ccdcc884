"""Settings as fields of pydantic models, where something is read from outside: a file, or an agent's call."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from runner.core.settings import SETTINGS, value_of

_LITERAL: Any = Literal


def about(name: str) -> str:
    """Return what a setting is, where there are no options."""
    text = (SETTINGS[name].about or SETTINGS[name].help).partition("  [")[0]
    return text if SETTINGS[name].unit == 1 else f"{text} In MB."


def model_field(name: str) -> tuple[Any, Any]:
    """Return the type of a setting by its own name, and its default: None, False or nothing."""
    setting, value = SETTINGS[name], value_of(name)
    if value.many:
        return tuple[str, ...], Field(default=(), description=about(name))
    if value.type is dict:
        pairs: Any = dict[str, Any] if name == "set" else dict[str, str]
        return pairs, Field(default_factory=dict, description=about(name))
    if value.type is bool:
        return bool, Field(default=False, description=about(name))
    bounds: dict[str, Any] = dict(value.bounds)
    if setting.unit > 1:
        bounds = {"ge": 1, "le": bounds["le"] // setting.unit}
    choices = setting.words or value.choices
    kind: Any = Annotated[_LITERAL[choices] if choices else value.type, Field(**bounds)]
    return kind | None, Field(default=None, description=about(name))
