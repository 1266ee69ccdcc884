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
# expected = {type = "any", description = "The text it should be."}
# actual = {type = "any", description = "The text it is."}
# case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
# ///
"""
How many single characters must be inserted, deleted or replaced to turn one text into the other; 0 for equal texts.

The Levenshtein distance of `expected` and `actual`. A character is a Unicode code point, so an accent that is stored
apart from its letter is one of its own. Without case, both sides are lowered as `str.lower` does. A value that is no
text is compared as `str` writes it: null is `None`, an object is a Python dict. `expected` may be a list of texts, of
which the nearest counts; where both sides are lists, the two lists are compared.

Source: Phoenix, built-in evaluator levenshtein_distance; Levenshtein 1966.
"""

from templates.parts.levenshtein import edit_distance
from templates.parts.references import references


def evaluate(expected: object, actual: object, case_sensitive: bool = True) -> dict[str, object]:
    found = str(actual) if case_sensitive else str(actual).lower()
    several = [str(one) for one in references(expected, actual)]
    distance = min(edit_distance(one if case_sensitive else one.lower(), found) for one in several)
    return {"score": float(distance), "explanation": f"edit distance between expected and actual is {distance}"}
