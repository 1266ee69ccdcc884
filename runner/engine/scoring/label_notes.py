"""Labels and scores that are hardly meant as such."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from runner.core.text import list_names, printable, rows_of
from runner.core.types import Categorical, Evaluator, config_of
from runner.engine.scoring.look_alikes import tell_apart
from runner.engine.scoring.shown_rows import ShownRow
from runner.engine.scoring.summary import Summary
from runner.inputs.evaluators.python.returns import NUMBER

_NAMED = 4
_FEW = 3
"""Rows of which all may well have one score."""
_GOOD = re.compile(r"true|yes|y|pass(ed)?|correct|good|ok|success(ful)?|valid|match(ed)?|safe", re.IGNORECASE)
"""Labels that all rows may well have."""
_STRIP = {"python": "label.strip()", "typescript": "label.trim()"}
_NUMBER = {"python": "float(…)", "typescript": "Number(…)"}


def label_notes(
    summary: Summary,
    evaluator: Evaluator,
    rows: Iterable[ShownRow] = (),
    errors: str = "",
) -> Iterator[str]:
    """
    Note, of each output without declared labels, that numbers were returned as text, of which there is no mean, and
    labels that look alike. And that all scores or labels are one, or may be hidden errors. `rows` are some of the rows,
    of which one may be named, and `errors` says which a row hid.
    """
    rows = list(rows)
    if errors:
        yield errors
    else:
        for value, what in _constants(summary, evaluator):
            yield (
                f"every {what} is {value}: if that is not meant, `evalcell check` shows what the script gets of the "
                "first rows"
            )
    for name, stats in (summary.outputs or {"": summary}).items():
        every = list(stats.labels)
        if alike := [shown for label, shown in zip(every, tell_apart(every), strict=True) if shown != label]:
            some = ", ".join(printable(one, 60) for one in alike[:_NAMED])
            yield (
                f"{evaluator.name} gave labels that look alike and count apart, {some}: make them alike in the script, "
                f"as with {_STRIP[evaluator.language]}, or name the very label in a gate"
            )
        found = {label: count for label, count in stats.labels.items() if NUMBER.fullmatch(label)}
        unscored = summary.scored - stats.count
        if not found or unscored <= 0 or isinstance(config_of(evaluator.configs, name), Categorical):
            continue
        first = next(iter(found))
        row = next((f" in row {one.id}" for one in rows if one.label == first.strip()), "")
        of = f" for the output {printable(name, 60)}" if name else ""
        yield (
            f"{evaluator.name} gave {rows_of(min(unscored, sum(found.values())))} a number as text{of}, such as "
            f"{json.dumps(first)}{row}: that is a label, and no score; return {_number(first, evaluator)}, or "
            "declare the labels in the script's header"
        )


def _constants(summary: Summary, evaluator: Evaluator) -> Iterator[tuple[str, str]]:
    """The outputs of which every score or label is one, and for which that is likely not the best, by that one."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, stats in (summary.outputs or {"": summary}).items():
        config = config_of(evaluator.configs, name)
        best: tuple[float | None, ...] = (1, 100, getattr(config, "upper_bound", None))
        if getattr(config, "direction", None) == "minimize":
            best = (0, getattr(config, "lower_bound", None))
        if stats.count >= _FEW and stats.min is not None and stats.min == stats.max and stats.min not in best:
            found.setdefault((f"{stats.min:g}", "score"), []).append(name)
        elif not stats.count and len(stats.labels) == 1:
            ((label, count),) = stats.labels.items()
            if count >= _FEW and not _GOOD.fullmatch(label.strip()):
                found.setdefault((printable(label, 60), "label"), []).append(name)
    yield from ((value, list_names(names) if names[0] else what) for (value, what), names in found.items())


def _number(text: str, evaluator: Evaluator) -> str:
    """The expression that makes a number of such a text."""
    made = _NUMBER[evaluator.language]
    if "%" not in text:
        return made
    inner = 'text.strip().rstrip("%")' if evaluator.language == "python" else 'text.replace("%", "")'
    return f"{made.replace('…', inner)} / 100"
