"""What a form of a page sends: fields as text, bounded, and what each means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import ValidationError

from runner.core.errors import InputError, MappingError
from runner.core.setting_types import about
from runner.core.settings import SETTINGS, value_of
from runner.core.text import printable
from runner.core.types import InputMapping
from runner.inputs.evaluators.evaluator_files import MAX_BYTES
from runner.inputs.evaluators.load import MAX_SOURCE
from sandboxes.base import Limits

_MOST = 4 * (MAX_SOURCE + MAX_BYTES)  # each character of the script may be three of the form
_FIELDS = 200
_MB = 1 << 20


async def fields(request: Request) -> dict[str, str]:
    """Return the fields of a form by name, of several with one name the last. Raises InputError."""
    body = await request.body()
    if len(body) > _MOST:
        raise InputError(f"the form has more than {_MOST >> 20} MB; send less")
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise InputError("the form cannot be read; reload the page and send it again") from None
    # A browser writes line ends of a form by HTTP's rule.
    return {name: text.replace("\r\n", "\n") for name, text in pairs}


def mapping(text: str) -> InputMapping:
    """
    Read parameters with their columns, one a line: `output = metadata.answer`, or `mode := "strict"` for a value.

    Raises:
        MappingError: The parameters cannot be bound.
    """
    paths: dict[str, str] = {}
    literals: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, source = line.partition("=")
        name, source = name.strip(), source.strip()
        if not equals or not name or not source:
            raise MappingError(f"the mapping line `{printable(line, 80)}` must be `parameter = column`")
        if name.endswith(":"):
            literals[name[:-1].strip()] = _literal(source)
        else:
            paths[name] = source
    return InputMapping(paths=paths, literals=literals)


def mapping_text(mapping: InputMapping) -> str:
    """Return the same as `mapping` reads it."""
    lines = [f"{name} = {path}" for name, path in mapping.paths.items()]
    lines += [f"{name} := {json.dumps(value, ensure_ascii=False)}" for name, value in mapping.literals.items()]
    return "\n".join(lines)


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class Field(NamedTuple):
    """A setting's field of a form."""

    name: str
    about: str
    kind: Literal["text", "number", "choice", "check"]
    choices: tuple[str, ...]
    default: str
    """What it is where it is left empty."""
    value: str

    @classmethod
    def of(cls, name: str, value: str) -> Field:
        """Return the field of a setting, with what stands in it."""
        held, unit = value_of(name), SETTINGS[name].unit
        numeric = held.type in (int, float)
        kind: Any = "check" if held.type is bool else "choice" if held.choices else "number" if numeric else "text"
        default = held.default if not numeric or held.default is None else f"{held.default / unit:g}"
        return cls(name, about(name), kind, held.choices, str(default or ""), value)


def setting(name: str, text: str) -> Any:
    """Return the value of a setting's field, in which something stands. Raises InputError."""
    held, text = value_of(name), text.strip()
    if held.type is bool:
        return True
    if held.many:
        return tuple(filter(None, map(str.strip, text.split(","))))
    if held.type is float:
        return number(text, f"`{name}`")
    return (
        whole_number(text, f"`{name}`", held.bounds.get("ge", int("gt" in held.bounds))) if held.type is int else text
    )


def limits(form: Mapping[str, str]) -> Limits:
    """Return the limits of a form: seconds, and MB. Raises InputError."""
    given: dict[str, Any] = {}
    if form.get("timeout", "").strip():
        given["timeout"] = number(form["timeout"], "the timeout")
    if form.get("memory", "").strip():
        given["memory"] = int(number(form["memory"], "the memory") * _MB)
    try:
        return Limits(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"`{first['loc'][0]}`: {first['msg']}; change it and try again") from None


def number(text: str, what: str) -> float:
    """Return a number of a form. Raises InputError."""
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{what} must be a number, not {printable(text, 40)!r}") from None


def whole_number(text: str, what: str, low: int = 1, high: int = 1 << 53) -> int:
    """Return a whole number of a form, within bounds. Raises InputError."""
    if not text.strip().isdecimal() or len(text) > 20 or not low <= int(text) <= high:
        raise InputError(f"{what} must be a whole number of at least {low}, not {printable(text, 40)!r}")
    return int(text)


def rows(text: str, most: int) -> list[dict[str, Any]]:
    """Read rows that were typed, one JSON object a line. Raises InputError."""
    found = []
    for at, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"row {at} is not JSON: {printable(str(error), 120)}; write one object a line") from None
        if not isinstance(row, dict):
            raise InputError(f'row {at} must be a JSON object, such as {{"output": "a", "reference": "b"}}')
        found.append(row)
        if len(found) == most:
            break
    return found
