"""
Scores datasets with evaluators in a sandbox.

The names below are the public ones. They are imported on first use, as a command line that only prints its
help should not wait for them.
"""

from __future__ import annotations

# The command line begins here: what is imported before it listens to signals is as little as can be.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from runner.api.compare import compare_datasets
    from runner.api.ray_data import evalcell_scorer
    from runner.api.run import check_examples, evaluate, parity, stream, write_report
    from runner.api.suite import evaluate_all, evaluate_project
    from runner.client.client import AsyncClient, Client
    from runner.compare.runs import compare_runs
    from runner.compare.types import Comparison
    from runner.errors import (
        DatasetError,
        EvaluatorError,
        ExamplesError,
        FailedRowsError,
        InputError,
        MappingError,
        NotComparableError,
        OutputError,
        RequirementError,
        ServerError,
    )
    from runner.evaluators.load import read_evaluator
    from runner.evaluators.requirements import read_requirements
    from runner.examples.check import ExamplesReport
    from runner.export import RowScorer, inspect_scorer, langsmith_evaluator
    from runner.output.files import WriteError
    from runner.results.summary import Summary
    from runner.rewards import Reward, reward
    from runner.runs.parity import Parity
    from runner.runs.report import Report
    from runner.types import Case, Categorical, Continuous, Evaluator, Freeform, InputMapping, Result
    from sandboxes.base import Limits, SandboxConfig
    from sandboxes.errors import (
        SandboxError,
        SandboxLostError,
        SandboxUnavailableError,
        UnsupportedConfigError,
    )

__all__ = [
    "AsyncClient",
    "Case",
    "Categorical",
    "Client",
    "Comparison",
    "Continuous",
    "DatasetError",
    "Evaluator",
    "EvaluatorError",
    "ExamplesError",
    "ExamplesReport",
    "FailedRowsError",
    "Freeform",
    "InputError",
    "InputMapping",
    "Limits",
    "MappingError",
    "NotComparableError",
    "OutputError",
    "Parity",
    "Report",
    "RequirementError",
    "Result",
    "Reward",
    "RowScorer",
    "SandboxConfig",
    "SandboxError",
    "SandboxLostError",
    "SandboxUnavailableError",
    "ServerError",
    "Summary",
    "UnsupportedConfigError",
    "WriteError",
    "check_examples",
    "compare_datasets",
    "compare_runs",
    "evalcell_scorer",
    "evaluate",
    "evaluate_all",
    "evaluate_project",
    "inspect_scorer",
    "langsmith_evaluator",
    "parity",
    "read_evaluator",
    "read_requirements",
    "reward",
    "stream",
    "write_report",
]

_MODULES = {
    "runner.api.run": ("check_examples", "parity", "evaluate", "stream", "write_report"),
    "runner.api.compare": ("compare_datasets",),
    "runner.api.ray_data": ("evalcell_scorer",),
    "runner.api.suite": ("evaluate_all", "evaluate_project"),
    "runner.client.client": ("AsyncClient", "Client"),
    "runner.compare.runs": ("compare_runs",),
    "runner.compare.types": ("Comparison",),
    "runner.errors": (
        "DatasetError",
        "EvaluatorError",
        "ExamplesError",
        "FailedRowsError",
        "InputError",
        "MappingError",
        "NotComparableError",
        "OutputError",
        "RequirementError",
        "ServerError",
    ),
    "runner.evaluators.load": ("read_evaluator",),
    "runner.evaluators.requirements": ("read_requirements",),
    "runner.examples.check": ("ExamplesReport",),
    "runner.output.files": ("WriteError",),
    "runner.runs.parity": ("Parity",),
    "runner.runs.report": ("Report",),
    "runner.results.summary": ("Summary",),
    "runner.export": ("RowScorer", "inspect_scorer", "langsmith_evaluator"),
    "runner.rewards": ("Reward", "reward"),
    "runner.types": ("Case", "Categorical", "Continuous", "Evaluator", "Freeform", "InputMapping", "Result"),
    "sandboxes.base": ("Limits", "SandboxConfig"),
    "sandboxes.errors": (
        "SandboxError",
        "SandboxLostError",
        "SandboxUnavailableError",
        "UnsupportedConfigError",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
