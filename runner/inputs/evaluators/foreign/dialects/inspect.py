"""Inspect's scorers: `@scorer` on a factory of `async score(state, target)`."""

from __future__ import annotations

from runner.inputs.evaluators.foreign.vendor import Vendor, dialect

DIALECT = dialect(
    "inspect",
    "an Inspect scorer",
    "inspect_ai",
    Vendor(
        "inspect_ai",
        ("inspect-ai",),
        decorators=("scorer",),
        columns={"reference": ("target",)},
        factories=True,
        models=("get_model", "model_graded_qa", "model_graded_fact"),
    ),
    {
        "output": "state.output.completion",
        "reference": "target",
        "input": "state.input",
        "metadata": "state.metadata",
    },
    version=3,
    marks="one has the decorator @scorer",
)
