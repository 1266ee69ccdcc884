# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "categorical"
# labels = {"true" = 1.0, "false" = 0.0}
# direction = "maximize"
#
# [tool.evalcell.mapping]
# text = "output"
#
# [tool.evalcell.parameters]
# pattern = {type = ["string", "any"], description = "A regular expression, as Python's re reads them."}
# text = {type = "any", description = "Where to look."}
# full_match = {type = "boolean", default = false, description = "Whether it must match all of the text."}
# ///
"""
Whether a regular expression matches a text: anywhere in it, or with `full_match` all of it.

The expression is one of Python's `re`: `$` also matches before a last line feed, `\\w` and `\\d` are those of all
scripts. Flags stand in the expression: `(?i)`. One that is no regular expression gives no score, and the explanation
says why. One that takes too long ends at the run's timeout, for that row alone. Values that are not text are taken as
`str` writes them.

Source: the built-in evaluator `regex` of Arize Phoenix.
"""

import re


def evaluate(pattern: object, text: object, full_match: bool = False) -> dict[str, object]:
    try:
        compiled = re.compile(str(pattern))
    except (re.error, OverflowError, RecursionError) as error:
        return {"label": None, "score": None, "explanation": f"Invalid regex pattern: {error}"}
    matched = (compiled.fullmatch if full_match else compiled.search)(str(text)) is not None
    how = "full match" if full_match else "search"
    if matched:
        return {"label": "true", "score": 1.0, "explanation": f"pattern matched ({how})"}
    return {"label": "false", "score": 0.0, "explanation": f"pattern did not match ({how})"}
