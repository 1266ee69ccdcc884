"""The paths that a script reads of the object that a tool hands it, by its text alone, in either language."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ASIDE = re.compile(r"/\*.*?\*/|\"\"\".*?\"\"\"|^[ \t]*(?://|#)[^\n]*", re.DOTALL | re.MULTILINE)
"""Comments, as far as they are lines of their own, and docstrings."""
_KEY = re.compile(
    r"\s{0,40}(?:\?\.)?\[\s*[\"'](\w+)[\"']\s*\]"
    r"|\s{0,40}\??\.get\(\s*[\"'](\w+)[\"']\s*(?:,\s*(?:None|\{\s*\}|\[\s*\])\s*)?\)"
)
_CHAIN = re.compile(r"\s{0,40}[?!]?\.\s*(?=[A-Za-z_$])")
_TYPE = r"[\w<>,.| \[\]]{1,80}"
_AROUND = re.compile(
    rf"\(\s*([\w$]+(?:\.[\w$]+)*)(?:\s+as\s+{_TYPE})?(?:\s*(?:\bor\b|\|\||\?\?)\s*\{{\s*\}})?\s*\)(?=\s{{0,40}}[?!]?[.\[])"
)
_PATH = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]*)((?:\.[\w$]+)*)")
_NAMED = re.compile(rf"(?<![\w$.])([A-Za-z_$][\w$]*)(?:\s*:\s*{_TYPE})?\s*:?=\s*([A-Za-z_$][\w$.]*)(?![\w$.(\[])")
_APART = re.compile(rf"\{{([^{{}}]*)\}}(?:\s*:\s*{_TYPE})?\s*=\s*([A-Za-z_$][\w$.]*)(?![\w$.(\[])")
_PART = re.compile(r"^\s*([\w$]+)\s*(?::\s*([\w$]+))?")
_SECOND = re.compile(rf"\(\s*[\w$]+(?:\s*:\s*{_TYPE})?\s*,\s*\{{([^{{}}]*)\}}")
_MOST = 8  # names that are given on, one to the next


def paths_read(source: str, names: Mapping[str, str], *, second: bool = False) -> set[str]:
    """
    Return the paths below an object: `metadata.toolCalls` for `context.metadata?.toolCalls` and
    `context["metadata"].get(…)`.

    `names`: the path, which may be empty, by the name that stands for it. With `second`, a function may take the
    object apart as its second parameter. Names that the script gives to parts are followed.
    """
    text = _KEY.sub(lambda key: f".{key[1] or key[2]}", _ASIDE.sub("", source))
    for _ in range(3):
        text = _CHAIN.sub(".", _KEY.sub(lambda key: f".{key[1] or key[2]}", _AROUND.sub(r"\1", text)))
    known = dict(names)
    for parts in _SECOND.findall(text) if second else ():
        known |= _parts(parts, "")
    given = [(name, path) for name, path in _NAMED.findall(text) if name not in names]
    apart = _APART.findall(text)
    for _ in range(_MOST):
        before = len(known)
        for name, path in given:
            if (whole := _below(path, known)) is not None:
                known.setdefault(name, whole)
        for parts, path in apart:
            if (whole := _below(path, known)) is not None:
                known = _parts(parts, whole) | known
        if len(known) == before:
            break
    read = {_below(head + rest, known) for head, rest in _PATH.findall(text)}
    return {path for path in (*read, *known.values()) if path}


def _below(path: str, known: Mapping[str, str]) -> str | None:
    head, _, rest = path.partition(".")
    return ".".join(one for one in (known[head], rest) if one) if head in known else None


def _parts(text: str, path: str) -> dict[str, str]:
    """By name, the path of what a pattern such as `a, b: c, d = []` gives it."""
    parts = (found for one in text.split(",") if (found := _PART.match(one)))
    return {part[2] or part[1]: f"{path}.{part[1]}" if path else part[1] for part in parts}
