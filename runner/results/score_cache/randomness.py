"""What in a script may give another result each time, as far as its text tells."""

from __future__ import annotations

import ast
import re

from runner.core.types import Evaluator
from runner.inputs.evaluators.evaluator_files import MODULES

_MODULES = frozenset({"random", "secrets", "uuid", "time", "importlib"})
_NAMES = frozenset({"urandom", "getrandom", "now", "today", "utcnow", "default_rng", "RandomState", "__import__"})
_TYPESCRIPT = re.compile(r"\bMath\s*\.\s*random\b|\b(?:crypto|Date|performance|Temporal|import)\b(?!\s+type\b)")


_OF_FILES = re.compile(r"\b(?:[lf]?stat|stat_result|get[acm]time|scandir|st_\w+|realpath|resolve|readlink)\b")


def asks_of_files(evaluator: Evaluator) -> bool:
    """Say whether the script names what reads a file's times, owner or place, as far as its text tells."""
    return any(_OF_FILES.search(text) for text in (evaluator.source, *evaluator.files.values()))


def draws(evaluator: Evaluator) -> str | None:
    """
    Return the first name in the script that tells of random numbers or of the clock, such as `random`. None: there is
    none.

    What a package does inside is not seen.
    """
    modules = [text for name, text in evaluator.files.items() if name.endswith(MODULES)]
    if evaluator.language == "typescript":
        found = next(filter(None, map(_TYPESCRIPT.search, (evaluator.source, *modules))), None)
        return found[0] if found else None
    if evaluator.entry == "<json>" and re.search(r'"python"', evaluator.source):
        return "a script inside of JSON"
    return next(filter(None, map(_drawn, (evaluator.source, *modules))), None)


def _drawn(source: str) -> str | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "a script that cannot be parsed here"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Name):
            names = [node.id] if node.id in _NAMES else []
        else:
            continue
        if name := next((name for name in names if name in _MODULES or name in _NAMES), None):
            return name
    return None
