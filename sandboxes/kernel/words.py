"""What sandboxes in boxes say to people about what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sandboxes.kernel.plan import PROTECTS, Tier
from sandboxes.replies import DEATHS, Death

DEATHS_HERE = DEATHS | {
    "processes": Death("crash", "ProcessLimit", "it had more processes than it may; start fewer"),
    "ended": Death("crash", "Crash", "its process has ended: {why}"),
    "unreadable": Death("crash", "Crash", "the script broke the process that runs it: {why}"),
}


LEFT = {
    "descriptors": "an open file, socket or event loop",
    "threads": "a thread",
    "processes": "a process",
    "files": "a file in the temporary folder",
    "memory": "shared memory",
    "signals": "a signal handler or a timer",
    "hooks": "a hook in Python itself",
    "patches": "a change to a module of Python itself",
}
"""What loading a script may leave that its runs would share, by the words of process/inside/leftovers.py."""


def reload(left: Iterable[str], isolation: str) -> str:
    """Why a script is loaded anew for each call or batch."""
    found = " and ".join(words for name, words in LEFT.items() if name in left)
    each = "row" if isolation == "call" else "batch"
    return f"loading leaves {found}, so the script is loaded anew for each {each}; do that inside evaluate to be faster"


def none_works(name: str, refused: Mapping[Tier, str], wanted: Tier | None) -> str:
    """No tier, or only one that nobody allowed."""
    reasons = "; ".join(f"tier {tier}: {why}" for tier, why in refused.items())
    if wanted is not None:
        return f"the {name} sandbox cannot start in tier {wanted} here ({reasons or 'not on this platform'})"
    return (
        f"the {name} sandbox cannot protect this machine's files here ({reasons}); "
        "SandboxConfig(allow_weak_isolation=True) runs scripts that you trust"
    )


def weaker(tier: Tier, refused: Mapping[Tier, str]) -> str:
    reasons = "; ".join(f"tier {stronger} is not available: {why}" for stronger, why in refused.items())
    return f"isolation by tier {tier}, {PROTECTS[tier]} ({reasons})"
