"""Texts that differ and look the same: told apart by quotes, and by escapes of what is not seen."""
# ruff: noqa: RUF001

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence

_LETTERS = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухԁһԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧοναικρυ’‘ʼ`“”„–—‐‑‒−\u2044",
    "ABESIJKMHOPCTYXaesijopcyxdhqwABEZHIKMNOPTYXovaikpu''''\"\"\"------/",
)
"""Letters and marks that look like ASCII's."""
_MOST = 4000


def tell_apart(texts: Sequence[str]) -> list[str]:
    """
    The texts as they are; of those that differ and look the same, each in quotes, with escapes of spaces and marks
    that are not seen, and where that does not tell them apart, of the letters that look like others.
    """
    looks = [_look(text) for text in texts]
    if len(set(looks)) == len(set(texts)):  # as of most
        return list(texts)
    found = []
    for text, look in zip(texts, looks, strict=True):
        others = {other for other, its in zip(texts, looks, strict=True) if its == look and other != text}
        if not others:
            found.append(text)
            continue
        quoted = _quote(text)
        alike = {_look(_quote(other)) for other in others}
        found.append(_quote(text, letters=True) if _look(quoted) in alike else quoted)
    return found


def _look(text: str) -> str:
    """What is seen of a text."""
    if text.isascii() and text.isprintable():
        return " ".join(text.translate(_LETTERS).split())
    seen = unicodedata.normalize("NFKC", text[:_MOST]).translate(_LETTERS)
    kept = (c for c in seen if unicodedata.category(c) not in ("Cf", "Cc", "Cs", "Mn") or c.isspace() or c == "\u0301")
    return " ".join("".join(kept).split()) + text[_MOST:]


def _quote(text: str, *, letters: bool = False) -> str:
    shown = json.dumps(text[:_MOST], ensure_ascii=False)
    return "".join(_escape(c) if _unseen(c) or (letters and _other(c)) else c for c in shown) + text[_MOST:]


def _unseen(c: str) -> bool:
    return c > "~" and (unicodedata.category(c)[0] in "CZ" or unicodedata.combining(c) != 0)


def _other(c: str) -> bool:
    return c > "~" and (c.translate(_LETTERS) != c or unicodedata.normalize("NFKC", c) != c)


def _escape(c: str) -> str:
    return c.encode("unicode_escape").decode()
