"""Find the Deno that runs scripts."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from sandboxes.errors import SandboxUnavailableError
from sandboxes.guest.supervisor import shortage

VARIABLE = "EVALCELL_DENO"
"""The path of a Deno to use in place of the package's."""

INSTALL = "run: pip install 'evalcell[deno]'"
_SECONDS = 20


def find_deno() -> str:
    """
    Return the path of the executable: that in EVALCELL_DENO, else that of the package `deno`.

    Raises SandboxUnavailableError, which says what to install or set.
    """
    if named := os.environ.get(VARIABLE):
        path = Path(named)
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise SandboxUnavailableError(
                f"{VARIABLE}={named} cannot be executed; set it to the path of Deno, or unset it"
            )
        return str(path.resolve())
    try:
        from deno import find_deno_bin
    except ImportError:
        raise SandboxUnavailableError(f"the deno sandbox needs Deno; {INSTALL}") from None
    try:
        return str(Path(find_deno_bin()).resolve())
    except FileNotFoundError:
        raise SandboxUnavailableError(
            f"the package deno has no program for this machine; install Deno and set {VARIABLE} to its path"
        ) from None


def requirement() -> str:
    """
    Return the requirement that installs the same Deno on another machine.

    Raises:
        SandboxUnavailableError: If the package `deno` is not installed here.
    """
    try:
        return f"deno=={metadata.version('deno')}"
    except metadata.PackageNotFoundError:
        raise SandboxUnavailableError(
            f"TypeScript on another machine needs the package deno on this one; {INSTALL}"
        ) from None


@cache
def version(program: str) -> str:
    """Return Deno's version, such as `2.9.8`, read once. Raises SandboxUnavailableError if it does not start."""
    variables = {"DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1", "DENO_DIR": os.devnull, "HOME": os.devnull}
    try:
        done = subprocess.run([program, "--version"], env=variables, capture_output=True, timeout=_SECONDS, check=True)
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        words = next((line.split() for line in lines if line.startswith("deno ")), None)  # a wrapper may say more
        if words is None:
            raise ValueError(f"it says {lines[0]!r}")
        return words[1]
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as e:
        if short := shortage.why(e):
            raise SandboxUnavailableError(f"Deno cannot be started: {short}") from e
        why = f"exit code {e.returncode}" if isinstance(e, subprocess.CalledProcessError) else str(e)
        raise SandboxUnavailableError(
            f"{program} is not a Deno that works ({why}); {INSTALL}, or set {VARIABLE}"
        ) from e
