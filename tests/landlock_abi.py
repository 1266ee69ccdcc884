"""Hold this machine's Landlock down to an older version, for tests: boxes do then as on an older kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sandboxes.boxes import landlock

VARIABLE = "EVALCELL_TEST_LANDLOCK_ABI"
"""Only tests read it."""

_COVERED = "hostile scripts with another version of Landlock"

VERSIONS = [
    pytest.param(None, id="as it is"),
    pytest.param(1, id="landlock-1", marks=pytest.mark.rotating("hostile, with the first Landlock")),
    *(pytest.param(n, id=f"landlock-{n}", marks=pytest.mark.thorough(_COVERED)) for n in (3, 5, 6)),
]
"""For hostile suites; one alone by `-k landlock-3`. Held down, they run in tier B."""


def hold() -> None:
    """Hold it down as the variable says, in a process of tests."""
    if held := os.environ.get(VARIABLE):
        real: Any = landlock.abi
        landlock.abi = lambda: min(int(held), real())


@contextmanager
def held(version: int | None) -> Iterator[None]:
    """Hold it down meanwhile, also in processes of tests that are started."""
    with pytest.MonkeyPatch.context() as patch:
        if version is not None:
            if landlock.abi() < version:
                pytest.skip(f"needs Landlock {version}")
            patch.setenv(VARIABLE, str(version))
            patch.setattr(landlock, "abi", lambda: version)
        yield
