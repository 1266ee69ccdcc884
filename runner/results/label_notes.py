"""Labels that are hardly meant as labels."""

from __future__ import annotations

import json
from collections.abc import Iterator

from runner.evaluators.returns import NUMBER
from runner.results.summary import Summary
from runner.text import printable, rows_of
from runner.types import Categorical, Evaluator, config_of

_NUMBER = {"python": "float(…)", "typescript": "Number(…)"}


def label_notes(summary: Summary, evaluator: Evaluator) -> Iterator[str]:
    """Of each output without declared labels: that numbers were returned as text, of which there is no mean."""
    for name, stats in (summary.outputs or {"": summary}).items():
        found = {label: count for label, count in stats.labels.items() if NUMBER.fullmatch(label)}
        unscored = summary.scored - stats.count
        if not found or unscored <= 0 or isinstance(config_of(evaluator.configs, name), Categorical):
            continue
        of = f" for the output {printable(name, 60)}" if name else ""
        yield (
            f"{evaluator.name} gave {rows_of(min(unscored, sum(found.values())))} a number as text{of}, such as "
            f"{json.dumps(next(iter(found)))}: that is a label, and no score; return {_NUMBER[evaluator.language]}, or "
            "declare the labels in the script's header"
        )
