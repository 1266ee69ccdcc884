"""Python's regular expressions in JavaScript: each pattern means there what it means in Python, or is refused."""

from __future__ import annotations

import random
import re
import sys
import unicodedata
from functools import cache
from typing import Any

import pytest

from docs.catalogue import PAGE
from runner.core.types import Result
from templates.regex.evaluator import evaluate as regex
from tests.templates.scoring import Place, score

pytestmark = pytest.mark.rotating("templates", "templates")

DENO: Place = ("deno", "typescript")


@cache
def assigned() -> list[str]:
    """All characters. A second of work, which collecting the tests does not need."""
    return [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs")]


def in_deno(rows: list[dict[str, Any]]) -> list[Result]:
    """The results of regex for rows that bring their `pattern`, and whether it must match all: `full`."""
    return score("regex", DENO, rows, paths={"pattern": "metadata.pattern", "full_match": "metadata.full"})


def in_python(row: dict[str, Any]) -> dict[str, object]:
    return regex(row["pattern"], row["output"], row["full"])


@pytest.mark.parametrize("letter", "wds")
def test_a_set_has_the_same_characters(letter: str) -> None:
    members = "".join(c for c in assigned() if re.fullmatch(f"\\{letter}", c))
    others = "".join(c for c in assigned() if not re.fullmatch(f"\\{letter}", c))
    inside = {"pattern": f"\\{letter}+", "output": members, "full": True}
    outside = {"pattern": f"\\{letter.upper()}+", "output": others, "full": True}
    assert [r.label for r in in_deno([inside, outside])] == ["true", "true"]


CHARACTERS = "abAB01_- .\n\t]}{[),:#=!<>\u017fßÉé٣中𐐀😀\x1f\x85\u2028\r\u00a0Σς\u03c3K'\"/&~@"
ESCAPES: list[str] = re.findall(
    r"\S+",
    r"\w \W \d \D \s \S \b \A \Z \n \t \x41 \u00e9 \U0001F600 \. \- \] \\ \1 \2 \07 \101 \0 \a \' \é \q \p{L} \/ \#",
)
GROUPS: list[str] = re.findall(r"\S+", "( (?: (?P<one> (?P<two> (?= (?! (?i: (?-i: (?s: (?m: (?x: (?u: (?s-m: (")
COUNTS: list[str] = ["", "", "", " *", *re.findall(r"\S+", "* + ? {2} {1,2} {,2} {1,} {,} {a {2 *? +? {1,2}? **")]
RANGES: list[str] = re.findall(r"\S+", r"a-c A-Z 0-9 \w-z \u00e9-\u017f +-/ \x00-\x1f a- [-] && -- \b z-a")


class Patterns:
    """Random patterns of what Python's `re` knows and JavaScript has a way to say; a good part of them is wrong."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def pattern(self) -> str:
        pick = self._chance.choice
        start = pick(("", "", "", "(?i)", "(?m)", "(?s)", "(?x)", "(?im)", "(?#c)", "(?s)(?i)"))
        end = pick(("(?P=one)", "(?i)", ")", "(", "[", "\\", "(?", "(?#c", "{")) if self._chance.random() < 0.05 else ""
        return start + self._alternatives(3) + end

    def text(self) -> str:
        return "".join(self._chance.choice(CHARACTERS) for _ in range(self._chance.randrange(8)))

    def _alternatives(self, depth: int) -> str:
        return "|".join(self._sequence(depth) for _ in range(self._chance.choice((1, 1, 2))))

    def _sequence(self, depth: int) -> str:
        return "".join(self._atom(depth) + self._chance.choice(COUNTS) for _ in range(self._chance.randrange(4)))

    def _atom(self, depth: int) -> str:
        pick, kind = self._chance.choice, self._chance.randrange(10)
        if kind < 4:
            return pick("abAB01é中😀\u017f\n ")
        if kind < 6:
            return pick((pick(CHARACTERS), pick(ESCAPES), pick(".^$")))
        if kind < 8 or depth == 0:
            inside = "".join(pick((pick(CHARACTERS), pick(RANGES), pick(ESCAPES))) for _ in range(pick((1, 2, 3))))
            return f"[{pick(('', '', '^'))}{pick(('', '', ']', '-'))}{inside}]"
        return pick(GROUPS) + self._alternatives(depth - 1) + ")"


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_random_patterns_mean_the_same() -> None:
    patterns = Patterns(4)
    rows = [{"pattern": patterns.pattern(), "output": patterns.text(), "full": not n % 3} for n in range(8000)]
    wanted = [in_python(row)["label"] for row in rows]
    assert min(wanted.count(label) for label in ("true", "false", None)) > 800
    found = [result.label for result in in_deno(rows)]
    assert [each for each in zip(rows, wanted, found, strict=True) if each[1] != each[2]] == []


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("(?>a)", "atomic groups"),
        ("a++b", "possessive quantifiers"),
        ("(a)?(?(1)b|c)", "conditions"),
        (r"\N{DIGIT ONE}", "names of characters"),
        ("(?ai)é", "flag 'a' beside 'i'"),
    ],
)
def test_what_javascript_has_no_words_for_is_said(pattern: str, what: str) -> None:
    row = {"pattern": pattern, "output": "a", "full": False}
    assert in_python(row)["label"] is not None
    (result,) = in_deno([row])
    assert result.outcome == "abstained"
    assert str(result.explanation).startswith(f"Invalid regex pattern: JavaScript has no {what}; this pattern needs")


@pytest.mark.parametrize(
    ("pattern", "text", "python", "typescript"),
    [
        ("(?i)i", "\u0130", "true", "false"),
        ("(?i)I", "\u0131", "true", "false"),
        (r"(?i)^\w$", "\u0345", "false", "true"),
        (r"(a)?\1b", "b", "false", "true"),
        ("(?<=a*)b", "aab", None, "true"),
    ],
)
def test_the_differences_that_are_named_are_there(
    pattern: str, text: str, python: str | None, typescript: str | None
) -> None:
    """docs/templates.md names them; where one goes, so does its line."""
    assert f"\n| `{pattern}` | " in PAGE.read_text("utf-8")
    row = {"pattern": pattern, "output": text, "full": False}
    assert in_python(row)["label"] == python
    (result,) = in_deno([row])
    assert result.label == typescript
