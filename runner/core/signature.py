"""Functions of Python that take a run's settings as keywords: their signature and docstring, from the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import Parameter, get_annotations, signature
from textwrap import fill
from typing import Any, TypeVar, cast

from runner.core.entry_points import reason
from runner.core.settings import PARTS, SETTINGS, LocalSettings, parameter
from runner.core.text import suggestion

F = TypeVar("F", bound=Callable[..., Any])

_WIDTH = 116
_HERE = "{settings}"
"""The line of a docstring that becomes the list of settings."""


def with_settings(door: str, options: type) -> Callable[[F], F]:
    """
    Name the settings in the signature and the docstring of a function that takes `**settings` of this type.

    A keyword that it does not take raises TypeError, with the reason if it is a setting.
    """
    kinds = {name: getattr(kind, "__forward_arg__", kind) for name, kind in get_annotations(options).items()}
    order = [name for name in dict.fromkeys(map(parameter, SETTINGS)) if name in kinds]

    def decorate(function: F) -> F:
        own = signature(function)
        named = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        at = next((at for at, one in enumerate(named) if one.kind is Parameter.KEYWORD_ONLY), len(named))
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=_default(name), annotation=kinds[name]) for name in order
        ]
        whole = own.replace(parameters=[*named[:at], *added, *named[at:]])

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in whole.parameters:
                    raise TypeError(f"{function.__name__}() {_unknown(door, name, whole.parameters)}")
            return function(*args, **keywords)

        vars(call)["__signature__"] = whole
        if call.__doc__:
            call.__doc__ = call.__doc__.replace(_HERE, "\n".join(_listed(order)).lstrip())
        return cast("F", call)

    return decorate


def _default(name: str) -> Any:
    return None if name in PARTS else LocalSettings.model_fields[name].default


def _unknown(door: str, name: str, known: Any) -> str:
    """Why a keyword is not taken."""
    for setting in SETTINGS:
        if name in (setting, parameter(setting)) and (why := reason(door, setting)):
            return f"takes no `{name}`: {why}"
    return f"got an unexpected keyword argument {name!r}{suggestion(name, known)}"


def _listed(names: list[str]) -> Iterator[str]:
    """A line for each, as a list of Markdown."""
    for name in names:
        setting = next(key for key in SETTINGS if parameter(key) == name)
        text = PARTS.get(name) or SETTINGS[setting].about or SETTINGS[setting].help.partition("  [")[0]
        yield fill(f"{name}: {text}", _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
