"""Disks that cannot be written to."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

OWN_MOUNTS = ["unshare", "--mount", *([] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["--map-root-user"])]


@functools.cache
def _mounts() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*OWN_MOUNTS, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not _mounts(), reason="nothing can be mounted here")


def read_only(folder: Path, command: Sequence[str]) -> str:
    """
    What `command` prints where `folder` is on a read-only file system, whoever runs it.

    Raises CalledProcessError.
    """
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    whole = [*OWN_MOUNTS, "sh", "-c", script, str(folder), *command]
    return subprocess.run(whole, capture_output=True, text=True, check=True).stdout
