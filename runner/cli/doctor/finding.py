"""One thing that was looked at."""

from __future__ import annotations

from typing import Literal

from sandboxes.base import Model

State = Literal["ok", "warning", "problem"]


class Finding(Model):
    """What was found, and the next step where something is wrong."""

    name: str
    state: State
    """`problem`: something cannot work as it is. `warning`: something may not."""
    found: str
    step: str = ""


def ok(name: str, text: str) -> Finding:
    """Make a finding with nothing to do."""
    return Finding(name=name, state="ok", found=text)


def warning(name: str, text: str, step: str) -> Finding:
    """Make a finding that may be in the way."""
    return Finding(name=name, state="warning", found=text, step=step)


def problem(name: str, text: str, step: str) -> Finding:
    """Make a finding that is in the way."""
    return Finding(name=name, state="problem", found=text, step=step)


def megabytes(count: int) -> str:
    """Return a number of bytes of memory, which limits count in units of 1,024."""
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"
