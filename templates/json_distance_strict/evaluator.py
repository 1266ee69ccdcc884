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
#
# [tool.evalcell.parameters.extract]
# type = "string"
# default = "fence"
# choices = ["whole", "fence", "first", "last"]
# description = "What of a text is read as JSON: all of it, its only Markdown fence, its first or last object or array."
# ///
"""
How many values of a JSON document differ from the expected one, where types count; 0 means that nothing does.

Objects are compared key by key and arrays element by element, at any depth. Each value that differs is one point, and
so is each key or element that only one side has, however much hangs below it: a missing key differs from null.
Booleans are no numbers, so true and 1 differ; 1 and 1.0 are the same number.

Text is parsed as JSON first, or what `extract` takes out of it, unless `parse_strings` is false. Where it is no JSON,
the label is `invalid` and there is no score. As Python's parser does, it takes NaN, which differs from itself, and
Infinity; whole numbers are exact.

Source: Phoenix, built-in evaluator json_distance, by its documentation.
"""

from templates.parts.json_text import extraction_note, find_json, parse_json


def evaluate(expected: object, actual: object, parse_strings: bool = True, extract: str = "fence") -> dict[str, object]:
    part = find_json(actual, extract) if parse_strings else actual
    note = extraction_note(actual, part)
    if parse_strings:
        try:
            expected = parse_json(find_json(expected, extract), "`expected`", constants=True)
            actual = parse_json(part, "`actual`", constants=True)
        except ValueError as error:
            return {"label": "invalid", "score": None, "explanation": f"Failed to parse JSON: {error}"}
    count = differences(expected, actual)
    return {"score": float(count), "explanation": f"JSON structures have {count} difference(s){note}"}


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
