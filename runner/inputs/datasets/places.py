"""Where the rows of a JSON document are: places as paths, and the place that a document which is no array proposes."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from runner.core.errors import PathError
from runner.core.text import list_names, printable, whole
from runner.inputs.datasets.formats.json_array import Steps
from sandboxes.words.wording import Message, Setting

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([\[\]{}:,])|([^\s\[\]{}:,"]+)', re.DOTALL)
_PLAIN = re.compile(r"[^\W\d]\w*", re.ASCII)
_LEVELS = 8
_MANY = 200  # places that are held
_NAMED = 4
_ONE_NUMBER = re.compile(r"\d+")


def parse_place(path: str) -> Steps:
    """Return the names and numbers of a path, None for all that is there. Raises PathError for any other path."""
    from runner.inputs.evaluators.paths.jsonpath import parse_path  # here: few datasets name a place

    if (steps := parse_path(path, trusted=True).steps) is None:
        raise PathError("it may have names, numbers from 0 and [*] alone, such as data[*].items")
    return steps


@dataclass
class _Value:
    """An object or array of the document's beginning."""

    kind: str
    path: str
    names: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """Of what is in it: `{`, `[`, or a scalar."""
    objects: int = 0
    name: str = ""


def _values(text: str) -> list[_Value]:
    """The objects and arrays of a document that begins so, outside first."""
    every: dict[tuple[str, str], _Value] = {}
    stack: list[_Value] = []
    awaited = False  # a name's value
    for found in _TOKEN.finditer(text):
        string, mark, _ = found.groups()
        top = stack[-1] if stack else None
        if mark == ":":
            awaited = True
        elif mark in ("]", "}") and stack:
            stack.pop()
            awaited = False
        elif mark != ",":
            if top is not None and top.kind == "{" and not awaited and string is not None:
                top.name = _text_of(string)
                if len(top.names) < _MANY:
                    top.names.append(top.name)
                continue
            awaited = False
            kind = mark or "scalar"
            if top is not None:
                top.kinds.add(kind)
                top.objects += kind == "{"
            if mark in ("[", "{"):
                inner = "" if top is None else _path_of(top.path, None if top.kind == "[" else top.name)
                value = every.get((inner, mark)) or _Value(mark, inner)  # what several elements have counts together
                stack.append(value)
                if len(stack) <= _LEVELS and len(every) < _MANY:
                    every[inner, mark] = value
    return [*every.values()]


def _text_of(string: str) -> str:
    try:
        return str(json.loads(f'"{string}"', strict=False))
    except ValueError:
        return string


def _path_of(path: str, name: str | None) -> str:
    if name is None:
        return f"{path}[*]"
    if _PLAIN.fullmatch(name):
        return f"{path}.{name}" if path else name
    quoted = json.dumps(name, ensure_ascii=False)[1:-1].replace("'", "\\'")
    return f"{path}['{quoted}']"


def likely_places(text: str) -> list[str]:
    """
    Return the paths to arrays of objects in a document that begins so: those that can match once first, most rows
    first.
    """
    arrays = [one for one in _values(text) if one.kind == "[" and one.objects and one.path]
    return [one.path for one in sorted(arrays, key=lambda one: ("[*]" in one.path, -one.objects))]


def step_for(text: str, path: Path) -> str | Message:
    """
    Return what a document that begins so is, and what to do about it: the place to give, or a command that converts it.
    """
    every = _values(text)
    top = every[0] if every else _Value("{", "")
    below = [one for one in every if one.path and "." not in one.path and "[" not in one.path[1:]]
    if {"columns", "data"} <= {*top.names} and any(one.path == "data" and one.kinds == {"["} for one in every):
        return f"holds a table of columns and data, as pandas writes it; {_conversion(path, 'split')}"
    if places := likely_places(text):
        more = f"; arrays of objects are at {list_names(places, _NAMED)}" if len(places) > 1 else ""
        place = printable(places[0], 100)
        return Message(f"holds an object whose rows seem to be in `{place}`: give ", _rows(places[0]), more)
    if top.kinds == {"["} and below:
        return f"holds an object of columns; {_conversion(path, 'columns')}"
    if top.kinds == {"{"} and below:
        numbered = all(_ONE_NUMBER.fullmatch(inner) for one in below for inner in one.names)
        if numbered and len(below) == len(top.names):
            return f"holds an object of columns, as pandas writes it; {_conversion(path, 'columns')}"
        return Message("holds an object of objects; if each is a row, give ", _rows("*"))
    return f"holds an object; it must be an array of rows; if it is one row, name it {printable(path.stem, 60)}.jsonl"


def _rows(place: str) -> Setting:
    return Setting("rows", printable(place, 200))


def _conversion(path: Path, orient: str) -> str:
    read, made = json.dumps(whole(str(path))), json.dumps(whole(str(path.with_suffix(".jsonl"))))
    code = (
        f'import pandas; pandas.read_json({read}, orient="{orient}", dtype=False, convert_dates=False)'
        f'.to_json({made}, orient="records", lines=True)'
    )
    return f"convert it: {printable(shlex.join(['python', '-c', code]), 500)}"
