"""What tests of a box's rights share: the filter of calls, and what this machine must have."""

from __future__ import annotations

import platform
import sys

import pytest

from sandboxes.boxes import seccomp
from sandboxes.boxes.syscalls import AARCH64, X86_64
from sandboxes.guest.box import confine

MACHINE = platform.machine()
NUMBERS = AARCH64 if MACHINE == "aarch64" else X86_64
LANDLOCK = confine.landlock_abi() if sys.platform == "linux" else 0
known_machine = pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason="no filter for this machine")
with_landlock = pytest.mark.skipif(LANDLOCK < confine.SCOPES, reason="needs Landlock 6")
either_user = pytest.mark.parametrize("ordinary", [False, True], ids=["as it is", "ordinary user"])
HARDEN = """
confine.no_new_privs()
confine.seccomp(bytes.fromhex(given["program"]))
"""


def program(network: bool = False, metadata: bool = False) -> str:
    return seccomp.program(MACHINE, network=network, metadata=metadata).hex()
