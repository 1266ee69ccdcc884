"""The example of a first start, so that there is something to look at."""

from __future__ import annotations

import templates
from runner.inputs.evaluators.load import parse_evaluator
from runner.results.store.store import Store
from runner.server.service.rows import looked_at

NAME = "json-distance"
DATASET = "demo"


def add_example(store: Store) -> None:
    """Add an evaluator and its rows to a store that holds nothing. Blocks."""
    usage = store.usage()
    path = templates.demo(NAME)
    if usage.evaluators or usage.datasets or usage.runs or path is None:
        return
    store.add_evaluator(parse_evaluator(templates.source(NAME), NAME), name=NAME)
    rows, columns, _ = looked_at(path)
    store.add_dataset(path, name=DATASET, suffix="".join(path.suffixes[-1:]), rows=rows, columns=columns)
