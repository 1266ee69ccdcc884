"""What runs behind a wall needs nothing but itself and the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from sandboxes import guest
from sandboxes.remote.agent_protocol import modules

FOLDER = Path(guest.__file__).parent
VENDORS = ("inspect_ai", "deepeval", "mlflow", "pydantic_evals", "opik", "weave", "ragas")
"""Imported by the parts of other tools' dialects, beside scripts that import them too."""
FILES = sorted(file for file in FOLDER.rglob("*.py") if file.parent.name != "wasm")


SENT = [FOLDER / f"{name.replace('.', '/')}.py" for kind in ("python", "typescript") for name in modules(kind)]
SENT += sorted((FOLDER / "container").glob("*.py"))
NEWER = {"anext", "aiter", "aclosing", "pairwise", "file_digest", "ExceptionGroup", "tomllib", "StrEnum", "TaskGroup"}


@pytest.mark.parametrize("file", dict.fromkeys(SENT), ids=lambda file: file.relative_to(FOLDER).as_posix())
def test_what_is_sent_to_machines_runs_on_python_3_9(file: Path) -> None:
    """What an image with that Python runs; containers of one are tried where there is an engine."""
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    for found in ast.walk(tree):
        assert getattr(found, "id", getattr(found, "attr", None)) not in NEWER, ast.dump(found)
        if isinstance(found, ast.Call):
            name = getattr(found.func, "id", getattr(found.func, "attr", None))
            assert not (name == "zip" and found.keywords), found.lineno
            assert name not in ("from_bytes", "to_bytes") or len(found.args) > 1, found.lineno
            assert name != "isinstance" or not isinstance(found.args[1], ast.BinOp), found.lineno
            assert name != "dataclass" or not found.keywords, found.lineno


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
