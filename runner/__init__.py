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

    from runner.core.errors import (
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
    from runner.core.settings import JudgeSettings
    from runner.core.types import Case, Categorical, Continuous, Evaluator, Freeform, InputMapping, Result
    from runner.engine.scoring.summary import Summary
    from runner.inputs.evaluators.load import read_evaluator
    from runner.inputs.evaluators.requirements import read_requirements
    from runner.results.compare.plan import RowPlan, plan_rows
    from runner.results.compare.runs import compare_runs
    from runner.results.compare.types import Comparison
    from runner.results.output.files import WriteError
    from runner.runs.api.compare import compare_datasets
    from runner.runs.api.ray_data import evalcell_scorer
    from runner.runs.api.run import audit, check_examples, evaluate, parity, stream, verify, write_report
    from runner.runs.api.suite import evaluate_all, evaluate_project
    from runner.runs.audit.types import Audit
    from runner.runs.examples.check import ExamplesReport
    from runner.runs.export import RowScorer, inspect_scorer, langsmith_evaluator
    from runner.runs.parity import Parity
    from runner.runs.report import Report
    from runner.runs.rewards import ComputeScore, Reward, compute_score, reward
    from runner.runs.verify import Verification
    from runner.server.client.client import AsyncClient, Client
    from sandboxes.base import Limits, SandboxConfig
    from sandboxes.errors import (
        SandboxError,
        SandboxLostError,
        SandboxUnavailableError,
        UnsupportedConfigError,
    )

__all__ = [
    "AsyncClient",
    "Audit",
    "Case",
    "Categorical",
    "Client",
    "Comparison",
    "ComputeScore",
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
    "JudgeSettings",
    "Limits",
    "MappingError",
    "NotComparableError",
    "OutputError",
    "Parity",
    "Report",
    "RequirementError",
    "Result",
    "Reward",
    "RowPlan",
    "RowScorer",
    "SandboxConfig",
    "SandboxError",
    "SandboxLostError",
    "SandboxUnavailableError",
    "ServerError",
    "Summary",
    "UnsupportedConfigError",
    "Verification",
    "WriteError",
    "audit",
    "check_examples",
    "compare_datasets",
    "compare_runs",
    "compute_score",
    "evalcell_scorer",
    "evaluate",
    "evaluate_all",
    "evaluate_project",
    "inspect_scorer",
    "langsmith_evaluator",
    "parity",
    "plan_rows",
    "read_evaluator",
    "read_requirements",
    "reward",
    "stream",
    "verify",
    "write_report",
]

_MODULES = {
    "runner.runs.api.run": ("audit", "check_examples", "parity", "evaluate", "stream", "verify", "write_report"),
    "runner.runs.audit.types": ("Audit",),
    "runner.runs.verify": ("Verification",),
    "runner.runs.api.compare": ("compare_datasets",),
    "runner.runs.api.ray_data": ("evalcell_scorer",),
    "runner.runs.api.suite": ("evaluate_all", "evaluate_project"),
    "runner.server.client.client": ("AsyncClient", "Client"),
    "runner.results.compare.plan": ("RowPlan", "plan_rows"),
    "runner.results.compare.runs": ("compare_runs",),
    "runner.results.compare.types": ("Comparison",),
    "runner.core.errors": (
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
    "runner.inputs.evaluators.load": ("read_evaluator",),
    "runner.inputs.evaluators.requirements": ("read_requirements",),
    "runner.runs.examples.check": ("ExamplesReport",),
    "runner.results.output.files": ("WriteError",),
    "runner.runs.parity": ("Parity",),
    "runner.runs.report": ("Report",),
    "runner.engine.scoring.summary": ("Summary",),
    "runner.runs.export": ("RowScorer", "inspect_scorer", "langsmith_evaluator"),
    "runner.runs.rewards": ("ComputeScore", "Reward", "compute_score", "reward"),
    "runner.core.types": ("Case", "Categorical", "Continuous", "Evaluator", "Freeform", "InputMapping", "Result"),
    "runner.core.settings": ("JudgeSettings",),
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
