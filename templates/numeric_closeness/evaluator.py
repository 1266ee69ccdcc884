# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# upper_bound = 1
# direction = "maximize"
#
# [tool.evalcell.parameters]
# rel_tol = {type = "number", default = 1e-9, minimum = 0, description = "Allowed difference, as a part of the larger."}
# abs_tol = {type = "number", default = 0, minimum = 0, description = "Allowed difference, whatever the size."}
#
# [tool.evalcell.parameters.extract]
# type = "string"
# choices = ["whole", "first", "last"]
# default = "whole"
# description = "Which number of a text counts: it must be the whole text, or the first or last one in it."
# ///
"""
How close a number is to the expected one: 1 within the tolerance, and less the further it is off.

The numbers a and b are close, and score 1, if |a - b| <= max(rel_tol * max(|a|, |b|), abs_tol). Else the score is
1 - |a - b| / max(|a|, |b|), not below 0. Next to 0 only `abs_tol` helps: 0 against 0.001 scores 0. The label is
`close` or `far`; `no_number` with the score 0 where the output has none; `invalid` without a score where the reference
has none. `reference` may be a list, of which the nearest number counts.

In text, a comma may stand between thousands, a sign or a currency sign before the number, and a percent or currency
sign after it. These signs are dropped: 42% is 42. With `extract` "first" or "last" the number may stand anywhere but
right after a Latin letter: "A: 1,234.50 dollars." has 1234.5, "GPT4" has none. Numbers are doubles; true and false are
none, and neither is what is beyond a double's range.

Source: Python's math.isclose, with its default tolerances (PEP 485). The answer of a GSM8K solution ("#### 18",
"A: 18") is its last number.
"""

import math
import re
from collections import deque
from collections.abc import Iterator

from templates.parts.references import references

SIGN_PATTERN = r"(?:(?<![)\]%])[-+\u2212])"
CURRENCY = r"[$\u00a3\u00a5\u20ac\u20b9]"
NUMBER = re.compile(
    rf"(?<![A-Za-z_\d])(?<!\d\.)(?P<before>{SIGN_PATTERN}?{CURRENCY}?|{CURRENCY}{SIGN_PATTERN})"
    r"(?P<digits>(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|(?<!\.)\.\d+)(?:[eE][-+]?\d+)?)"
)
AFTER = re.compile(rf"\s*(?:%|{CURRENCY})?\.?")


def evaluate(
    output: object, reference: object, rel_tol: float = 1e-9, abs_tol: float = 0.0, extract: str = "whole"
) -> dict[str, object]:
    if extract not in ("whole", "first", "last"):
        raise ValueError(f"`extract` must be 'whole', 'first' or 'last', not {extract!r}")
    found = number(output, extract)
    several = [number(one, extract) for one in references(reference, output)]
    known = [one for one in several if one is not None]
    if not known:
        return {"label": "invalid", "score": None, "explanation": f"No number in the reference ({extract})."}
    if found is None:
        return {"label": "no_number", "score": 0.0, "explanation": f"No number in the output ({extract})."}
    wanted = max(known, key=lambda one: nearness(found, one))
    close = math.isclose(found, wanted, rel_tol=rel_tol, abs_tol=abs_tol)
    label, score = ("close", 1.0) if close else ("far", nearness(found, wanted))
    return {"label": label, "score": score, "explanation": f"{found!r} against {wanted!r}."}


def nearness(a: float, b: float) -> float:
    if a == b:
        return 1.0
    return max(0.0, 1 - abs(a - b) / max(abs(a), abs(b)))


def number(value: object, extract: str) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return finite(value)
    if not isinstance(value, str):
        return None
    if extract == "whole":
        text = value.strip()
        start = NUMBER.match(text)
        return parse_number(start) if start and AFTER.fullmatch(text, start.end()) else None
    every = numbers(value)
    if extract == "first":
        return next(every, None)
    last = deque(every, maxlen=1)
    return last[0] if last else None


def numbers(text: str) -> Iterator[float]:
    for match in NUMBER.finditer(text):
        if (found := parse_number(match)) is not None:
            yield found


def parse_number(match: re.Match[str]) -> float | None:
    size = finite(match["digits"].replace(",", ""))
    negative = "-" in match["before"] or "\u2212" in match["before"]
    return -size if negative and size is not None else size


def finite(value: str | int | float) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
