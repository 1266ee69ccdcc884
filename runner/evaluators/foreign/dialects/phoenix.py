"""Phoenix's evaluators: functions with `@create_evaluator`."""

from __future__ import annotations

from runner.evaluators.foreign.vendor import Vendor, dialect

DIALECT = dialect(
    "phoenix",
    "a Phoenix evaluator",
    "phoenix",
    Vendor(
        "phoenix",
        ("arize-phoenix-evals",),
        decorators=("create_evaluator",),
        distributions=("arize-phoenix",),
        by_column=(),
        makers=("bind_evaluator",),
        bound="bind",
    ),
    {},
    marks="one has the decorator @create_evaluator",
)
