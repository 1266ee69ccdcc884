"""Other answers that are made of a text."""

from __future__ import annotations

import re
from collections.abc import Callable

from runner.runs.audit.plants.programs import double_rows
from runner.runs.audit.plants.types import STRANGE, Change

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NO_NAME = re.compile(rf"(?<![^\W\d_]){NUMBER.pattern}")
"""A number that is no part of a name such as d7."""
_THOUSAND = re.compile(r"(?<![\d.,])\d{4,}(?![\d,]|\.\d)")
_FAR = 0.15
"""A share by which a wrong number differs at least: some graders allow for some per cent."""
_DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-)(\d\d)(?!\d)")


def is_number_text(text: str) -> bool:
    """Say whether a text is a number."""
    try:
        return bool(text) and float(text.replace(",", "")) == float(text.replace(",", ""))
    except ValueError:
        return False


def _last_number(change: Callable[[str], str | None], number: re.Pattern[str] = NUMBER) -> Change:
    def changed(text: str) -> str | None:
        every = list(number.finditer(text))
        found = every[-1] if every else None
        new = None if found is None else change(found[0])
        return None if found is None or new is None else text[: found.start()] + new + text[found.end() :]

    return changed


def _more(number: str) -> str:
    """Far enough for graders that allow for some per cent."""
    return f"{2 * float(number.replace(',', '')) + 1:.10g}"


def _thousands(number: str) -> str | None:
    return f"7,{int(number):03d}" if number.isdecimal() and int(number) < 1000 else None


def _point(number: str) -> str | None:
    if "." in number:
        return number.replace(".", "")
    digits = number.replace(",", "")
    return f"{digits[:-1]}.{digits[-1]}" if len(digits) > 1 and digits[-1] != "0" else None


def _fraction(number: str) -> str | None:
    """Another fraction, where that is far from the number."""
    whole, point, fraction = number.replace(",", "").partition(".")
    new = f"{whole}.{'9' if fraction[:1] < '5' else '0'}"
    return new if point and abs(float(new) - float(f"{whole}.{fraction}")) > _FAR * float(new or 1) else None


def _marked(text: str) -> str | None:
    """A digit in place of a point inside: one that is read as a pattern takes any."""
    return re.sub(r"(?<=\w)\.(?=\w)", "7", text) if re.fullmatch(r"\S{1,20}", text) else None


def _longer(text: str) -> str | None:
    return f"{text}{STRANGE}" if re.fullmatch(r"[A-Za-z][A-Za-z ]{0,18}[A-Za-z]", text) else None


def _half(text: str) -> str | None:
    words = text.split()
    return " ".join(words[: len(words) // 2]) if len(words) >= 4 and not NUMBER.search(text) else None


def flip_sign(text: str) -> str | None:
    """Return a text whose last number has the other sign."""
    every = list(NUMBER.finditer(text))
    if not every or float(every[-1][0].replace(",", "")) == 0:
        return None
    start = every[-1].start()
    return text[: start - 1] + text[start:] if text[start - 1 : start] == "-" else f"{text[:start]}-{text[start:]}"


def _last_word(text: str) -> str | None:
    words = text.split()
    return None if NUMBER.search(text) or not words else " ".join([*words[:-1], STRANGE])


def _other_day(text: str) -> str | None:
    found = _DATE.search(text)
    return None if found is None else f"{text[: found.start(2)]}{int(found[2]) % 28 + 1:02d}{text[found.end() :]}"


def _reversed_words(text: str) -> str | None:
    words = text.split()
    return " ".join(reversed(words)) if len(words) >= 4 else None


TEXT_CHANGES: dict[str, Change] = {
    "changed.number": _last_number(_more),
    "changed.thousands": _last_number(_thousands, _NO_NAME),
    "changed.point": _last_number(_point, _NO_NAME),
    "changed.digit": _last_number(lambda number: None if "." in number else f"{number}1"),
    "changed.fraction": _last_number(_fraction),
    "changed.day": _other_day,
    "changed.mark": _marked,
    "changed.word": _last_word,
    "changed.longer": _longer,
    "changed.half": _half,
    "changed.nan": lambda text: "NaN" if is_number_text(text) else None,
    "sees.sign": flip_sign,
    "sees.order": _reversed_words,
    "sees.twice": lambda text: f"{text} {text}",
    "sees.rows_twice": double_rows,
    "sees.half": lambda text: " ".join(text.split()[: len(text.split()) // 2]) or None,
    "same.case": lambda text: text.upper() if text.upper() != text else text.lower(),
    "same.space": lambda text: f"  {text} \n",
    "same.full_stop": lambda text: f"{text}.",
    "same.fence": lambda text: f"```\n{text}\n```",
    "same.sentence": lambda text: f"The answer is: {text}",
    "same.thousands": _last_number(lambda number: f"{int(number):,}", _THOUSAND),
}
