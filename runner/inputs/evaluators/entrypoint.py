"""The function of a script that is called, by its name; and the script as a sandbox loads it."""

from __future__ import annotations

from sandboxes.base import Language, Script

NAME = "evaluate"
NATIVE = "native"
"""As a dialect's name: evalcell's own way, whatever else the script looks like."""
AGGREGATE = "aggregate"
_SUFFIXES = (".py", ".ts", ".js", ".mjs", ".cjs")
RESULTS = "results"
"""The first parameter of `aggregate`. A function of that name with another one is the script's own."""


def naming(where: str, name: str) -> str:
    """
    Return how a caller names a function of a script: `FILE:NAME`, or by its name alone where the script is no file.
    """
    return f"`{where}:{name}`" if where.lower().endswith(_SUFFIXES) else f'entry="{name}"'


def script(source: str, language: Language, name: str = NAME) -> Script:
    """Return an evaluator's script; in TypeScript the function is exported, whichever way it was defined."""
    if language == "typescript":
        from runner.inputs.evaluators.typescript.parse import exporting  # here: it takes time to import

        source = exporting(source, name)
    return Script(source, language, name)
