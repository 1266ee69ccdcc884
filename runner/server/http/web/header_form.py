"""The header of a script as a form, and the form as a header."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from runner.core.errors import EvaluatorError
from runner.core.text import printable
from runner.core.types import Categorical, Continuous
from runner.inputs.evaluators.header import COMMENTS, header_block, read_header
from runner.server.http.web.forms import mapping, mapping_text, number
from sandboxes.base import Language

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def as_fields(source: str, language: Language) -> dict[str, str]:
    """Return what the form shows. Raises EvaluatorError for a header that cannot be read."""
    header = read_header(source, "the header", language)
    output = next(iter(header.outputs.values()), None)
    made = {
        "h_description": header.description or "",
        "h_packages": "\n".join(header.packages),
        "h_mapping": mapping_text(header.mapping),
        "h_kind": output.kind if output else "",
        "h_direction": output.direction if output else "",
        "h_threshold": _text(output.threshold if output else None),
        "h_lower": "",
        "h_upper": "",
        "h_labels": "",
        "h_parameters": "",
        "h_named": ", ".join(name for name in header.outputs if name),
    }
    if isinstance(output, Continuous):
        made |= {"h_lower": _text(output.lower_bound), "h_upper": _text(output.upper_bound)}
    if isinstance(output, Categorical):
        made["h_labels"] = "\n".join(
            label if score is None else f"{label} = {_text(score)}" for label, score in output.labels.items()
        )
    table = _table(source, language).get("tool", {}).get("evalcell", {}).get("parameters", {})
    made["h_parameters"] = "\n".join(f"{_key(name)} = {toml(declared)}" for name, declared in table.items())
    return made


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if float(f"{value:g}") == value else repr(value)


def with_fields(source: str, language: Language, form: Mapping[str, str]) -> str:
    """
    Return the script with its header as the form says. What the form does not have stays; comments in the header do
    not.

    Raises InputError, with the field.
    """
    data = _table(source, language)
    ours = data.setdefault("tool", {}).setdefault("evalcell", {})
    packages = [line.strip() for line in form.get("h_packages", "").splitlines() if line.strip()]
    _set(data, "dependencies", packages)
    _set(ours, "description", form.get("h_description", "").strip())
    found = mapping(form.get("h_mapping", ""))
    _set(ours, "mapping", {**found.paths, **{name: {"literal": v} for name, v in found.literals.items()}})
    _set(ours, "parameters", _parameters(form.get("h_parameters", "")))
    if not ours.get("outputs"):
        _set(ours, "output", _output(form))
    lines = _lines(data)
    made = _replaced(source, language, lines)
    read_header(made, "the header", language)
    return made


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    if value:
        table[key] = value
    else:
        table.pop(key, None)


def _output(form: Mapping[str, str]) -> dict[str, Any]:
    kind = form.get("h_kind", "")
    if not kind:
        return {}
    made: dict[str, Any] = {"kind": kind}
    if kind == "continuous":
        bounds = {"lower_bound": "h_lower", "upper_bound": "h_upper"}
        made |= {key: _number(form[field], key) for key, field in bounds.items() if form.get(field, "").strip()}
    if kind == "categorical":
        made["labels"] = _labels(form.get("h_labels", ""))
    if form.get("h_direction"):
        made["direction"] = form["h_direction"]
    if form.get("h_threshold", "").strip():
        made["threshold"] = _number(form["h_threshold"], "threshold")
    return made


def _labels(text: str) -> Any:
    scores: dict[str, float | int] = {}
    names = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, score = line.rpartition("=")
        names.append(name.strip() if equals else line)
        if equals:
            scores[name.strip()] = _number(score, f"the score of {name.strip()}")
    if scores and len(scores) < len(names):
        raise EvaluatorError("give each label a score (`good = 1`), or none of them")
    return scores or names


def _parameters(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise EvaluatorError(
            f'the parameters are not TOML: {printable(str(error), 120)}; write lines like n = {{type = "integer"}}'
        ) from None


def _number(text: str, what: str) -> float | int:
    found = number(text.strip(), what)
    return int(found) if found.is_integer() and abs(found) < 1e15 else found


def _table(source: str, language: Language) -> dict[str, Any]:
    block = header_block(source, language)
    if block is None:
        return {}
    read_header(source, "the header", language)  # says what is wrong, with the line
    return tomllib.loads(block[2])


def _lines(data: Mapping[str, Any]) -> list[str]:
    """The header's TOML, in the order in which headers are written."""
    lines = [f"{_key(key)} = {toml(value)}" for key, value in data.items() if key != "tool"]
    ours = data.get("tool", {}).get("evalcell", {})
    plain = [f"{_key(key)} = {toml(value)}" for key, value in ours.items() if not isinstance(value, dict)]
    if plain:
        lines += ["", "[tool.evalcell]", *plain]
    for key, value in ours.items():
        if key == "outputs":
            for name, output in value.items():
                lines += ["", f"[tool.evalcell.outputs.{_key(name)}]", *_entries(output)]
        elif isinstance(value, dict):
            lines += ["", f"[tool.evalcell.{key}]", *_entries(value)]
    return lines[1:] if lines and not lines[0] else lines


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {toml(value)}" for key, value in table.items()]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml(name)


def toml(value: Any) -> str:
    """Return a value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for half a surrogate pair and the delete character.
        return json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007F")
    if value is None:
        raise EvaluatorError("TOML has no null; leave the value out")
    return str(value)


def _replaced(source: str, language: Language, lines: list[str]) -> str:
    mark = COMMENTS[language]
    block = header_block(source, language)
    header = [f"{mark} /// script", *(f"{mark} {line}".rstrip() for line in lines), f"{mark} ///"] if lines else []
    every = source.split("\n")
    if block is None:
        if not header:
            return source
        first = 1 if source.startswith("#!") else 0
        return "\n".join([*every[:first], *header, *every[first:]])
    start, count = block[1] - 1, block[2].count("\n") + 3
    return "\n".join([*every[:start], *header, *every[start + count :]])
