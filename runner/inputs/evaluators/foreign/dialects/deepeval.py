"""deepeval's metrics: subclasses of `BaseMetric` with `measure(test_case)`."""

from __future__ import annotations

from runner.inputs.evaluators.foreign.vendor import Vendor, dialect

_CASE = ("input", "actual_output", "expected_output", "metadata", "additional_metadata", "multimodal", "flaky")
_FILLED = (
    *("name", "comments", "tags", "custom_column_key_values", "input_token_count", "output_token_count"),
    *("mcp_servers", "mcp_tools_called", "mcp_resources_called", "mcp_prompts_called"),
    *("expectations", "expected_labels"),
)
"""What a case has that the guest fills from columns where the script reads it; none is None."""

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
        case=(*_CASE, *_FILLED, "model_fields", "model_fields_set", "model_extra"),
    ),
    {
        "output": "test_case.actual_output",
        "reference": "test_case.expected_output",
        "input": "test_case.input",
        "metadata": "test_case.metadata",
    },
    version=2,
    marks="one is a subclass of BaseMetric with `measure`",
)
