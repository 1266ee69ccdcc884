"""Texts that differ and look the same: told apart by quotes, and by escapes of what is not seen."""
# ruff: noqa: RUF001

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

_LETTERS = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухԁһԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧοναικρυ’‘ʼ`“”„–—‐‑‒−\u2044",
    "ABESIJKMHOPCTYXaesijopcyxdhqwABEZHIKMNOPTYXovaikpu''''\"\"\"------/",
)
"""Letters and marks that look like ASCII's."""
_MOST = 4000


def tell_apart(texts: Sequence[str]) -> list[str]:
    """
    Return the texts as they are; of those that differ and look the same, each in quotes, with escapes of spaces and
    marks that are not seen, and where that does not tell them apart, of the letters that look like others.
    """
    groups: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        groups.setdefault(look(text), []).append(text)
    apart: dict[str, str] = {}
    for group in groups.values():
        if len(group) > 1:
            quoted = [_quote(text) for text in group]
            counts = Counter(map(look, quoted))
            for text, its in zip(group, quoted, strict=True):
                apart[text] = its if counts[look(its)] == 1 else _quote(text, letters=True)
    return [apart.get(text, text) for text in texts]


def tell_json_apart(values: Sequence[Any]) -> list[str]:
    """Return the values as JSON; texts among them that look the same with escapes of what tells them apart."""
    texts = [value if isinstance(value, str) else None for value in values]
    apart = iter(tell_apart([text for text in texts if text is not None]))
    found = []
    for value, text in zip(values, texts, strict=True):
        shown = None if text is None else next(apart)
        found.append(json.dumps(value, ensure_ascii=False) if shown is None or shown == text else shown)
    return found


def look(text: str) -> str:
    """Return what is seen of a text."""
    if text.isascii() and text.isprintable():
        return " ".join(text.translate(_LETTERS).split())
    seen = unicodedata.normalize("NFKC", text[:_MOST]).translate(_LETTERS)
    kept = (c for c in seen if unicodedata.category(c) not in ("Cf", "Cc", "Cs", "Mn") or c.isspace() or c == "\u0301")
    return " ".join("".join(kept).split()) + text[_MOST:]


def _quote(text: str, *, letters: bool = False) -> str:
    shown = json.dumps(text[:_MOST], ensure_ascii=False)
    seen = "".join(_escape(c) if _unseen(c) or (letters and _other(c)) else c for c in shown)
    return seen.replace("  ", r" \x20") + text[_MOST:]  # HTML shows two spaces as one


def _unseen(c: str) -> bool:
    return c > "~" and (unicodedata.category(c)[0] in "CZ" or unicodedata.combining(c) != 0)


def _other(c: str) -> bool:
    return c > "~" and (c.translate(_LETTERS) != c or unicodedata.normalize("NFKC", c) != c)


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode()
