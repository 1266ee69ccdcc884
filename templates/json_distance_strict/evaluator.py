# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "continuous"
# lower_bound = 0
# direction = "minimize"
#
# [tool.evalcell.mapping]
# expected = "reference"
# actual = "output"
#
# [tool.evalcell.parameters]
# expected = {type = "any", description = "The JSON it should be."}
# actual = {type = "any", description = "The JSON it is."}
# parse_strings = {type = "boolean", default = true, description = "Whether text is parsed as JSON first."}
# unfence = {type = "boolean", default = true, description = "Whether a Markdown fence around text is taken off first."}
# ///
"""
How many values of a JSON document differ from the expected one, where types count; 0 means that nothing does.

Objects are compared key by key and arrays element by element, at any depth. Each value that differs is one point, and
so is each key or element that only one side has, however much hangs below it: a missing key differs from null.
Booleans are no numbers, so true and 1 differ; 1 and 1.0 are the same number.

Text is parsed as JSON first, unless `parse_strings` is false; a Markdown fence around all of it does not count. Where
it is no JSON, the label is `invalid` and there is no score. As Python's parser does, it takes NaN, which differs from
itself, and Infinity; whole numbers are exact.

Source: Phoenix, built-in evaluator json_distance, by its documentation.
"""

from templates.parts.json_text import parse_json


def evaluate(expected: object, actual: object, parse_strings: bool = True, unfence: bool = True) -> dict[str, object]:
    if parse_strings:
        try:
            expected = parse_json(expected, "`expected`", unfence=unfence, constants=True)
            actual = parse_json(actual, "`actual`", unfence=unfence, constants=True)
        except ValueError as error:
            return {"label": "invalid", "score": None, "explanation": f"Failed to parse JSON: {error}"}
    count = differences(expected, actual)
    return {"score": float(count), "explanation": f"JSON structures have {count} difference(s)"}


def differences(expected: object, actual: object) -> int:
    count = 0
    pairs = [(expected, actual)]
    # A list of what is left rather than recursion, which ends in an error some hundred levels down.
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            both = a.keys() & b.keys()
            count += len(a) + len(b) - 2 * len(both)
            pairs += [(a[key], b[key]) for key in both]
        elif isinstance(a, list) and isinstance(b, list):
            count += abs(len(a) - len(b))
            pairs += zip(a, b, strict=False)
        else:
            count += isinstance(a, bool) != isinstance(b, bool) or a != b
    return count
