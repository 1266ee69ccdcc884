"""What the process sandbox says: to its boxes, and to people about what became of them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sandboxes.errors import UnsupportedConfigError
from sandboxes.process.plan import PROTECTS, Tier
from sandboxes.replies import DEATHS, Death

_STEP = "use --sandbox wasm for a script that needs no packages"

DEATHS_HERE = DEATHS | {
    "processes": Death("crash", "ProcessLimit", "it had more processes than it may; start fewer"),
    "ended": Death("crash", "Crash", "its process has ended: {why}"),
    "unreadable": Death("crash", "Crash", "its process was spoilt by the script: {why}"),
}


def variables(names: tuple[str, ...]) -> dict[str, str]:
    """The caller's variables of these names. Raises UnsupportedConfigError for one that is not set."""
    found = {}
    for name in names:
        if name not in os.environ:
            raise UnsupportedConfigError(f"--env {name}: there is no such variable here; set it, or leave it out")
        found[name] = os.environ[name]
    return found


def none_works(refused: Mapping[Tier, str], wanted: Tier | None) -> str:
    """No tier, or only one that nobody allowed."""
    reasons = "; ".join(f"tier {tier}: {why}" for tier, why in refused.items())
    if wanted is not None:
        return f"the process sandbox cannot start in tier {wanted} here ({reasons or 'not on this platform'}); {_STEP}"
    return (
        f"the process sandbox can protect this machine's files in no way that it knows ({reasons}); {_STEP}; "
        "--allow-weak-isolation runs scripts that you trust"
    )


def weaker(tier: Tier, refused: Mapping[Tier, str]) -> str:
    reasons = "; ".join(f"tier {stronger} is not available: {why}" for stronger, why in refused.items())
    return f"isolation by tier {tier}, {PROTECTS[tier]} ({reasons})"
