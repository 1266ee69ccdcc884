"""Other answers that are made of a text."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable

from runner.runs.audit.plants.programs import double_rows, turn_order
from runner.runs.audit.plants.types import STRANGE, Change

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NO_NAME = re.compile(rf"(?<![^\W\d_]){NUMBER.pattern}")
"""A number that is no part of a name such as d7."""
_THOUSAND = re.compile(r"(?<![\d.,])\d{4,}(?![\d,]|\.\d)")
_LONGEST = 40
"""Characters of a number that is changed: Python reads no text of thousands of digits as one."""
_FAR = 0.15
"""A share by which a wrong number differs at least: some graders allow for some per cent."""
_MONTHS = calendar.month_name[1:]
_DAY = re.compile(r"(?<!\d)(?<=\d{4}-\d\d-)\d\d(?!\d)")
_MONTH = re.compile(rf"(?<!\d)(?<=\d{{4}}-)\d\d(?=-\d\d(?!\d))|\b(?:{'|'.join(_MONTHS)})(?= \d)")
_YEAR = re.compile(r"(?<!\d)[12]\d{3}(?=-)|(?<=[A-Za-z] )[12]\d{3}\b|(?<=\d, )[12]\d{3}\b")
_CLOCK = re.compile(r"(?i)(?<=\d)( ?)([ap])(\.?m\b)")
_SIZES = {"thousand": "million", "million": "billion", "billion": "million", "trillion": "billion"}
_SIZE = re.compile(rf"(?i)(?<=\d )(?:{'|'.join(_SIZES)})\b")
_GENERAL = re.compile(
    r"\b(?:New|South|North|East|West|United|Saint|San|Mount|Lake|Great|King|Queen|Republic|University)\b"
)
"""Words that many names have, and that are none alone."""
_CODE = re.compile(r"(?=[A-Za-z.-]*\d)[A-Z][\w.-]+")
_ION = re.compile(r"[A-Z][\w()]*\^?\d?[+-]")
_COPY = re.compile(r"(?:cp|mv|ln|scp|rsync)(?: \S+)*( [^-\s]\S*){2}")
"""Commands whose last two arguments are a source and a target."""
_PROSE = re.compile(r"[^\n{}()\[\]=<>;]+")
_VERB = re.compile(r"(?i)\b(?:is|are|was|were|shall|must|may|can|will|does|do|did|has|have|should)\b(?= )")
_NOT = re.compile(r"(?i)\bnot ")


def says_word(text: object, word: str) -> bool:
    """Say whether a text has a word as one of its own, in any case."""
    return re.search(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", str(text)) is not None


def is_number_text(text: str) -> bool:
    """Say whether a text is a number."""
    try:
        return bool(text) and float(text.replace(",", "")) == float(text.replace(",", ""))
    except ValueError:
        return False


def _last_number(change: Callable[[str], str | None], number: re.Pattern[str] = NUMBER) -> Change:
    def changed(text: str) -> str | None:
        every = [one for one in number.finditer(text) if len(one[0]) <= _LONGEST]
        found = every[-1] if every else None
        new = None if found is None else change(found[0])
        return None if found is None or new is None else text[: found.start()] + new + text[found.end() :]

    return changed


def _more(number: str) -> str:
    """Far enough for graders that allow for some per cent."""
    return f"{2 * float(number.replace(',', '')) + 1:.10g}"


def _thousands(number: str) -> str | None:
    return f"7,{int(number):03d}" if number.isdecimal() and int(number) < 1000 else None


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


def _loop(text: str) -> str | None:
    """Some of the words again and again, up to its length: from a word to its next place, so that all pairs occur."""
    words = text.split()
    plain = [word.casefold() for word in words]
    again = [(plain.index(word, at + 1), at) for at, word in enumerate(plain) if word in plain[at + 1 :]]
    end, start = min(again, key=lambda one: one[0] - one[1], default=(1, 0))
    loop = [words[start + at % (end - start)] for at in range(len(words))]
    return (
        " ".join(loop)
        if len(words) >= 4 and len({*plain[start:end]}) < len({*plain}) and not NUMBER.search(text)
        else None
    )


def _first(pattern: re.Pattern[str], change: Callable[[str], str], most: int = 1) -> Change:
    """What changes the first place in a text that fits a pattern; all of them with `most=0`."""

    def changed(text: str) -> str | None:
        new = pattern.sub(lambda found: change(found[0]), text, most)
        return None if new == text else new

    return changed


def _other_month(month: str) -> str:
    return f"{int(month) % 12 + 1:02d}" if month.isdecimal() else _MONTHS[(_MONTHS.index(month) + 1) % 12]


_other_year = _first(_YEAR, lambda year: str(int(year) - 1))


def change_code(text: str) -> str | None:
    """Return a code of letters and digits, such as S52.501A, with another character at its end."""
    if not _CODE.fullmatch(text) or not text[-1].isalnum():
        return None
    last = text[-1]
    return text[:-1] + (str((int(last) + 5) % 10) if last.isdecimal() else "D" if last != "D" else "A")


def _swapped_arguments(text: str) -> str | None:
    if not _COPY.fullmatch(text):
        return None
    head, source, target = text.rsplit(maxsplit=2)
    return f"{head} {target} {source}"


def _with_word(word: str) -> Change:
    """What puts a word behind the first verb of a sentence; a `not` goes where there is one."""

    def changed(text: str) -> str | None:
        found = _VERB.search(text)
        if not _PROSE.fullmatch(text) or (found is None and not _NOT.search(text)):
            return None
        if word == "not" and _NOT.search(text):
            return _NOT.sub("", text, count=1)
        at = found.end() if found is not None else 0
        return f"{text[:at]} {word}{text[at:]}".strip()

    return changed


def _cut(text: str) -> str | None:
    return text[: len(text) // 2] if re.fullmatch(r"[^\W\d_]{6,}", text) else None


def _general_word(text: str) -> str | None:
    found = _GENERAL.search(text) if re.fullmatch(r"[^\W\d]+(?: [^\W\d]+){1,3}", text) else None
    return None if found is None else found[0]


def _reversed_words(text: str) -> str | None:
    words = text.split()
    return " ".join(reversed(words)) if len(words) >= 4 else None


STYLES: dict[str, Change] = {
    "same.apostrophe": _first(re.compile(r"(?<=\w)'(?=\w)"), lambda _: "\u2019", 0),
    "same.group": _first(re.compile(r"(?<=\d)\] ?\[(?=\d+\])"), lambda _: ", ", 0),
}
"""Ways to write the same."""
SHOWS_STYLE = {
    "same.apostrophe": re.compile(r"(?<=\w)\u2019(?=\w)"),
    "same.group": re.compile(r"\[\d+(?:, ?\d+)+\]"),
}
TEXT_CHANGES: dict[str, Change] = {
    "changed.number": _last_number(_more),
    "changed.thousands": _last_number(_thousands, _NO_NAME),
    "changed.point": _last_number(lambda number: number.replace(".", "") if "." in number else None, _NO_NAME),
    "changed.digit": _last_number(lambda number: None if "." in number else f"{number}1"),
    "changed.fraction": _last_number(_fraction),
    "changed.day": _first(_DAY, lambda day: f"{int(day) % 28 + 1:02d}"),
    "changed.month": _first(_MONTH, _other_month),
    "changed.year": lambda text: _other_year(text) if _MONTH.search(text) else None,
    "changed.clock": lambda text: _CLOCK.sub(lambda one: one[1] + ("p" if one[2] in "aA" else "a") + one[3], text),
    "changed.size": _first(_SIZE, lambda size: _SIZES[size.lower()]),
    "changed.code": change_code,
    "changed.charge": lambda text: text[:-1] + "+-"[text[-1] == "+"] if _ION.fullmatch(text) else None,
    "changed.arguments": _swapped_arguments,
    "changed.mark": _marked,
    "changed.word": _last_word,
    "changed.longer": _longer,
    "changed.half": _half,
    "changed.loop": _loop,
    "changed.cut": _cut,
    "changed.general": _general_word,
    "changed.nan": lambda text: "NaN" if is_number_text(text) else None,
    "sees.sign": flip_sign,
    "sees.order": _reversed_words,
    "sees.not": _with_word("not"),
    "sees.word_extra": _with_word(STRANGE),
    "sees.twice": lambda text: f"{text} {text}",
    "sees.rows_twice": double_rows,
    "sees.query_order": turn_order,
    "sees.half": lambda text: " ".join(text.split()[: len(text.split()) // 2]) or None,
    "same.case": lambda text: text.upper() if text.upper() != text else text.lower(),
    "same.space": lambda text: f"  {text} \n",
    "same.full_stop": lambda text: f"{text}.",
    "same.fence": lambda text: f"```\n{text}\n```",
    "same.sentence": lambda text: f"The answer is: {text}",
    "same.thousands": _last_number(lambda number: f"{int(number):,}", _THOUSAND),
}
