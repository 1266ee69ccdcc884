"""The function of a script that is called, by its name; and the script as a sandbox loads it."""

from __future__ import annotations

from sandboxes.base import Language, Script

NAME = "evaluate"


def script(source: str, language: Language) -> Script:
    """An evaluator's script; in TypeScript `evaluate` is exported, whichever way it was defined."""
    if language == "typescript":
        from runner.evaluators.typescript.parse import exporting  # here: it takes time to import

        source = exporting(source, NAME)
    return Script(source, language, NAME)
