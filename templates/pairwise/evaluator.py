# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.evalcell.output]
# kind = "categorical"
# labels = {output = 1.0, tie = 0.5, other = 0.0}
# direction = "maximize"
#
# [tool.evalcell.mapping]
# other = "metadata.other"
#
# [tool.evalcell.parameters]
# other = {type = "any", description = "What the output is held against."}
# measure = {type = "string", choices = ["edit", "tokens"], default = "edit", description = "What closeness is."}
# margin = {type = "number", minimum = 0, maximum = 1, default = 0, description = "Up to this much apart is a tie."}
# ///
"""
Which of two texts is closer to the reference: `output` (1), `other` (0), or neither (`tie`, 0.5).

Closeness is 0 to 1: with `edit` 1 - distance / length of the longer (Levenshtein 1966), with `tokens` twice the shared
words by the words of both (the F1 of SQuAD, Rajpurkar et al. 2016). Up to `margin` apart is a tie. The order does not
matter: with `output` and `other` swapped, the result is the mirrored one.

Null is an empty text; without a reference there is no score. `reference` may be a list of texts: each text is compared
with the one that it is closest to. Other values that are not text are taken as `str` writes them.

Source: none for the choice; those of the measures are named above.
"""

import math

from templates.parts.levenshtein import similarity
from templates.parts.overlap import overlap
from templates.parts.references import references

MEASURES = {"edit": similarity, "tokens": overlap}


def evaluate(
    output: object, other: object, reference: object, measure: str = "edit", margin: float = 0
) -> dict[str, object]:
    if measure not in MEASURES:
        raise ValueError(f"`measure` must be one of {', '.join(MEASURES)}, not '{measure}'")
    if reference is None:
        return {"score": None, "explanation": "There is no reference to compare with."}
    close = MEASURES[measure]
    closeness = [
        max(close("" if text is None else str(text), str(one)) for one in references(reference, text))
        for text in (output, other)
    ]
    ahead = closeness[0] - closeness[1]
    # A difference that is the margin but for rounding is a tie too.
    if abs(ahead) <= margin + 1e-12:
        label, score = "tie", 0.5
    else:
        label, score = ("output", 1.0) if ahead > 0 else ("other", 0.0)
    told = f"output {round_half_up(closeness[0])}, other {round_half_up(closeness[1])} ({measure})"
    return {"label": label, "score": score, "explanation": told}


def round_half_up(value: float) -> str:
    """Four digits, halves up, which is the same in every language."""
    return f"{math.floor(value * 10_000 + 0.5) / 10_000:.4f}"
