"""deepeval's metrics: subclasses of `BaseMetric` with `measure(test_case)`."""

from __future__ import annotations

from runner.inputs.evaluators.foreign.vendor import Vendor, dialect

DIALECT = dialect(
    "deepeval",
    "a deepeval metric",
    "deepeval",
    Vendor(
        "deepeval",
        ("deepeval",),
        bases=("BaseMetric",),
        methods=("measure",),
        columns={"output": ("actual_output",), "reference": ("expected_output",)},
        fields=("retrieval_context", "context", "tools_called", "expected_tools", "token_cost", "completion_time"),
    ),
    {
        "output": "test_case.actual_output",
        "reference": "test_case.expected_output",
        "input": "test_case.input",
        "metadata": "test_case.metadata",
    },
    marks="one is a subclass of BaseMetric with `measure`",
)
