"""pydantic-evals' evaluators: dataclasses of `Evaluator` with `evaluate(ctx)`."""

from __future__ import annotations

from runner.inputs.evaluators.foreign.vendor import Vendor, dialect

DIALECT = dialect(
    "pydantic-evals",
    "a pydantic-evals evaluator",
    "pydantic_evals",
    Vendor(
        "pydantic_evals",
        ("pydantic-evals",),
        bases=("Evaluator",),
        methods=("evaluate",),
        columns={"reference": ("expected_output",), "input": ("inputs",)},
    ),
    {"output": "ctx.output", "reference": "ctx.expected_output", "input": "ctx.inputs", "metadata": "ctx.metadata"},
    version=5,
    marks="one is a subclass of Evaluator with `evaluate`",
)
