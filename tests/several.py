"""An evaluator of several files, in each language, and the same in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sandboxes.base import Language

ROWS: list[dict[str, Any]] = [{"output": "A", "reference": "a"}, {"output": "B", "reference": "a"}]
SCORES = [1.0, 0.0]


class Several(NamedTuple):
    """An evaluator of several files."""

    language: Language
    main: str
    source: str
    files: dict[str, str]
    whole: str
    """The same in one file."""

    def lay(self, folder: Path) -> Path:
        """Write it to a folder, which is returned."""
        for name, text in {self.main: self.source, **self.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return folder


PYTHON = Several(
    "python",
    "evaluator.py",
    "from helper import norm\n\n\n"
    "def evaluate(output, reference):\n    return float(norm(output) == norm(reference))\n",
    {"helper.py": "from deep.low import low as norm\n", "deep/low.py": "def low(text):\n    return text.lower()\n"},
    "def evaluate(output, reference):\n    return float(output.lower() == reference.lower())\n",
)
TYPESCRIPT = Several(
    "typescript",
    "evaluator.ts",
    'import { norm } from "./helper.ts";\n\n'
    "export const evaluate = (output: string, reference: string) => Number(norm(output) === norm(reference));\n",
    {
        "helper.ts": 'export { low as norm } from "./deep/low.ts";\n',
        "deep/low.ts": "export const low = (text: string): string => text.toLowerCase();\n",
    },
    "export const evaluate = (output: string, reference: string) =>\n"
    "  Number(output.toLowerCase() === reference.toLowerCase());\n",
)
both = pytest.mark.parametrize("several", [PYTHON, TYPESCRIPT], ids=lambda one: one.language)
