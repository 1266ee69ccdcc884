"""What runs behind a wall needs nothing but itself and the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from sandboxes import guest

FOLDER = Path(guest.__file__).parent
VENDORS = ("inspect_ai", "deepeval", "mlflow", "pydantic_evals", "opik", "weave", "ragas")
"""Imported by the parts of other tools' dialects, beside scripts that import them too."""
FILES = sorted(file for file in FOLDER.rglob("*.py") if file.parent.name != "wasm")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(FOLDER).as_posix())
def test_it_imports_itself_and_the_standard_library_alone(file: Path) -> None:
    depth = len(file.relative_to(FOLDER).parts)
    for found in ast.walk(ast.parse(file.read_text())):
        if isinstance(found, ast.ImportFrom) and found.level:
            assert found.level <= depth, found.lineno
        elif isinstance(found, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in found.names] if isinstance(found, ast.Import) else [str(found.module)]
            known = {*sys.stdlib_module_names, *(VENDORS if file.parent.name == "foreign" else ())}
            assert {name.partition(".")[0] for name in names} <= known, found.lineno
