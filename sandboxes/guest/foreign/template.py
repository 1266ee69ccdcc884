"""The template pass of promptfoo's inline code: names and filters of nunjucks, as it writes values."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

MARKS = re.compile(r"\{\{-?(.*?)-?\}\}|\{#.*?#\}", re.DOTALL)
_PART = re.compile(r"\.([A-Za-z_$][\w$]*)|\[\s*(-?\d+|'[^']*'|\"[^\"]*\")\s*\]")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")


def render(template: str, values: Mapping[str, Any]) -> str:
    """Return the template with each `{{ … }}` filled; what there is not is empty."""
    return MARKS.sub(lambda found: "" if found[1] is None else _text(_value(found[1].strip(), values)), template)


def _value(expression: str, values: Mapping[str, Any]) -> Any:
    first, *filters = _split(expression, "|")
    value = _operand(first.strip(), values)
    for one in filters:
        name, _, rest = one.strip().partition("(")
        given = _split(rest.rstrip()[:-1], ",") if rest.strip(" )") else []
        if name.strip() not in FILTERS:
            raise ValueError(f"the template's filter {name.strip()} is not known")
        value = FILTERS[name.strip()](value, *(_operand(part.strip(), values) for part in given))
    return value


def _split(text: str, mark: str) -> list[str]:
    """The parts between the marks that stand in no quotes and no brackets."""
    parts, quote, deep = [""], "", 0
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            deep += (letter in "([") - (letter in ")]")
        if letter == mark and not quote and not deep:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _operand(text: str, values: Mapping[str, Any]) -> Any:
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return float(text) if "." in text else int(text)
    if text in ("true", "false", "none", "null"):
        return {"true": True, "false": False}.get(text)
    found = _NAME.match(text)
    if found is None:
        raise ValueError(f"the template has {text!r}, which is neither a name nor a value")
    value, at = values.get(found[0]), found.end()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(f"the template has {text!r}, which is neither a name nor a value")
        value, at = _inside(value, part[1] or part[2]), part.end()
    return value


def _inside(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key.strip("'\""))
    if isinstance(value, list | str) and key == "length":
        return len(value)
    if isinstance(value, list | str) and re.fullmatch(r"\d+", key) and int(key) < len(value):
        return value[int(key)]
    return None


def _text(value: Any) -> str:
    """As JavaScript writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, list):
        return ",".join(_text(one) for one in value)
    return "[object Object]" if isinstance(value, dict) else str(value)


def _replaced(value: Any, old: Any, new: Any) -> str:
    return _text(value).replace(_text(old), _text(new))


def _default(value: Any, other: Any = "", falsy: Any = False) -> Any:
    return other if value is None or (falsy and not value) else value


def _rounded(value: Any, places: Any = 0) -> float:
    scale = float(10 ** int(places))
    return int(float(value) * scale + (0.5 if float(value) >= 0 else -0.5)) / scale


FILTERS: dict[str, Callable[..., Any]] = {
    "upper": lambda value: _text(value).upper(),
    "lower": lambda value: _text(value).lower(),
    "trim": lambda value: _text(value).strip(),
    "capitalize": lambda value: _text(value).lower().capitalize(),
    "length": lambda value: len(value) if isinstance(value, str | list | dict) else 0,
    "first": lambda value: value[0] if value else None,
    "last": lambda value: value[-1] if value else None,
    "join": lambda value, mark="": _text(mark).join(_text(one) for one in value or []),
    "replace": _replaced,
    "default": _default,
    "d": _default,
    "dump": lambda value, indent=None: json.dumps(
        value, indent=indent, ensure_ascii=False, separators=None if indent else (",", ":")
    ),
    "tojson": lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    "safe": lambda value: value,
    "string": _text,
    "abs": lambda value: abs(value),
    "round": _rounded,
    "int": lambda value, other=0: int(float(value)) if re.fullmatch(r"\s*-?[\d.]+.*", _text(value)) else other,
    "float": lambda value, other=0.0: float(value) if re.fullmatch(r"\s*-?[\d.]+\s*", _text(value)) else other,
}
"""The filters that are known, by their names."""
