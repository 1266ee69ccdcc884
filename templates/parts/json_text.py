"""JSON text as the value that it stands for."""

import json
import re
from typing import NoReturn


def parse_json(
    value: object, name: str, *, unfence: bool = False, plain: bool = False, constants: bool = False
) -> object:
    """
    The value, or where that is text, what the text stands for.

    With `unfence`, a Markdown fence is taken off before; with `plain`, text that does not begin like an object or array
    stays as it is; with `constants`, NaN and Infinity are taken too, as `json.loads` does. Raises ValueError that says
    what is wrong with `name`, in words that do not change with the version of Python.
    """
    if not isinstance(value, str):
        return value
    text = strip_fence(value) if unfence else value
    if plain and not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return value
    try:
        return json.loads(text, parse_constant=None if constants else refuse)
    except json.JSONDecodeError:
        why = "is not valid JSON"
    except RecursionError:
        why = "is nested too deeply"
    except ValueError:
        why = "has a number of too many digits"
    raise ValueError(f"{name} {why}")


def strip_fence(text: str) -> str:
    """
    What stands between a fence's first and last line, or the text as it is where it is no fence as a whole.

    The first line is three or more backticks or tildes, and perhaps a word such as `json`; the last one is the same
    marks alone. Both may be indented. Text before or after them makes it prose.
    """
    first, _, rest = text.strip(" \t\r\n").partition("\n")
    inside, _, last = rest.rpartition("\n")
    marks = re.fullmatch(r"(`{3,}|~{3,})[ \t]*(?:[A-Za-z0-9_+.-]+[ \t]*)?\r?", first)
    return inside if marks and last.strip(" \t") == marks[1] else text


def refuse(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"{constant} is no JSON", constant, 0)
