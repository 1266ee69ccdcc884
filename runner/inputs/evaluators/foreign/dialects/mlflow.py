"""MLflow's scorers: functions with `@scorer`, and subclasses of `Scorer` with `__call__`."""

from __future__ import annotations

from runner.inputs.evaluators.foreign.vendor import Vendor, dialect

DIALECT = dialect(
    "mlflow",
    "an MLflow scorer",
    "mlflow",
    Vendor(
        "mlflow",
        ("mlflow-skinny", "pandas"),  # the whole of MLflow is nine times as large, and a scorer needs none of that
        decorators=("scorer",),
        bases=("Scorer",),
        methods=("__call__",),
        never=("trace", "session"),
        distributions=("mlflow",),
        columns={"output": ("outputs",), "reference": ("expectations",), "input": ("inputs",)},
    ),
    {"output": "outputs", "reference": "expectations", "input": "inputs", "metadata": "(nothing)"},
    marks="one has the decorator @scorer, or is a subclass of Scorer",
)
