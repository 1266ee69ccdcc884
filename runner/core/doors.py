"""The doors: how each writes a setting in a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from runner.core.settings import SETTINGS
from sandboxes.words.wording import DOOR, Words, json_literal, plain_words, python_words

DoorName = Literal["python", "options", "json", "tool", "plain"]

OPTIONS = {spec.field or name: f"--{name.replace('_', '-')}" for name, spec in SETTINGS.items()}
"""The command line's, of a run's settings. Others are the last word of their name."""
OPTIONS |= {"output": "-o", "sandboxes": "--sandbox"}
_TOOL = {"limits.timeout": "timeout", "mapping.literals": "values", "mapping.paths": "mapping"}
"""The parameters of the tools for agents that are not named as a request's."""
_LABELS = {"mapping.literals": "value", "mapping.paths": "mapping"}


def option(name: str) -> str:
    """Return the option of a setting."""
    return OPTIONS.get(name) or "--" + name.rpartition(".")[2].replace("_", "-")


def _option_words(name: str, value: Any) -> str:
    if isinstance(value, dict):
        values = [f"{key}={one if isinstance(one, str) else json_literal(one)}" for key, one in value.items()]
    elif isinstance(value, list):
        values = value
    else:
        values = [] if value in (None, True) else [value]
    return " ".join(f"{option(name)} {_quoted(str(one))}" for one in values) or option(name)


def _quoted(text: str) -> str:
    import shlex  # here: most commands say nothing of settings

    return text if text.endswith("\u2026") else shlex.quote(text)


def _json_words(name: str, value: Any) -> str:
    if name == "with_requirements":
        return "the lines of a requirements file"
    if (plain := plain_words(name, value)) is not None:
        return plain
    if value is None:
        return f"`{name}`"
    *groups, field = name.split(".")
    text = f'"{field}": {json_literal(value)}'
    return f'"{groups[0]}": {{{text}}}' if groups else text


def _tool_words(name: str, value: Any) -> str:
    return _json_words(_TOOL.get(name, name), value)


def _plain_words(name: str, value: Any) -> str:
    if (plain := plain_words(name, value)) is not None or name == "with_requirements":
        return plain or _json_words(name, value)
    label = f"the {_LABELS.get(name) or name.rpartition('.')[2].replace('_', ' ')}"
    if value is None or value is True:
        return label
    if isinstance(value, dict):
        value = [f"{key} = {one if isinstance(one, str) else json_literal(one)}" for key, one in value.items()]
    return f"{label} {', '.join(map(str, value)) if isinstance(value, list) else value}"


DOORS: dict[DoorName, Words] = {
    "python": python_words,
    "options": _option_words,
    "json": _json_words,
    "tool": _tool_words,
    "plain": _plain_words,
}
"""
Python's functions, the command line, requests to a server, and its tools for agents.

What all of these read, such as the results of a server's runs, and the page with its forms, is in plain words.
"""


def door() -> DoorName:
    """Return the door of this context, for a process that works for it."""
    words = DOOR.get()
    return next(name for name, one in DOORS.items() if one is words)


@contextmanager
def speaking(name: DoorName) -> Iterator[None]:
    """Write settings as this door does."""
    token = DOOR.set(DOORS[name])
    try:
        yield
    finally:
        DOOR.reset(token)
