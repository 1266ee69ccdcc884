"""Parameters that a header declares: read the declarations, and check values against them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, NoReturn, get_args

from runner.core.text import describe, list_names, printable, suggestion
from runner.core.types import JsonType, ParameterSpec

MAX_DECLARED = 64
"""Parameters, and choices of one."""
MAX_DESCRIPTION = 4000
"""Characters."""

_TYPES: tuple[JsonType, ...] = get_args(JsonType)
_KEYS = ("type", "default", "description", "choices", "minimum", "maximum", "keys", "values", "some_above")
_WORDS = {
    "string": "text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class NotAcceptedError(ValueError):
    """A value is not what its parameter takes; the message goes on from the parameter's name."""


def coerce_value(declared: ParameterSpec, value: Any) -> Any:
    """
    Return the value as `evaluate` gets it: where an integer is wanted, and no other number would do, 3.0 is 3.

    Raises NotAcceptedError.
    """
    if not _fits(declared, value):
        near = suggestion(value, map(str, declared.choices)) if isinstance(value, str) else ""
        raise NotAcceptedError(f"must be {describe_values(declared)}, not {describe(value, 60)}{near}")
    if isinstance(value, dict):
        _refuse_content(declared, value)
    if isinstance(value, float) and value.is_integer() and not {"number", "any"} & set(declared.types):
        return int(value)
    return value


def _refuse_content(declared: ParameterSpec, value: dict[str, Any]) -> None:
    for key in value if declared.keys else ():
        if key not in declared.keys:
            near = suggestion(key, declared.keys)
            raise NotAcceptedError(
                f"has the unknown key {describe(key, 60)}{near}; known are {list_names(declared.keys, 20)}"
            )
    tables = [value] if declared.values else []
    for table in tables:
        for key, inner in table.items():
            if isinstance(inner, dict) and not declared.keys:
                tables.append(inner)
            elif not (_is(inner, "number") and _within(declared, inner)):
                wanted = _bounded("a number", "number", declared)
                raise NotAcceptedError(f"must have {wanted} at {describe(key, 60)}, not {describe(inner, 60)}")
    least = declared.some_above
    if least is not None and not any(_is(one, "number") and one > least for table in tables for one in table.values()):
        where = f", for one of {list_names(declared.keys, 20)}" if declared.keys else ""
        raise NotAcceptedError(f"must have a number above {least:g}{where}, not {describe(value, 60)}")


def _within(declared: ParameterSpec, value: Any) -> bool:
    low, high = declared.minimum, declared.maximum
    return (low is None or value >= low) and (high is None or value <= high)


def describe_values(declared: ParameterSpec) -> str:
    """Return the accepted values, in words: `a number from 0 to 1, or null`."""
    if declared.choices:
        known = ", ".join(as_json(choice) for choice in declared.choices)
        return printable(f"one of {known}{' or null' if 'null' in declared.types else ''}", 300)
    if "any" in declared.types:
        return "any value"
    words = [_bounded(_WORDS[kind], kind, declared) for kind in declared.types]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def about(declared: ParameterSpec) -> str:
    """Return all that is declared, on one line: what it takes, its default, its description."""
    default = "" if declared.default is None else f", default {as_json(declared.default)}"
    said = " ".join(declared.description.split())
    return f"{describe_values(declared)}{default}{'; ' if said else ''}{said}"


def as_json(value: Any, limit: int = 60) -> str:
    return printable(json.dumps(value, ensure_ascii=False), limit)


def read_parameters(table: Any, refuse: Callable[[str, str], NoReturn]) -> dict[str, ParameterSpec]:
    """Return the table `[tool.evalcell.parameters]`. `refuse` is told the key that is wrong and why, and must raise."""
    if not isinstance(table, dict) or len(table) > MAX_DECLARED:
        refuse("parameters", f"`parameters` must be a table of at most {MAX_DECLARED} parameters")
    return {name: _declared(name, value, refuse) for name, value in table.items()}


def _declared(name: str, value: Any, refuse: Callable[[str, str], NoReturn]) -> ParameterSpec:
    short = f"`parameters.{printable(name, 60)}`"

    def wrong(why: str) -> NoReturn:
        refuse(name, f"{short}{why}")

    if not isinstance(value, dict):
        wrong(' must be a table such as {type = "number", default = 0.5, description = "…"}')
    for key in value:
        if key not in _KEYS:
            wrong(f" has the unknown key {describe(key, 60)}{suggestion(key, _KEYS)}; known are {list_names(_KEYS)}")
    description = value.get("description", "")
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        wrong(f": description must be text of at most {MAX_DESCRIPTION:,} characters")
    found = ParameterSpec(
        types=_types(value.get("type", "any"), wrong),
        description=description,
        choices=_choices(value.get("choices", []), wrong),
        minimum=_bound("minimum", value, wrong),
        maximum=_bound("maximum", value, wrong),
        keys=_names(value.get("keys", []), wrong),
        values=_values(value.get("values"), wrong),
        some_above=_bound("some_above", value, wrong),
    )
    _refuse_contradiction(found, wrong)
    if "default" not in value:
        return found
    return found.model_copy(update={"default": _default(found, value["default"], wrong)})


def _types(value: Any, wrong: Callable[[str], NoReturn]) -> tuple[JsonType, ...]:
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list) or not 0 < len(named) <= len(_TYPES):
        wrong(f": type must be one of {list_names(_TYPES)}, or a list of them")
    for kind in named:
        if kind not in _TYPES:
            near = suggestion(kind, _TYPES) if isinstance(kind, str) else ""
            wrong(f": {describe(kind, 60)} is not a type{near}; known are {list_names(_TYPES)}")
    return tuple(dict.fromkeys(named))


def _choices(value: Any, wrong: Callable[[str], NoReturn]) -> tuple[Any, ...]:
    simple = isinstance(value, list) and all(_is(v, "string") or _is(v, "number") or _is(v, "boolean") for v in value)
    if not simple or len(value) > MAX_DECLARED:
        wrong(f": choices must be a list of at most {MAX_DECLARED} texts, numbers or booleans")
    return tuple(value)


def _names(value: Any, wrong: Callable[[str], NoReturn]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value) or len(value) > MAX_DECLARED:
        wrong(f": keys must be a list of at most {MAX_DECLARED} texts")
    return tuple(value)


def _values(value: Any, wrong: Callable[[str], NoReturn]) -> Literal["number"] | None:
    if value not in (None, "number"):
        wrong(f': values must be "number", not {describe(value, 60)}')
    return "number" if value else None


def _bound(key: str, value: dict[str, Any], wrong: Callable[[str], NoReturn]) -> float | None:
    bound = value.get(key)
    try:
        if bound is None or _is(bound, "number"):
            return None if bound is None else float(bound)
    except OverflowError:  # an integer beyond the range of a float
        pass
    wrong(f": {key} must be a finite number, not {describe(bound, 60)}")


def _refuse_contradiction(found: ParameterSpec, wrong: Callable[[str], NoReturn]) -> None:
    low, high = found.minimum, found.maximum
    if low is not None and high is not None and low > high:
        wrong(f": minimum {low:g} is above maximum {high:g}")
    if (found.keys or found.values) and "object" not in found.types:
        wrong(f": keys and values are for objects, and the type is {list_names(found.types)}")
    if found.some_above is not None and not found.values:
        wrong(': some_above is for objects of numbers; add values = "number"')
    if (low is not None or high is not None) and not found.values and not {"number", "integer"} & set(found.types):
        wrong(f": minimum and maximum are for numbers, and the type is {list_names(found.types)}")
    for choice in found.choices:
        try:
            coerce_value(found, choice)
        except NotAcceptedError:
            plain = found.model_copy(update={"choices": ()})
            wrong(f": the choice {describe(choice, 60)} is not {describe_values(plain)}")


def _default(found: ParameterSpec, value: Any, wrong: Callable[[str], NoReturn]) -> Any:
    try:
        json.dumps(value, allow_nan=False)
        return coerce_value(found, value)
    except NotAcceptedError as error:
        wrong(f": the default {error}")
    except (TypeError, ValueError, RecursionError):
        wrong(f": the default {describe(value, 60)} is not a JSON value")


def _fits(declared: ParameterSpec, value: Any) -> bool:
    if not any(_is(value, kind) for kind in declared.types):
        return False
    if _is(value, "number") and not _within(declared, value):
        return False
    # TOML has no null, so that choices cannot name it.
    return not declared.choices or value is None or any(_same(value, choice) for choice in declared.choices)


def _is(value: Any, kind: JsonType) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "number":
            # The difference is NaN for what is not finite.
            return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0
        case "integer":
            return _is(value, "number") and (isinstance(value, int) or value.is_integer())
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
        case "any":
            return True


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _bounded(words: str, kind: JsonType, declared: ParameterSpec) -> str:
    if kind in ("number", "integer"):
        bounds = (("from", declared.minimum), ("to", declared.maximum))
        return " ".join([words, *(f"{word} {bound:.12g}" for word, bound in bounds if bound is not None)])
    return words
