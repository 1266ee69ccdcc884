"""Results of scripts of a dialect, as the part beside the script gives them. The script could have given them too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.core.text import shown
from runner.core.types import OutputConfig
from runner.engine.scoring.normalize import InvalidResultError, Normalized, ScoreTuple, normalize
from runner.engine.scoring.usual import Usual, usual
from sandboxes.base import Language

MOST = 64
"""Named outputs of a row."""
_NAME = 100
"""Characters of an output's name."""

_SHORT: Usual = usual({}) or (lambda value: None)


def normalize_foreign(value: Any, outputs: Mapping[str, OutputConfig], language: Language) -> Normalized:
    """
    As `normalize`, for what the part of a dialect returned.

    `{"invalid": text}` is what the tool itself refuses, `{"outputs": {…}}` has a result by name: the names are the
    script's, unless its header has output configs. Raises InvalidResultError.
    """
    if not isinstance(value, dict) or len(value) != 1:
        return normalize(value, outputs, language)
    if isinstance(why := value.get("invalid"), str):
        raise InvalidResultError(why)
    named = value.get("outputs")
    if not isinstance(named, dict):
        return normalize(value, outputs, language)
    if outputs:
        return normalize(_configured(named, outputs), outputs, language)
    if not 0 < len(named) <= MOST or any(not 0 < len(name) <= _NAME for name in named):
        raise InvalidResultError(
            f"the script gave {len(named)} named results, {shown(list(named), 60)}: give 1 to {MOST}, "
            f"each with a name of 1 to {_NAME} characters"
        )
    if None not in (short := [*map(_SHORT, named.values())]):  # as most
        return Normalized("scored", {name: ScoreTuple(*one) for name, one in zip(named, short, strict=True) if one})
    found = {name: normalize(one, {}, language) for name, one in named.items()}
    scores = {name: one.scores[""] for name, one in found.items()}
    return Normalized("abstained" if all(one.outcome == "abstained" for one in found.values()) else "scored", scores)


def _configured(named: dict[str, Any], outputs: Mapping[str, OutputConfig]) -> Any:
    """Of several named results those that the header has; the first, if it has one config without a name."""
    if "" in outputs:
        return next(iter(named.values()), None)
    return {name: named[name] for name in outputs if name in named} or named
