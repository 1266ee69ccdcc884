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
# expected = "reference"
# actual = "output"
#
# [tool.evalcell.parameters]
# expected = {type = "any", description = "What it should be."}
# actual = {type = "any", description = "What it is."}
# case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
# ///
"""
Whether two texts are the same, character by character.

White space and line ends count. Without `case_sensitive`, both sides are compared as `str.lower` writes them. Values
that are not text are compared as `str` writes them, so the order of an object's keys counts. `expected` may be a list
of texts, one of which is enough; where both sides are lists, the two lists are compared.

Source: the built-in evaluator `exact_match` of Arize Phoenix.
"""

from templates.parts.references import references


def evaluate(expected: object, actual: object, case_sensitive: bool = True) -> dict[str, object]:
    found = str(actual) if case_sensitive else str(actual).lower()
    several = [str(one) for one in references(expected, actual)]
    if any(found == (wanted if case_sensitive else wanted.lower()) for wanted in several):
        return {"label": "true", "score": 1.0, "explanation": "expected matches actual"}
    return {"label": "false", "score": 0.0, "explanation": "expected does not match actual"}
