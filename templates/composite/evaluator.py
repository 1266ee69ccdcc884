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
# [tool.evalcell.parameters.weights]
# type = "object"
# default = {exact = 1, contains = 1, length = 1, edit = 1, tokens = 1}
# keys = ["exact", "contains", "length", "edit", "tokens"]
# values = "number"
# minimum = 0
# some_above = 0
# description = "How much each axis counts, from 0; one that is left out does not."
# ///
"""
How close a text comes to the reference, blended from several measures, each of 0 to 1.

The axes: `exact`, whether both are the same; `contains`, whether the reference stands in the output, in any case
(only an empty output contains an empty reference); `length`, the shorter length by the longer; `edit`,
1 - distance / length of the longer (Levenshtein 1966); `tokens`, twice the shared words by the words of both (the F1
of SQuAD, Rajpurkar et al. 2016). Without a difference they are 1, also between two empty texts.

The score is the sum of weight x measure by the sum of the weights, so weights need not sum to 1. The explanation
shows each measure with its share. Weights are numbers from 0, and not all 0; others, or an unknown axis, are refused
before anything runs. Null is an empty output; without a reference there is no score. `reference` may be a list of
texts, of which the best counts; where the output is a list too, the two lists are compared. Other values that are not
text are taken as `str` writes them.

Source: none for the blend; those of the measures are named above.
"""

import math
from collections.abc import Callable, Iterable

from templates.parts.levenshtein import similarity
from templates.parts.overlap import overlap
from templates.parts.references import references

AXES: dict[str, Callable[[str, str], float]] = {
    "exact": lambda found, wanted: float(found == wanted),
    "contains": lambda found, wanted: float(wanted.lower() in found.lower() if wanted else not found),
    "length": lambda found, wanted: lengths(len(found), len(wanted)),
    "edit": similarity,
    "tokens": overlap,
}


def evaluate(output: object, reference: object, weights: dict[str, float] | None = None) -> dict[str, object]:
    shares = axis_shares(dict.fromkeys(AXES, 1) if weights is None else weights)
    if reference is None:
        return {"score": None, "explanation": "There is no reference to compare with."}
    found = "" if output is None else str(output)
    blends = (blend(found, str(wanted), shares) for wanted in references(reference, output))
    score, told = max(blends, key=lambda blend: blend[0])
    return {"score": score, "explanation": f"{told} = {round_half_up(score)}"}


def blend(found: str, wanted: str, shares: dict[str, float]) -> tuple[float, str]:
    measures = {axis: AXES[axis](found, wanted) for axis in shares}
    score = min(1.0, total(measures[axis] * share for axis, share in shares.items()))
    told = " + ".join(
        f"{axis} {round_half_up(measures[axis])} x {round_half_up(share)}" for axis, share in shares.items()
    )
    return score, told


def axis_shares(weights: dict[str, float]) -> dict[str, float]:
    """What part of the whole each axis has, without those of no weight. Raises ValueError for unusable weights."""
    for axis, weight in weights.items():
        if axis not in AXES:
            raise ValueError(f"`weights` has the unknown axis '{axis}'; known are {', '.join(AXES)}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ValueError(f"the weight of '{axis}' must be a number from 0, not {weight!r}")
    largest = max(weights.values(), default=0)
    if not largest:
        raise ValueError('`weights` gives no axis any weight; say for example {"edit": 2, "tokens": 1}')
    # By the largest first: the sum of weights near the end of the range would be infinite.
    parts = {axis: weights[axis] / largest for axis in AXES if weights.get(axis)}
    whole = total(parts.values())
    return {axis: part / whole for axis, part in parts.items()}


def total(parts: Iterable[float]) -> float:
    """One after the other, the same in every language; Python's `sum` rounds less since 3.12."""
    whole = 0.0
    for part in parts:
        whole += part
    return whole


def lengths(a: int, b: int) -> float:
    return 1.0 if a == b else min(a, b) / max(a, b)


def round_half_up(value: float) -> str:
    """Two digits, halves up, also what is a half but for rounding: the same in every language."""
    return f"{math.floor(value * 100 + 0.5 + 1e-9) / 100:.2f}"
