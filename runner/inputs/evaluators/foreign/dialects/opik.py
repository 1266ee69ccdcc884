"""Opik's metrics: subclasses of `BaseMetric` with `score(…)`."""

from __future__ import annotations

from runner.inputs.evaluators.foreign.vendor import Vendor, dialect

DIALECT = dialect(
    "opik",
    "an Opik metric",
    "opik",
    Vendor(
        "opik", ("opik",), bases=("BaseMetric",), methods=("score",), never=("task_span",), by_column=(), settable=False
    ),
    {},
    marks="one is a subclass of BaseMetric with `score`",
)
