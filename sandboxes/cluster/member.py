"""One worker of a pool, and whether it is like the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sandboxes.cluster.worker import Reply
from sandboxes.errors import SandboxUnavailableError

_SAME = {"evalcell": "evalcell", "identity": "the sandbox", "lock": "packages"}
"""What decides scores, and must be the same everywhere, in words."""


@dataclass(eq=False)
class Member:
    """A worker that is there."""

    actor: Any
    where: str = "a node that did not answer"
    facts: Reply = field(default_factory=dict)
    """Its greeting, and what its sandbox is."""
    alive: bool = True
    busy: int = 0
    since: float = 0.0
    """When it last gave a reply to a batch."""
    batches: int = 0
    rows: int = 0


def refuse_other(first: Member, other: Member) -> None:
    """Raise SandboxUnavailableError if the other one differs in what decides scores."""
    for name, words in _SAME.items():
        if first.facts[name] != other.facts[name]:
            ours, theirs = ("others" if name == "lock" else str(member.facts[name]) for member in (first, other))
            raise SandboxUnavailableError(
                f"the worker at {other.where} differs from the one at {first.where} in {words} ({theirs}, not {ours}), "
                "which could change scores; install the same on each node"
            )


def last_line(error: BaseException) -> str:
    """The last line of an error, on one line and not long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
