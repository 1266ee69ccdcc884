"""Text as a cell of a CSV file that a spreadsheet may open: defused, and reversible. The rule is in docs/rules.md."""

from __future__ import annotations

import re
from unicodedata import category, normalize

_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SIGNS = frozenset("=+-@\u2212")  # of other widths too, by their plain form; LibreOffice reads U+2212 as a minus
_BLANK = ("Cc", "Cf", "Zs", "Zl", "Zp", "Cn", "Co")  # a newer Unicode may give the last two any meaning
_UNSEEN = ("Cc", "Cf", "Zl", "Zp")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPED = re.compile("[\\\\;|\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SPLIT = re.compile("[;|\t\r\n]")
"""What ends a cell for a spreadsheet that splits lines elsewhere than at commas: it also takes quotes otherwise."""
_CODE = re.compile(r"\\\\|\\u([0-9a-f]{4})")
_QUOTED = re.compile('[",;\r\n]')


def cell(value: object, between: str = ",", *, decimal_comma: bool = False) -> str:
    """Return a value as it stands between two commas of a line, or what else is between cells."""
    if value is None:
        return ""
    text = escape_cell(value) if isinstance(value, str) else str(value)
    if decimal_comma and isinstance(value, float):
        text = text.replace(".", ",")
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) or between in text else text


def escape_cell(text: str) -> str:
    """
    Return the text itself, or after an apostrophe its escaped form, which no spreadsheet splits, and no terminal obeys.
    """
    if not _is_risky(text):
        return text
    return "'" + _ESCAPED.sub(_code, text)


def unescape_cell(text: str) -> str:
    """Undo `escaped`."""
    if not text.startswith("'"):
        return text
    return _CODE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", text[1:])


def _is_risky(text: str) -> bool:
    if not text:
        return False
    if not (text.isascii() and text.isprintable()):
        if category(text[0]) in _UNSEEN or _CONTROL.search(text):
            return True
    elif text[0] not in " '=+-@;|" and ";" not in text and "|" not in text:
        return False
    # A quote within a cell is none that begins one, so that what follows it there may begin a formula.
    others = (part.replace('"', "") for part in _SPLIT.split(text)[1:])
    return text[0] == "'" or _begins_formula(text) or any(map(_begins_formula, others))


def _begins_formula(text: str) -> bool:
    first = next((c for c in text if category(c) not in _BLANK), "")
    return normalize("NFKC", first)[:1] in _SIGNS and not _NUMBER.fullmatch(text)


def _code(found: re.Match[str]) -> str:
    return "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}"
