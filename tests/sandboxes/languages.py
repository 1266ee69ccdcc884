"""The same script in each language that a backend may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from sandboxes.base import Language

T = TypeVar("T")


@dataclass(frozen=True)
class Each(Generic[T]):
    """What differs from language to language, and means the same."""

    python: T
    typescript: T

    def __getitem__(self, language: Language) -> T:
        return self.python if language == "python" else self.typescript


Source = Each[str]
"""Of a script, in each language."""


def body(python: str, typescript: str) -> Source:
    """An `evaluate` without parameters that does just this."""
    return Source(
        python=f"def evaluate():\n    {python}\n",
        typescript=f"export async function evaluate() {{\n  {typescript}\n}}\n",
    )


ECHO = Source(
    python="def evaluate(x=None): return x\n",
    typescript="export const evaluate = ({x = null}: {x?: unknown}) => x;\n",
)

COUNTS = Source(
    python="""
count = 0
def evaluate(x=None):
    global count
    count += 1
    return count
""",
    typescript="""
let count = 0;
export function evaluate() {
  count += 1;
  return count;
}
""",
)
