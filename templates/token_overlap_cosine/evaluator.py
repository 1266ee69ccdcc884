# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
# ///
"""
How many words two texts share, as the cosine of their word counts, scored as the TypeScript token cosine does.

Order, case and punctuation do not count, and neither does meaning. A word is one or more letters and digits (Unicode's
categories L and N) in a row, so an underscore or a combining vowel sign ends it. Words are counted, not hashed. Values
that are not text are compared as JavaScript's `String` writes them: 1.0 is `1`, every object is `[object Object]`, a
list is its elements with commas between. Where one side is null, "", 0 or false, the label is `missing` and the score
is 0; [] and {} are not missing.

The score is the sum of a·b over the words, divided by the root of the sum of a² and that of b², where a and b are how
often each side has the word. Characters that are newer than this Python's Unicode tables are no letters here.

Source: Phoenix, code evaluator recipe token cosine, its TypeScript version.
"""

import math
import re
from collections import Counter
from decimal import Decimal

# A word character but for the underscore: in every Python's tables, exactly what has one of the categories L* and N*.
WORD = re.compile(r"[^\W_]+")


def evaluate(output: object, reference: object) -> dict[str, object]:
    if is_missing(output) or is_missing(reference):
        return {"label": "missing", "score": 0.0, "explanation": "Missing output or reference."}
    score = cosine(word_counts(as_text(output)), word_counts(as_text(reference)))
    return {"score": score, "explanation": f"Token-overlap cosine similarity {four_places(score)}."}


def is_missing(value: object) -> bool:
    """Whether JavaScript takes the value for false."""
    return not value and not isinstance(value, list | dict)


def word_counts(text: str) -> Counter[str]:
    return Counter(WORD.findall(text.lower()))


def cosine(a: Counter[str], b: Counter[str]) -> float:
    if not a or not b:
        return 0.0
    shared = sum(count * b[word] for word, count in a.items() if word in b)
    return shared / (length(a) * length(b))


def length(counts: Counter[str]) -> float:
    return math.sqrt(sum(count * count for count in counts.values()))


def four_places(number: float) -> str:
    """As JavaScript's `toFixed(4)`: halves go up, where Python's would go to the even digit."""
    top, bottom = number.as_integer_ratio()
    whole, rest = divmod((20_000 * top + bottom) // (2 * bottom), 10_000)
    return f"{whole}.{rest:04d}"


def as_text(value: object) -> str:
    """As JavaScript's `String`. Raises TypeError for an object with a key "toString", as that does."""
    parts: list[str] = []
    # A list of what is left rather than recursion: nested lists come out flat, with the same comma everywhere.
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, list) and item:
            left.extend(reversed(item))
        else:
            parts.append("" if item is None or item == [] else scalar_as_text(item))
    return ",".join(parts)


def scalar_as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_as_text(value)
    if isinstance(value, dict) and "toString" in value:
        raise TypeError("Cannot convert object to primitive value")
    return "[object Object]"


def number_as_text(value: int | float) -> str:
    """As JavaScript writes the double: the fewest digits that read back as it, with `e` from 1e21 and below 1e-6."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    _, figures, exponent = Decimal(repr(abs(number))).normalize().as_tuple()
    digits = "".join(map(str, figures))
    point = len(digits) + int(exponent)  # where the decimal point stands, counted from the first digit
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{digits.rjust(len(digits) - point, '0')}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"
