"""Other answers that are made of a program or a query, and of the fence around one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from runner.runs.audit.plants.types import Change, Plant

_FENCED = re.compile(r"```(\w+)(?=\n)")
_TAGS = {"python": "py", "py": "python", "javascript": "js", "typescript": "ts", "bash": "sh"}
_SELECT = re.compile(r"(?is)(?!.*(?:\b(?:order|limit|union|intersect|except)\b|--))\s*(select\b.*?)[;\s]*")
"""A query that may stand in a UNION."""
_ORDER = re.compile(r"(?is)(\border by [\w.]+)(?:(\s+desc)|\s+asc)?(?=\s*(?:limit\b|;|\Z))")
_FAILING_ONCE = """
def _failing_once(function, calls=[]):
    def once(*args, **kwargs):
        if function not in calls:
            calls.append(function)
            raise RuntimeError("planted by the audit")
        return function(*args, **kwargs)
    return once
"""


def change_fence(output: Any) -> Iterator[Plant]:
    """Yield an output in its fence with another tag and without one."""
    found = _FENCED.search(output) if isinstance(output, str) else None
    if found is not None:
        for tag in (_TAGS.get(found[1].lower(), found[1].swapcase()), ""):
            yield Plant("same.tag", f"{output[: found.start(1)]}{tag}{output[found.end() :]}", place=tag or "none")


def double_rows(text: str) -> str | None:
    """Return a query with each row of its result twice."""
    found = _SELECT.fullmatch(text)
    return None if found is None else f"{found[1]} UNION ALL {found[1]}"


def turn_order(text: str) -> str | None:
    """Return a query whose result has its rows the other way round."""
    found = _ORDER.search(text)
    return None if found is None else f"{text[: found.end(1)]}{'' if found[2] else ' DESC'}{text[found.end() :]}"


_CLEARING = """
def _clearing(function):
    def cleared(*args):
        every = [one for one in args if isinstance(one, list | dict | set)]
        for one in every:
            one.clear()
        return function(*args) if every else None
    return cleared
"""


def _functions(code: str) -> list[str]:
    """The functions of a Python program, at its top."""
    try:
        return [one.name for one in ast.parse(code).body if isinstance(one, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _failing_once(code: str) -> str | None:
    names = _functions(code)
    lines = [f"{name} = _failing_once({name})" for name in names]
    return "\n".join((code, _FAILING_ONCE, *lines)) if names else None


def _clearing(code: str) -> str | None:
    names = _functions(code)
    return "\n".join((code, _CLEARING, *(f"{name} = _clearing({name})" for name in names))) if names else None


def _leaving(code: str) -> str | None:
    return f"raise SystemExit(0)\n{code}" if _functions(code) else None


def _stubs(ending: str = "") -> Change:
    def changed(code: str) -> str | None:
        names = _functions(code)
        return "\n".join(f"def {name}{ending}(*args, **kwargs):\n    pass\n" for name in names) if names else None

    return changed


PROGRAM_CHANGES: dict[str, Change] = {
    "wrong.failing_once": _failing_once,
    "wrong.clearing": _clearing,
    "wrong.leaving": _leaving,
    "wrong.stubs": _stubs(),
    "wrong.other_stubs": _stubs("_of_another_name"),
    "sees.rows_twice": double_rows,
    "sees.query_order": turn_order,
}
