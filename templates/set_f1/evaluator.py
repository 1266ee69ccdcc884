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
# separator = {type = "string", default = ",", description = "What is between a text's elements; '' is white space."}
# case_sensitive = {type = "boolean", default = true, description = "Whether upper and lower case differ."}
# ///
"""
How well one set of things matches another, whatever the order: the F1 of precision and recall.

Each side is a list, or a text with `separator` between the elements. White space around an element does not belong to
it, an empty one is none, and the same one twice is one. An element that is no text counts as its JSON text, so 2 and
"2" are the same, and so are 2 and 2.0. null is the empty set; any other value is a set of one. Without
`case_sensitive`, elements are compared casefolded.

Precision is the part of the output's elements that the reference has, recall the part of the reference's that the
output has, and F1 = 2 * both / (output's + reference's), counted in elements. Two empty sets are equal and score 1; of
an empty set, precision and recall are 0 otherwise.

Source: Dice 1945; van Rijsbergen 1979, Information Retrieval.
"""

import json

SHOWN_TEXTS = 5
SHOWN_CHARACTERS = 60


def evaluate(output: object, reference: object, separator: str = ",", case_sensitive: bool = True) -> dict[str, object]:
    found, wanted = (elements(side, separator, case_sensitive) for side in (output, reference))
    if not found and not wanted:
        return {"score": 1.0, "explanation": "Both sets are empty."}
    both = len(found & wanted)
    score = 2 * both / (len(found) + len(wanted))
    explanation = f"Precision {share(both, found)}, recall {share(both, wanted)}."
    explanation += list_texts("Missing", wanted - found) + list_texts("Extra", found - wanted)
    return {"score": score, "explanation": explanation}


def elements(side: object, separator: str, case_sensitive: bool) -> set[str]:
    if isinstance(side, str):
        items: list[object] = [*(side.split(separator) if separator else side.split())]
    elif isinstance(side, list):
        items = side
    else:
        items = [] if side is None else [side]
    texts = {item.strip() if isinstance(item, str) else as_json(item) for item in items}
    return {text if case_sensitive else text.casefold() for text in texts if text}


def as_json(value: object) -> str:
    """The value's JSON text, the same for equal values: keys in order, whole numbers without a fraction."""
    same = json.loads(json.dumps(value), parse_float=shortest)
    return json.dumps(same, ensure_ascii=False, sort_keys=True)


def shortest(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


def share(both: int, of: set[str]) -> str:
    return f"{both / len(of) if of else 0:.4f} ({both} of {len(of)})"


def list_texts(title: str, texts: set[str]) -> str:
    if not texts:
        return ""
    first = sorted(texts)[:SHOWN_TEXTS]
    shown = [text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…" for text in first]
    more = f" and {len(texts) - SHOWN_TEXTS} more" if len(texts) > SHOWN_TEXTS else ""
    return f" {title}: {', '.join(shown)}{more}."
