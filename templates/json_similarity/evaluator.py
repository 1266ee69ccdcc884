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
# target_output_key = {type = "string", default = "*", description = "The key of both sides to compare; * for all."}
# parse_strings = {type = "boolean", default = true, description = "Whether text that is JSON is parsed first."}
#
# [tool.evalcell.parameters.extract]
# type = "string"
# default = "fence"
# choices = ["whole", "fence", "first", "last"]
# description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
# ///
"""
How much of the expected JSON an output has: matched leaves divided by expected leaves, where a leaf may match in part.

A leaf is a value that is no object and no array. Only what the reference has is looked at, objects by key and arrays by
place; other keys and elements of the output do not count, and each leaf below what is missing scores 0. Texts score
1 - Levenshtein(e, a) / length of the longer, numbers 1 - |e - a| / |e| and not below 0, where an e of at most 1e-12 is
taken for 0 and matches only such a number. Booleans and null must be equal, and kinds must: true is not 1. A reference
without leaves is matched: 1.

Text that begins like an object or array is parsed, or what `extract` takes out of it. An output that cannot be
parsed, or that is other text where the reference is an object or array, has the label `invalid` and scores 0.
A reference that cannot be parsed has that label and no score. With `parse_strings` false, texts are leaves, as in the
vendor's package.

`target_output_key` names the one key of both sides that is compared; a side that lacks it fails the row. It may be a
path, `order.items[0]`. With a key, all text is parsed, and with `parse_strings` false the reference's alone.

Source: UiPath JSON Similarity, its documentation; what that leaves open as in the package uipath 2.14.
"""

import math
from fractions import Fraction

from templates.parts.json_text import extraction_note, find_json, parse_json
from templates.parts.levenshtein import similarity

MISSING = object()
TINY = 1e-12


def evaluate(
    output: object,
    reference: object,
    target_output_key: str = "*",
    parse_strings: bool = True,
    extract: str = "fence",
) -> dict[str, object]:
    targeted = target_output_key != "*"
    expected, actual = reference, output
    part = find_json(output, extract) if parse_strings else output
    score = None  # a reference that is no JSON says nothing about the output
    try:
        if parse_strings or targeted:
            expected = parse_json(find_json(reference, extract), "the reference", plain=not targeted)
        score = 0.0
        if parse_strings:
            plain = not targeted and not isinstance(expected, dict | list)
            actual = parse_json(part, "the output", plain=plain)
    except ValueError as error:
        return {"label": "invalid", "score": score, "explanation": f"Failed to parse JSON: {error}"}
    if targeted:
        expected = choose_value("reference", expected, target_output_key)
        actual = choose_value("output", actual, target_output_key)
    scores = leaf_scores(expected, actual)
    matched = math.fsum(scores)
    note = extraction_note(output, part)
    return {
        "score": matched / len(scores) if scores else 1.0,
        "explanation": f"Matched leaves: {count_leaves(matched)}, Total leaves: {len(scores)}{note}",
    }


def choose_value(side: str, value: object, key: str) -> object:
    """The value under a key, or under a path where no key is called so."""
    if isinstance(value, dict) and key in value:
        return value[key]
    for step in key.replace("[", ".").replace("]", "").split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            hint = "; it is text, which `parse_strings` has parsed" if isinstance(value, str) else ""
            raise ValueError(f"`target_output_key` is {key[:60]!r}, and the {side} has no such key{hint}")
    return value


def leaf_scores(expected: object, actual: object) -> list[float]:
    """How well each leaf of `expected` is matched."""
    scores = []
    pairs = [(expected, actual)]
    # A list of what is left rather than recursion, which ends in an error some hundred levels down.
    while pairs:
        e, a = pairs.pop()
        if isinstance(e, dict):
            pairs += [(value, a.get(key, MISSING) if isinstance(a, dict) else MISSING) for key, value in e.items()]
        elif isinstance(e, list):
            found = a if isinstance(a, list) else []
            pairs += [(value, found[at] if at < len(found) else MISSING) for at, value in enumerate(e)]
        else:
            scores.append(leaf_score(e, a))
    return scores


def leaf_score(e: object, a: object) -> float:
    if isinstance(e, str) and isinstance(a, str):
        return similarity(e, a)
    if isinstance(e, bool) or isinstance(a, bool) or not isinstance(e, int | float) or not isinstance(a, int | float):
        return float(e is a)
    return closeness(e, a)


def closeness(e: float, a: float) -> float:
    if e == a:
        return 1.0
    if abs(e) <= TINY:
        return float(abs(a) <= TINY)
    if math.inf in (abs(e), abs(a)):
        return 0.0
    try:
        gap: float | Fraction = abs(e - a) / abs(e)
    except OverflowError:  # a whole number beyond the range of a float
        gap = abs((Fraction(e) - Fraction(a)) / Fraction(e))
    return float(max(0, 1 - gap))


def count_leaves(leaves: float) -> str:
    return f"{leaves:.4f}".rstrip("0").rstrip(".")
