"""What most scripts return, judged in a fraction of the time that `normalize` takes, which knows all the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import float_info
from typing import Any, TypeAlias

from runner.core.types import Categorical, Continuous, Freeform, OutputConfig
from runner.engine.scoring.normalize import ONLY, TEXT_LIMIT

_MOST = float_info.max

Usual: TypeAlias = Callable[[Any], "tuple[str | None, float, str | None] | None"]
"""Makes label, score and explanation of a returned value that needs no conversion; None for any other."""


def usual(outputs: Mapping[str, OutputConfig]) -> Usual | None:
    """
    The function for the only output, if that has no name of its own; None if there is another.

    It takes a float, or a dict with one and with texts in ASCII of usual length. What it makes of them is what
    `normalize` does, in every language: scored.
    """
    if outputs and [*outputs] != [""]:
        return None
    low, high, labels = -_MOST, _MOST, None
    match outputs.get(""):
        case Continuous(lower_bound=lower, upper_bound=upper):
            low, high = low if lower is None else lower, high if upper is None else upper
        case Categorical(labels=known):
            labels = known
        case None | Freeform():
            pass

    def found(value: Any) -> tuple[str | None, float, str | None] | None:
        label = explanation = None
        score = value
        if type(value) is dict:
            if not value.keys() <= ONLY:
                return None
            label, score, explanation = value.get("label"), value.get("score"), value.get("explanation")
        if type(score) is not float or not low <= score <= high:
            return None
        if label is not None and (type(label) is not str or len(label) > TEXT_LIMIT or not label.isascii()):
            return None
        if explanation is not None and (
            type(explanation) is not str or len(explanation) > TEXT_LIMIT or not explanation.isascii()
        ):
            return None
        if labels is None:
            return label, score, explanation
        if label not in labels:
            return None
        if (fixed := labels[label]) is None:
            return label, score, explanation
        return (label, fixed, explanation) if score == fixed else None

    return found
