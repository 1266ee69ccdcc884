"""JSON text as the value that it stands for."""

import json
import re
from typing import NoReturn

NOTE = " (JSON taken out of the text)"
OPEN = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:[A-Za-z0-9_+.-]+[ \t]*)?\r?$")
SPACES = " \t\r\n"
SPACE = r"[ \t\r\n]*"
PLAIN = r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
BEGINS = re.compile(rf'\{{{SPACE}["}}]|\[[ \t\r\n\[]{{0,60}}["{{]|\[{SPACE}\[[ \t\r\n\[]{{0,60}}[0-9-]')
FLAT = re.compile(rf"\[{SPACE}(?:{PLAIN}{SPACE}(?:,{SPACE}{PLAIN}{SPACE})*)?\]")
TOKEN = re.compile(r'"(?:[^"\\]|\\[\s\S])*"|["{}\[\]]')


def parse_json(value: object, name: str, *, plain: bool = False, constants: bool = False) -> object:
    """
    The value, or where that is text, what the text stands for.

    With `plain`, text that does not begin like an object or array stays as it is; with `constants`, NaN and Infinity
    are taken too, as `json.loads` does. Raises ValueError that says what is wrong with `name`, in words that do not
    change with the version of Python.
    """
    if not isinstance(value, str) or (plain and not value.lstrip(SPACES).startswith(("{", "["))):
        return value
    try:
        return json.loads(value, parse_constant=None if constants else refuse)
    except json.JSONDecodeError:
        why = "is not valid JSON"
    except RecursionError:
        why = "is nested too deeply"
    except ValueError:
        why = "has a number of too many digits"
    raise ValueError(f"{name} {why}")


def refuse(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"{constant} is no JSON", constant, 0)


def find_json(value: object, extract: str) -> object:
    """
    Where the value is text, the part of it that is to be read as JSON; all of it where there is no such part.

    `whole`: all of it. `fence`: what stands in its only Markdown fence, with prose around it if it begins like an
    object or array. `first`, `last`: its first or last object or array; one that is broken counts, too. An array of
    numbers alone, such as the citation [1], counts where there is nothing else.
    """
    if not isinstance(value, str) or extract == "whole":
        return value
    if extract == "fence":
        blocks = fenced_blocks(value)
        whole = OPEN.match(value.lstrip(SPACES).split("\n", 1)[0]) and value.rstrip(SPACES).endswith(("`", "~"))
        return blocks[0] if len(blocks) == 1 and (whole or blocks[0].lstrip(SPACES).startswith(("{", "["))) else value
    found = json_parts(value)
    return value if not found else found[0] if extract == "first" else found[-1]


def extraction_note(value: object, part: object) -> str:
    """What an explanation ends with if the part is not all of the text."""
    return NOTE if isinstance(value, str) and value != part else ""


def fenced_blocks(text: str) -> list[str]:
    """What stands between the first and last line of each Markdown fence that has both."""
    blocks: list[str] = []
    marks, inside = "", [""]
    for line in text.split("\n"):
        if not marks:
            if begin := OPEN.match(line):
                marks, inside = begin[1], []
        elif line.strip(" \t\r") == marks:
            blocks.append("\n".join(inside))
            marks = ""
        else:
            inside.append(line)
    return blocks


def json_parts(text: str) -> list[str]:
    """What begins like an object or array, whole or cut off, and is in no other; arrays of numbers if that is all."""
    parts, flat, at = [], [], 0
    while at < len(text):
        if BEGINS.match(text, at):
            end = end_of(text, at)
            parts.append(text[at:end])
            at = end
        elif array := FLAT.match(text, at):
            flat.append(array[0])
            at = array.end()
        else:
            at += 1
    return parts or flat


def end_of(text: str, start: int) -> int:
    """The place after the bracket that closes the one at `start`."""
    depth = 0
    for token in TOKEN.finditer(text, start):
        depth += (token[0] in ("{", "[")) - (token[0] in ("}", "]"))
        if depth == 0 or token[0] == '"':
            return token.end() if depth == 0 else len(text)
    return len(text)
