"""Weave's scorers: subclasses of `Scorer` with `score(output, …)`, and functions with `@weave.op`."""

from __future__ import annotations

from runner.inputs.evaluators.foreign.vendor import Vendor, dialect

DIALECT = dialect(
    "weave",
    "a Weave scorer",
    "weave",
    Vendor(
        "weave",
        ("weave",),
        decorators=("op",),
        taking=("output", "model_output"),
        bases=("Scorer",),
        methods=("score",),
        by_column=("output", "model_output"),
        bound="column_map",
    ),
    {},
    marks="one has the decorator @weave.op, or is a subclass of Scorer",
)
