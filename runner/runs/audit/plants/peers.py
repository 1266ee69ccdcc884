"""The answers of other rows, which are wrong ones for a row."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from runner.runs.audit.answers import (
    KINDS,
    ROWS_OF_KIND,
    alike,
    are_kinds,
    careless,
    is_empty,
    leaves,
    parse_tree,
    plain,
    says_nothing,
    strip_fence,
)
from runner.runs.audit.plants.text import NUMBER, SHOWS_STYLE, flip_sign, is_number_text, says_word
from runner.runs.audit.plants.types import PlantRow

_UNIT = re.compile(r"([+-]?[\d.,]+\s*)([^\W\d]{1,3}(?:/[^\W\d]{1,3}(?:\^?\d)?)?)")
"""A number with a short unit: longer words may be what is counted, and are often not asked for."""
_TRIES = 20
"""Rows that are looked at for one that differs."""
_NUMBER = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?")
_LABEL = re.compile(r"[^\W\d][\w /-]{0,39}")
_NEARLY_ALL = 0.9
_DIGITS = 3
"""Of the longest number: shorter ones may be choices or ranks."""
_NEAR, _WORDS_OF_NAME = 0.6, 5
"""From this ratio on names are spelt alike."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_ENDING = re.compile(r"(?:e?[sdrn]|e|ing|ly)?")


class Peers:
    """The rows beside a row, whose answers are wrong ones for it."""

    def __init__(self, rows: Sequence[PlantRow], draw: random.Random, outputs: Sequence[Any]) -> None:
        self._draw = draw
        self._rows = [*{plain(row.reference): row for row in rows if not says_nothing(row.reference)}.values()]
        self._texts = {text: row for row in reversed(rows) for text in texts_of(row)}
        self._alike: dict[str, list[str]] = {}
        for text in self._texts:
            self._alike.setdefault(careless(text), []).append(text)
        classes = {text.casefold(): text for text in self._texts if re.fullmatch(r"[^\W\d]+(?:[ _-][^\W\d]+)*", text)}
        few = len(classes) <= KINDS and len({text.casefold() for text in self._texts}) == len(classes)
        self._classes = [*classes.values()] if few and len(classes) * ROWS_OF_KIND <= len(rows) else []
        pairs = [(one.reference, one.output) for one in rows if one.answer.own and isinstance(one.reference, str)]
        unsaid = [label for label, output in pairs if _LABEL.fullmatch(label) and not says_word(output, label)]
        are_short = are_kinds(plain(label) for label, _ in pairs) or not any(" " in label for label in unsaid)
        self.has_labels = are_short and len(unsaid) > _NEARLY_ALL * len(rows)
        """True where references say which kind an output is of: each text is of one."""
        empty = (one.output for one in rows if is_empty(one.reference))
        self.has_prose_for_nothing = not all(isinstance(parse_tree(strip_fence(one)), dict | list) for one in empty)
        self.letters = len(self._texts) > 1 and all(len(text) == 1 and text.isalpha() for text in self._texts)
        """True where answers are letters, such as choices."""
        self._words = [*dict.fromkeys(words[-1] for text in self._texts if (words := _WORD.findall(text)))]
        texts = [one for one in outputs if isinstance(one, str)]
        self.styles = {check for check, one in SHOWS_STYLE.items() if any(map(one.search, texts))}
        """The checks of styles that some outputs of the dataset have."""
        numbers = [text for row in rows if _NUMBER.fullmatch(text := str(row.reference))]
        lengths = {len(text.strip("-").partition(".")[0]) for text in numbers}
        several = len(lengths) > 1 and max(lengths) >= _DIGITS
        self.may_be_zero = len(numbers) == len(rows) and (several or any("." in text for text in numbers))
        """True where references are numbers of more kinds than choices, ranks or years."""
        self._negative = any(is_number_text(text) and float(text.replace(",", "")) < 0 for text in self._texts)
        self._units = sorted({found[2] for text in self._texts if (found := _UNIT.fullmatch(text))})

    def changes(self, row: PlantRow) -> Iterator[tuple[str, str]]:
        """Yield other answers as this dataset has them: a number with another sign or unit; a name's last word."""
        text = row.answer.value
        if row.answer.own or not isinstance(text, str):
            return
        words = [*_WORD.finditer(text)] if _is_name(text) and not (self._classes or NUMBER.search(text)) else []
        if len(words) > 1:
            start, end = words[-1].span()
            near = sorted(self._words, key=lambda word: abs(len(word) - (end - start)))
            names = (f"{text[:start]}{word}{text[end:]}" for word in near if word.casefold() not in text.casefold())
            if new := next((one for one in names if all(self._differ(one, mine) for mine in texts_of(row))), None):
                yield "changed.last_word", new
        if self._negative and is_number_text(text) and (new := flip_sign(text)) is not None:
            yield "changed.sign", new
        found = _UNIT.fullmatch(text)
        others = [unit for unit in self._units if found is not None and unit != found[2]]
        if found is not None and others:
            yield "changed.unit", f"{found[1]}{self._draw.choice(others)}"

    def other(self, row: PlantRow) -> PlantRow | None:
        """Return a row with another reference, of which nothing is right here."""
        some = self._draw.sample(self._rows, min(_TRIES, len(self._rows)))
        return next((one for one in some if not self._overlap(one, row)), None)

    def alike(self, row: PlantRow) -> tuple[PlantRow, str] | None:
        """Return a row with another answer that only its case, accents, marks or script tell apart, and that answer."""
        own = texts_of(row)
        for text in [text for mine in own for text in self._alike.get(careless(mine), ())[:_TRIES]]:
            one = self._texts[text]
            asked = one.input is None or one.input != row.input
            other = all(alike(text, mine) or careless(text) != careless(mine) for mine in own)
            if asked and other and not {*own} & {*texts_of(one)}:
                return one, text
        return None

    def near(self, row: PlantRow) -> tuple[PlantRow, str] | None:
        """Return a row whose answer is another one, and spelt most like it; and that answer."""
        own, value = texts_of(row), row.answer.value
        if not own or not isinstance(value, str) or not _is_name(value):
            return None
        taken = {plain(text) for text in own}
        every = (text for text in self._texts if _is_name(text) and all(self._differ(text, mine) for mine in own))
        some = {text.casefold(): text for text in every}
        for name in get_close_matches(value.casefold(), some, 3, _NEAR):
            one = self._texts[text := some[name]]
            if (one.input is None or one.input != row.input) and not taken & {plain(each) for each in texts_of(one)}:
                return one, text
        return None

    def _differ(self, text: str, mine: str) -> bool:
        """Say whether texts are two answers: more than digits, endings, and words that one has more differ."""
        if self._classes:
            return plain(text) != plain(mine)
        words, others = ({*re.findall(r"[^\W_]+", one.casefold())} for one in (text, mine))
        short, long = sorted((re.sub(r"[\d\W_]", "", one.casefold()) for one in (text, mine)), key=len)
        ending = long.startswith(short) and _ENDING.fullmatch(long[len(short) :]) is not None
        return not (words <= others or others <= words or ending or careless(text) == careless(mine))

    def other_class(self, row: PlantRow) -> str | None:
        """Return another answer where all rows have one of a few."""
        own = row.answer.value
        others = [one for one in self._classes if one.casefold() != str(own).casefold()]
        return self._draw.choice(others) if others and own in self._classes else None

    def _overlap(self, one: PlantRow, other: PlantRow) -> bool:
        if plain(one.reference) == plain(other.reference):
            return True
        trees = [parse_tree(each.reference) for each in (one, other)]
        if all(isinstance(tree, dict | list) for tree in trees) and not (texts_of(one) and texts_of(other)):
            first, second = ({plain(value) for _, value in leaves(tree)} for tree in trees)
            return bool(first and second) and (first <= second or second <= first)
        first, second = ({plain(text) for text in texts_of(each)} for each in (one, other))
        if first & second:
            return True
        words = not self._classes and not any(is_number_text(text) for text in (*texts_of(one), *texts_of(other)))
        return words and any(a in b or b in a for a in filter(None, first) for b in filter(None, second))


def _is_name(text: str) -> bool:
    """Say whether a text is some words: a sentence may say the same in others, and so may a query."""
    return re.fullmatch(r"[^\W\d][\w .&'-]{0,59}", text) is not None and len(text.split()) <= _WORDS_OF_NAME


def texts_of(row: PlantRow) -> list[str]:
    """Return the answers that a row's reference accepts."""
    value, tree = row.answer.value, parse_tree(row.reference)
    some = tree if isinstance(tree, list) and row.answer.kind == "" else [value]
    return [] if row.answer.own else [one for one in some if isinstance(one, str) and one]
