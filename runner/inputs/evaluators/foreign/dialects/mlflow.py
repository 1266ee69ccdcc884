"""MLflow's scorers: functions with `@scorer`, and subclasses of `Scorer` with `__call__`."""

from __future__ import annotations

from dataclasses import replace

from runner.core.types import Evaluator
from runner.inputs.evaluators.foreign.guest import program
from runner.inputs.evaluators.foreign.module import maker_of, read_python
from runner.inputs.evaluators.foreign.reads import keys
from runner.inputs.evaluators.foreign.vendor import Vendor, dialect


def _program(evaluator: Evaluator) -> str:
    module, entry = read_python(evaluator.source, evaluator.name), evaluator.entry or ""
    kind = maker_of(module, entry)
    name = f"{kind}.__call__" if kind in module.classes else entry
    own = {"reference": "expectations", "input": "inputs"}
    read = {word: [key.name for key in keys(module, name, parameter)] for word, parameter in own.items()}
    return program("mlflow", evaluator, "vendor", read=read)


_DIALECT = dialect(
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
DIALECT = replace(_DIALECT, version=2, program=_program)
