"""Whether a sandbox can run an evaluator at all."""

from __future__ import annotations

from runner.core.types import Evaluator
from runner.inputs.evaluators.python.versions import allows
from sandboxes.base import Sandbox
from sandboxes.errors import UnsupportedConfigError


def refuse_unfit(evaluator: Evaluator, sandbox: Sandbox) -> None:
    """Raise UnsupportedConfigError if the sandbox cannot run the evaluator's language, or not its version."""
    if evaluator.language not in sandbox.capabilities.languages:
        raise UnsupportedConfigError(
            f"the {sandbox.name} sandbox does not run {evaluator.language}; see `evalcell sandboxes`"
        )
    wanted, python = evaluator.requires_python, sandbox.python
    if wanted and python and not allows(wanted, python):
        raise UnsupportedConfigError(
            f"the script requires Python {wanted} and the {sandbox.name} sandbox runs {python}; "
            "change `requires-python` in its header, or choose another sandbox"
        )
