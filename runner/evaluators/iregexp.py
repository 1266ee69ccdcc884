"""The regular expressions that filters of a path match by, those of RFC 9485, as Python's own."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import groupby
from sys import maxunicode
from unicodedata import category

_ESCAPE = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_SET_CHAR = rf"(?:[^\-\[\\\]\ud800-\udfff]|{_ESCAPE})"
_SET_PART = rf"(?:{_SET_CHAR}-{_SET_CHAR}|{_SET_CHAR}|{_CATEGORY})"
_TOKEN = re.compile(
    r"(?P<begin>\()|(?P<end>\))|(?P<branch>\|)|(?P<repeat>[*+?]|\{[0-9]+(?:,[0-9]*)?\})|(?P<any>\.)"
    rf"|(?P<set>\[(?P<but>\^?)(?P<parts>(?:-|{_SET_PART}){_SET_PART}*-?)\])"
    rf"|(?P<category>{_CATEGORY})|(?P<char>{_ESCAPE}|[^()*+.?\[\\\]{{|}}\ud800-\udfff])"
)
_PARTS = re.compile(rf"(?P<category>{_CATEGORY})|(?P<low>{_SET_CHAR})-(?P<high>{_SET_CHAR})|(?P<char>{_SET_CHAR}|-)")
_ANCHORS = {"^": "^", "$": r"\Z"}
"""By the letter these are characters; the compliance suite of RFC 9535 has them as everybody uses them."""
_CONTROLS = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern as Python has it; None if it is none of RFC 9485: that matches nothing."""
    made: list[str] = []
    at = depth = 0
    repeatable = False
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            return None
        kind, at = found.lastgroup, found.end()
        depth += (kind == "begin") - (kind == "end")
        if depth < 0 or (kind == "repeat" and not repeatable):
            return None
        repeatable = kind not in ("begin", "branch", "repeat")
        made.append(_python(found))
    try:
        return None if depth else re.compile("".join(made))
    except (re.error, OverflowError, RecursionError):
        return None  # such as [z-a]


def _python(found: re.Match[str]) -> str:
    """One part of a pattern."""
    if found["set"]:
        parts = _PARTS.finditer(found["parts"])
        return f"[{found['but']}{''.join(map(_set_part, parts))}]"
    if found["category"]:
        return f"[{_category(found['category'])}]"
    if found["char"] and found["char"] not in _ANCHORS:
        return _char(found["char"])
    return {"(": "(?:", ".": "[^\n\r]", **_ANCHORS}.get(found[0], found[0])


def _set_part(found: re.Match[str]) -> str:
    if found["category"]:
        return _category(found["category"])
    return f"{_char(found['low'])}-{_char(found['high'])}" if found["low"] else _char(found["char"])


def _char(text: str) -> str:
    return re.escape(_CONTROLS.get(text, text[-1]))


@cache
def _category(text: str) -> str:
    r"""The characters of `\p{Lu}`, or all others for `\P{Lu}`, as the inside of a set."""
    name, wanted = text[3:-1], text[1] == "p"
    ranges = []
    for inside, runs in groupby(_runs(), lambda run: run[0].startswith(name) is wanted):
        if inside:
            (_, low, high), *rest = runs
            ranges.append(f"\\U{low:08x}-\\U{rest[-1][2] if rest else high:08x}")
    return "".join(ranges)


@cache
def _runs() -> list[tuple[str, int, int]]:
    """All characters by category: the first and the last of each run. Takes a third of a second, once."""
    found = []
    for name, run in groupby(range(maxunicode + 1), lambda code: category(chr(code))):
        low, *rest = run
        found.append((name, low, rest[-1] if rest else low))
    return found
