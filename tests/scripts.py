"""Scripts as a sandbox is given them."""

from __future__ import annotations

from sandboxes import Script
from sandboxes.base import Language


def python(source: str, entrypoint: str = "evaluate") -> Script:
    return Script(source, "python", entrypoint)


def typescript(source: str, entrypoint: str = "evaluate") -> Script:
    """With the function exported, as the runner sees to it."""
    from runner.inputs.evaluators.typescript.parse import exporting

    return Script(exporting(source, entrypoint), "typescript", entrypoint)


def script(source: str, language: Language, entrypoint: str = "evaluate") -> Script:
    return (python if language == "python" else typescript)(source, entrypoint)
