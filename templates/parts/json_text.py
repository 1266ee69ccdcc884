"""JSON text as the value that it stands for."""

import json
from typing import NoReturn


def parse_json(text: str, name: str, *, constants: bool = False) -> object:
    """
    Raises ValueError that says what is wrong with `name`, in words that do not change with the version of Python.

    With `constants`, NaN and Infinity are taken too, as `json.loads` does.
    """
    try:
        return json.loads(text, parse_constant=None if constants else refuse)
    except json.JSONDecodeError:
        why = "is not valid JSON"
    except RecursionError:
        why = "is nested too deeply"
    except ValueError:
        why = "has a number of too many digits"
    raise ValueError(f"{name} {why}")


def refuse(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"{constant} is no JSON", constant, 0)
